"""The file operations of this package, and the error for their failures.

The operations raise OSError; the caller, who knows the directory, turns the error into
`LogDirectoryFailed` with `disk_failed`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from strandline.broker_interface import Buffer
from strandline.errors import CorruptBatch, LogDirectoryFailed

BUFFERS_PER_WRITE_MAX = 1024
"""Linux takes at most this many buffers in one pwritev (IOV_MAX)."""
FILE_MODE = 0o640


def disk_failed(
    directory: Path, operation: str, error: OSError | CorruptBatch
) -> LogDirectoryFailed:
    """Make the error that takes a log directory offline: directory, operation, errno name."""
    if isinstance(error, CorruptBatch):
        return LogDirectoryFailed(f"{directory}: {operation}: {error}")
    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return LogDirectoryFailed(f"{directory}: {operation}: {name}")


def write_all(fd: int, buffers: Sequence[Buffer], position: int) -> None:
    """Write buffers one behind another at a position, in one system call if it takes them all."""
    pending = list(buffers)
    while pending:
        written = os.pwritev(fd, pending[:BUFFERS_PER_WRITE_MAX], position)
        position += written
        while pending and written >= len(pending[0]):
            written -= len(pending.pop(0))
        if written:
            pending[0] = memoryview(pending[0])[written:]


def read_exactly(fd: int, length: int, position: int) -> bytes:
    """Read a known range of a file; OSError(EIO) if the file ends early: another program cut it."""
    data = os.pread(fd, length, position)
    while len(data) < length:
        more = os.pread(fd, length - len(data), position + len(data))
        if not more:
            raise OSError(errno.EIO, "file is shorter than what was written to it")
        data += more
    return data


def sync_folder(folder: Path) -> None:
    """Make creations, renames and removals in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file whole and durably: temporary file, fsync, rename, fsync of the folder.

    A crash at any moment leaves the old content or the new one, never a mixture.
    """
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        write_all(fd, [content], 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.rename(path)
    sync_folder(path.parent)

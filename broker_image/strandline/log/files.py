"""The file operations of this package, and the error for their failures.

The operations raise OSError; the caller, who knows the directory, turns the error into
`LogDirectoryFailed` with `disk_failed`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from strandline.broker_interface import Buffer
from strandline.errors import CorruptBatch, LogDirectoryFailed, LogDirectoryFull

BUFFERS_PER_WRITE_MAX = 1024
"""Linux takes at most this many buffers in one pwritev (IOV_MAX)."""
FILE_MODE = 0o640
SYNC_FILE_RANGE_WRITE = 2
"""Of linux/fs.h: begin the write-out of dirty pages that nobody writes yet."""
TEMPORARY_SUFFIX = ".tmp"

_sync_file_range = ctypes.CDLL(None, use_errno=True).sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


class FsyncFailed(OSError):
    """The kernel may have dropped pages of this file, whatever the errno says."""


def is_full(error: BaseException) -> bool:
    """Tell whether a call found no space or no quota, and so changed nothing.

    An fsync that finds no space has lost what was written before (thin volumes, NFS).
    """
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return full and not isinstance(error, FsyncFailed)


def disk_failed(
    directory: Path, operation: str, error: OSError | CorruptBatch | IndexError
) -> LogDirectoryFailed:
    """Make the error that takes a log directory offline: directory, operation, errno name."""
    if not isinstance(error, OSError):
        return LogDirectoryFailed(f"{directory}: {operation}: {error}")
    name = errno.errorcode.get(error.errno or 0, type(error).__name__)
    kind = LogDirectoryFull if is_full(error) else LogDirectoryFailed
    return kind(f"{directory}: {operation}: {name}")


def sync_data(fd: int) -> None:
    """Make the content of a file durable; FsyncFailed if that fails."""
    try:
        os.fdatasync(fd)
    except OSError as error:
        raise FsyncFailed(error.errno, error.strerror) from error


def begin_write_out(fd: int, start: int, size: int) -> None:
    """Have the kernel begin to write a range of a file to disk; it waits for nothing.

    Nor does it take a write error, which stays for the next fsync of the file.
    """
    if _sync_file_range(fd, start, size, SYNC_FILE_RANGE_WRITE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def leave_page_cache(fd: int, start: int, size: int) -> None:
    """Let the pages of a range go that are on disk; the others stay."""
    os.posix_fadvise(fd, start, size, os.POSIX_FADV_DONTNEED)


def sync_file(fd: int) -> None:
    """Make a file or folder durable; FsyncFailed if that fails."""
    try:
        os.fsync(fd)
    except OSError as error:
        raise FsyncFailed(error.errno, error.strerror) from error


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


def read_cached(fd: int, length: int, position: int) -> bytes:
    """Read a range of a file that is in memory.

    Raises:  BlockingIOError if not all of it is, or if the file system cannot tell
    """
    data = bytearray(length)
    try:
        count = os.preadv(fd, [data], position, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            raise BlockingIOError(errno.EAGAIN, "the file system does not tell") from error
        raise
    if count < length:
        raise BlockingIOError(errno.EAGAIN, "not in memory")
    return bytes(data)


def content_of(path: Path) -> bytes:
    """Return the content of a small file, nothing if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def sync_folder(folder: Path) -> None:
    """Make creations, renames and removals in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(fd)
    finally:
        os.close(fd)


def rewrite_file(path: Path, content: bytes) -> None:
    """Replace a file whole, for a reader of this boot; if that fails there is no such file.

    It may be torn or empty after the machine has failed: only a checksum elsewhere makes it good.
    Several threads may do it at once; one of their contents stays.
    """
    temporary = path.with_name(f"{path.name}.{threading.get_native_id()}{TEMPORARY_SUFFIX}")
    try:
        temporary.write_bytes(content)
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file whole and durably: temporary file, fsync, rename, fsync of the folder.

    A crash at any moment leaves the old content or the new one, never a mixture. One thread at a
    time replaces a file. What is not durable is without both fsyncs: a killed process leaves one of
    the contents, and a failed machine may leave a torn or an empty file.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        write_all(fd, [content], 0)
        if durable:
            sync_file(fd)
    finally:
        os.close(fd)
    temporary.rename(path)
    if durable:
        sync_folder(path.parent)

"""A cut of a segment's file whose blocks are freed off the event loop (ADR 0058).

The disk takes a millisecond or so for each MiB that it frees. So a long tail stays in the file for
a while, behind a mark at its first byte: a process that dies meanwhile finds the mark at its next
start, and none of the records behind it. The tail goes before anything is written in its place.

Invariant: while a mark is in a file, nothing was appended behind it, to this file or to another.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Final

from .batch_scan import CUT_MARK
from .files import is_full, sync_file, write_all
from .segment_part import OpenFile

CUT_AT_ONCE_BYTES_MAX: Final = 4 << 20
"""Bytes that a file system frees in less than a millisecond or so."""
CUT_STEP_BYTES: Final = 64 << 20
"""A file gives up this many bytes at a time: a big cut in one call would hold the file system's
journal, and with it the writes of other logs."""


class SegmentCut:
    """A tail to be cut off a file, which is marked; any thread may `run` it."""

    __slots__ = ("_file", "_lock", "_old_bytes", "is_done", "size_bytes")

    def __init__(self, file: OpenFile, *, size_bytes: int, old_bytes: int) -> None:
        self._file = file
        self._old_bytes = old_bytes
        self._lock = Lock()
        self.size_bytes = size_bytes
        self.is_done = False

    def run(self) -> None:
        """Cut the tail off, from its end on, and make that durable, once; OSError."""
        with self._lock:
            if self.is_done:
                return
            fd = self._file.fd
            for size_bytes in range(
                self._old_bytes - CUT_STEP_BYTES, self.size_bytes, -CUT_STEP_BYTES
            ):
                os.ftruncate(fd, size_bytes)
            os.ftruncate(fd, self.size_bytes)
            # Records that are written in its place could be on disk before it, and the mark stay.
            sync_file(fd)
            self.is_done = True


def cut_or_mark(
    file: OpenFile, *, size_bytes: int, old_bytes: int, at_once_max: int
) -> SegmentCut | None:
    """Cut a file between two batches; a tail of more than at_once_max bytes is marked only.

    A full volume may have no room for a mark: then the tail goes at once.

    Returns: the cut that is left to be run; OSError if the file cannot be changed
    """
    if old_bytes - size_bytes > at_once_max:
        try:
            write_all(file.fd, [CUT_MARK], size_bytes)
        except OSError as error:
            if not is_full(error):
                raise
        else:
            return SegmentCut(file, size_bytes=size_bytes, old_bytes=old_bytes)
    os.ftruncate(file.fd, size_bytes)
    return None

"""What the logs of a broker keep in the page cache of all that they wrote: one budget for all.

Without a bound, every record that is written takes a page that was free. A virtual machine that
gives free memory back to its host pays ten times as much for the first use of such a page as for a
later one; and where memory is short, records that nobody will read again push out what is read. So
what was written before the last `log.page.window.bytes` leaves the page cache, and its pages take
the next records. Followers and consumers within the window read from memory as before; one that
lags behind it reads from disk (ADR 0070).

The kernel begins to write a part to disk as soon as it is whole, so that it is clean when it has to
leave. Nothing waits for the disk here: a wait would take the write error that the log's own fsync
must see.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from strandline.log.files import begin_write_out, leave_page_cache

PART_BYTES: Final = 1 << 20
"""Bytes of one file that go to disk, and leave the page cache, together."""
PARTS_WAITING_MAX: Final = 256
"""Parts that wait for the thread; further ones stay in the page cache, as without a window."""

Advice = Callable[[int, int, int], None]


class PageWindow:
    """The last bytes that were written to all logs; one thread calls it.

    It counts whole parts: of each file up to PART_BYTES more stay.
    """

    def __init__(self, *, window_bytes: int) -> None:
        self._parts_max = window_bytes // PART_BYTES
        self._parts: deque[tuple[Path, int]] = deque()
        self._due: deque[tuple[Advice, Path, int]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="page-window")
        self._work: Future[None] | None = None

    def note(self, path: Path, start: int, end: int) -> None:
        """Note that the bytes from start to end of a file were written, behind all others."""
        for part in range(start // PART_BYTES, end // PART_BYTES):
            self._add(path, part * PART_BYTES)

    def _add(self, path: Path, start: int) -> None:
        if len(self._due) >= PARTS_WAITING_MAX:
            return
        self._due.append((begin_write_out, path, start))
        self._parts.append((path, start))
        if len(self._parts) > self._parts_max:
            self._due.append((leave_page_cache, *self._parts.popleft()))
        if self._work is None or self._work.done():
            self._work = self._thread.submit(self._advise)

    def _advise(self) -> None:
        """Give the kernel what is due. What it refuses, or what is gone, stays as it is."""
        while self._due:
            advice, path, start = self._due.popleft()
            # By its path: an open file would keep the disk space of a deleted segment.
            with suppress(OSError):
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    advice(fd, start, PART_BYTES)
                finally:
                    os.close(fd)

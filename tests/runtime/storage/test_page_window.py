"""What was written before the window leaves the page cache, and what a reader finds is the same."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from strandline.log.files import sync_data
from strandline.runtime.storage.page_window import PART_BYTES, PageWindow
from tests.support.eventually import eventually

LIMIT_MS = 20_000
PAGE_BYTES = 4096
LIBC = ctypes.CDLL(None, use_errno=True)
WINDOW_PARTS = 2
ON_DISK = Path("/var/tmp")
"""A temporary folder may be in memory, where every page stays."""


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(dir=ON_DISK, prefix="page-window-") as made:
        yield Path(made)


def is_cached(path: Path, part: int) -> bool:
    """Tell whether the first page of a part is in memory.

    A read that must not wait (RWF_NOWAIT) would tell too, but begins to read the page ahead.
    """
    at, size, resident = part * PART_BYTES, ctypes.c_size_t(PAGE_BYTES), ctypes.c_ubyte()
    with path.open("r+b") as file, mmap(file.fileno(), PAGE_BYTES, offset=at) as page:
        start = ctypes.c_char.from_buffer(page)
        told = LIBC.mincore(ctypes.byref(start), size, ctypes.byref(resident))
        del start  # What points into the map keeps it open.
    if told != 0:
        raise OSError(ctypes.get_errno(), "mincore")
    return bool(resident.value & 1)


def write(window: PageWindow, path: Path, *, parts: int, at: int = 0) -> None:
    """Write parts, each of which has its number, bring them to disk and note them."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(at * PART_BYTES)
        for number in range(at, at + parts):
            file.write(bytes([number]) * PART_BYTES)
        file.flush()
        sync_data(file.fileno())
    window.note(path, at * PART_BYTES, (at + parts) * PART_BYTES)


def test_what_was_written_before_the_window_leaves_the_page_cache(folder: Path) -> None:
    window, path = PageWindow(window_bytes=WINDOW_PARTS * PART_BYTES), folder / "a.log"
    write(window, path, parts=5)
    gone = [0, 1, 2]
    eventually(lambda: not any(is_cached(path, part) for part in gone), LIMIT_MS, "pages let go")
    assert [part for part in range(5) if is_cached(path, part)] == [3, 4]
    assert path.read_bytes() == b"".join(bytes([part]) * PART_BYTES for part in range(5))


def test_all_files_share_one_window(folder: Path) -> None:
    window = PageWindow(window_bytes=WINDOW_PARTS * PART_BYTES)
    old, new = folder / "old.log", folder / "new.log"
    write(window, old, parts=2)
    assert is_cached(old, 0)
    write(window, new, parts=2)
    eventually(lambda: not is_cached(old, 0) and not is_cached(old, 1), LIMIT_MS, "old file let go")
    assert is_cached(new, 0)


def test_a_file_that_is_gone_costs_nothing_and_the_next_ones_still_leave(folder: Path) -> None:
    window = PageWindow(window_bytes=PART_BYTES)
    deleted, path = folder / "deleted.log", folder / "kept.log"
    write(window, deleted, parts=1)
    deleted.unlink()
    write(window, path, parts=3)
    eventually(lambda: not is_cached(path, 1), LIMIT_MS, "the part before the last one let go")


def test_appends_that_end_within_a_part_count_once_it_is_whole(folder: Path) -> None:
    window, path = PageWindow(window_bytes=0), folder / "a.log"
    half = PART_BYTES // 2
    path.write_bytes(bytes(PART_BYTES))
    with path.open("rb") as file:
        sync_data(file.fileno())
    window.note(path, 0, half)
    assert is_cached(path, 0)
    window.note(path, half, PART_BYTES)
    eventually(lambda: not is_cached(path, 0), LIMIT_MS, "the whole part let go")

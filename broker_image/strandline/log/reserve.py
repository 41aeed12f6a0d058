"""A file that keeps room on the volume for the small files of a start.

A start on a full disk gives it up, and then has room to write meta, state and checkpoints. Called
by `data_directory` while it holds the lock.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from .files import FILE_MODE

RESERVE_FILE: Final = ".reserve"
RESERVE_BYTES: Final = 4 << 20
"""Two state files of 10,000 partitions; the other small files are smaller."""
FREE_RESERVES_MIN: Final = 4
"""The reserve is made while the volume has room for this many: it must not fill a small one."""


def keep_reserve(root: Path) -> None:
    """Make the file unless it is there or the volume has too little room; OSError if it fails."""
    path, volume = root / RESERVE_FILE, os.statvfs(root)
    if path.exists() and path.stat().st_size == RESERVE_BYTES:
        return
    if volume.f_bavail * volume.f_frsize < FREE_RESERVES_MIN * RESERVE_BYTES:
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, FILE_MODE)
    try:
        os.posix_fallocate(fd, 0, RESERVE_BYTES)
    finally:
        os.close(fd)


def give_up_reserve(root: Path) -> bool:
    """Remove the file; False if there is none."""
    try:
        (root / RESERVE_FILE).unlink()
    except FileNotFoundError:
        return False
    return True

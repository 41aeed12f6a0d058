"""Small file systems for tests of full and read-only disks."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.eventually import eventually

BOUNDED_WITHIN_MS = 10_000


@contextmanager
def mounted_tmpfs(path: Path, options: str) -> Iterator[Path]:
    """Mount a tmpfs for the time of a context; permissions do not keep root from writing."""
    path.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "strandline-test", str(path)]
    assert subprocess.run(command, check=False).returncode == 0, "mounting a tmpfs needs root"
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def remount(path: Path, options: str) -> None:
    """Change the bounds of a mounted tmpfs, as a volume that grows."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(path)], check=True)


def used_inodes(path: Path) -> int:
    """Return how many files and folders a file system holds."""
    volume = os.statvfs(path)
    return volume.f_files - volume.f_ffree


def leave_no_inode(path: Path) -> None:
    """Bound a file system to the files that it holds.

    A broker that makes another one between the look and the mount is looked at again.
    """

    def bounded() -> bool:
        remount(path, f"nr_inodes={used_inodes(path)}")
        return True

    mistaken = (subprocess.CalledProcessError,)
    eventually(bounded, BOUNDED_WITHIN_MS, "no inode is left", retry_on=mistaken)


def fill_volume(path: Path, name: str = "filler") -> Path:
    """Write a file until there is no space, and return it."""
    filler = path / name
    with filler.open("wb", buffering=0) as file:
        while os.statvfs(path).f_bavail:
            file.write(bytes(4096))
    return filler


@contextmanager
def mounted_image(image: Path, path: Path) -> Iterator[Path]:
    """Mount an image of a file system for the time of a context."""
    path.mkdir(exist_ok=True)
    command = ["mount", "-o", "loop", str(image), str(path)]
    assert subprocess.run(command, check=False).returncode == 0, "mounting an image needs root"
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)

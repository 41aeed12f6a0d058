"""The identity of a mount: the same for every process, another one after each mount.

Tests that mount something need root, as the tier of processes does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from strandline.log import mount_identity as module
from strandline.log.mount_identity import mount_identity
from tests.support.volumes import mounted_image, mounted_tmpfs

IMAGE_BYTES = 16 << 20


def in_another_mount_namespace(folder: Path) -> str:
    """Ask from a process that sees other mount ids, as a restarted container does."""
    call = f"print(mount_identity(Path({str(folder)!r})), end='')"
    program = f"from pathlib import Path; from {module.__name__} import mount_identity; {call}"
    command = ["unshare", "--mount", sys.executable, "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.processes
def test_a_volume_mounted_again_in_the_same_boot_is_another_mount(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    seen = []
    for _ in range(2):
        with mounted_image(image, tmp_path / "mounted") as folder:
            seen.append(mount_identity(folder))
            assert mount_identity(folder) == seen[-1]
            assert in_another_mount_namespace(folder) == seen[-1]
            (folder / "below").mkdir(exist_ok=True)
            assert mount_identity(folder / "below") == seen[-1]
    assert seen[0].startswith("ext4/loop")
    assert seen[0] != seen[1]


@pytest.mark.processes
def test_a_file_system_in_memory_ends_with_its_mount(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path / "memory", "size=1m") as folder:
        assert mount_identity(folder).startswith("tmpfs 0:")
    assert mount_identity(tmp_path) != ""


def test_what_the_kernel_does_not_tell_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mount_identity(tmp_path / "absent") == ""
    monkeypatch.setattr(module, "SYSFS", tmp_path)
    assert mount_identity(tmp_path) == ""


@pytest.mark.parametrize(
    ("line", "sysfs_folder", "expected"),
    [
        ("1 0 0:9 / / rw - btrfs /dev/vdb rw", "fs/btrfs/uuid/devices/vdb", "btrfs/uuid "),
        ("1 0 0:9 / / rw - overlay overlay rw,upperdir=/a", "", "overlay "),
        ("1 0 0:9 / / rw - zfs pool rw", "", ""),
        ("no mount at all", "", ""),
    ],
)
def test_file_systems_without_a_device_of_their_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    sysfs_folder: str,
    expected: str,
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(line + "\n")
    (tmp_path / sysfs_folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(module, "MOUNTS", mounts)
    monkeypatch.setattr(module, "SYSFS", tmp_path)
    found = mount_identity(tmp_path)
    assert found.startswith(expected)
    assert (found == "") == (expected == "")

"""Which mount of which file system holds a folder, as far as the kernel tells an unprivileged pod.

A kernel that lives on does not prove that a volume stayed mounted: it may have been detached and
attached again, or rolled back to a snapshot. An unmount may also hide a failed write: the pages
go, and no fsync is left to report it. So the same boot proves a clean start only with the same
mount (ADR 0002).

The kernel makes a folder of sysfs for each mounted ext4, XFS or F2FS, and for each network file
system, and numbers these folders in ascending order. A mount of the same volume later in the same
boot has another number. All containers of a machine see the same numbers, unlike mount ids, which
differ between containers. Btrfs has such a folder per file system, too. An overlay keeps no pages
of its own; its layers must stay mounted as long as containers run.

Source: Linux fs/kernfs/dir.c (__kernfs_new_node: idr_alloc_cyclic), fs/ext4/sysfs.c,
fs/xfs/xfs_mount.c, mm/backing-dev.c.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Final, NamedTuple

SYSFS: Final = Path("/sys")
MOUNTS: Final = Path("/proc/self/mountinfo")
IN_MEMORY: Final = {"tmpfs", "ramfs"}
"""File systems whose content ends with their mount: what is found proves the mount."""


class _Mount(NamedTuple):
    point: Path
    type: str
    source: str
    options: str


def mount_identity(folder: Path) -> str:
    """Return a text that no other mount has within one boot; "" if the kernel tells none."""
    try:
        number = folder.stat().st_dev
        device = f"{os.major(number)}:{os.minor(number)}"
        mount = _mount_of(folder.resolve())
        if mount.type in IN_MEMORY:
            return f"{mount.type} {device}"
        if mount.type == "overlay":
            return f"overlay {zlib.crc32(mount.options.encode()):08x}"
        if mount.type == "btrfs":
            name = Path(mount.source).name
            found = [path.parents[1] for path in (SYSFS / "fs").glob(f"btrfs/*/devices/{name}")]
        elif os.major(number) == 0:
            found = [SYSFS / "class" / "bdi" / device]
        else:
            name = (SYSFS / "dev" / "block" / device).resolve(strict=True).name
            found = sorted((SYSFS / "fs").glob(f"*/{name}"))
        return " ".join(f"{path.parent.name}/{path.name} {path.stat().st_ino}" for path in found)
    except OSError:
        return ""


def _mount_of(folder: Path) -> _Mount:
    """Return the mount with the longest mount point above a folder; of equal ones, the last."""
    mounts = [
        _mount_from(line)
        for line in MOUNTS.read_text(errors="replace").splitlines()
        if " - " in line
    ]
    above = [mount for mount in mounts if folder.is_relative_to(mount.point)]
    if not above:
        raise FileNotFoundError(folder)
    longest = max(len(mount.point.parts) for mount in above)
    return [mount for mount in above if len(mount.point.parts) == longest][-1]


def _mount_from(line: str) -> _Mount:
    """Read a line of mountinfo; see proc_pid_mountinfo(5)."""
    place, _, rest = line.partition(" - ")
    kind, source, options = rest.split(" ", 2)
    point = place.split(" ")[4].replace("\\040", " ")
    return _Mount(point=Path(point), type=kind, source=source, options=options)

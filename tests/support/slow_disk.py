"""A broker's volume that writes only so many bytes a second, by the kernel's own bound of a pod.

The volume must be a device of its own, as those of the storage class `sized` are. Only writes that
the broker waits for are slow: what it leaves in the page cache is written by nobody's account.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cluster import Cluster

BOUND = "blkio.throttle.write_bps_device"
GROUPS = Path("/sys/fs/cgroup/blkio")
DEVICE = "import os; found = os.stat('{path}').st_dev; print(os.major(found), os.minor(found))"
DATA = "/var/lib/strandline"


@contextmanager
def slow_disk(
    cluster: Cluster, namespace: str, pod: str, *, bytes_per_second: int
) -> Iterator[None]:
    """Bound what the processes of a pod write to its volume, for the time of a context."""
    printed = cluster.exec(namespace, pod, "python", "-c", DEVICE.format(path=DATA))
    device = ":".join(printed.split())
    uid = cluster.get(f"pod/{pod}", "-n", namespace)["metadata"]["uid"]
    # A bound holds for one group alone, not for those below it.
    groups = [path.parent for path in GROUPS.glob(f"**/pod{uid}/**/{BOUND}")]
    assert groups, f"no control group of pod {uid}"
    for group in groups:
        (group / BOUND).write_text(f"{device} {bytes_per_second}\n")
    try:
        yield
    finally:
        for group in groups:
            # The group of a container that has ended is gone.
            if group.exists():
                (group / BOUND).write_text(f"{device} 0\n")

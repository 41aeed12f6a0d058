"""Let both clusters become as fast as they get before anything counts.

Java compiles what it runs often, and again what it runs more often: Kafka of one machine of two
cores took its first 4 GiB at half the speed of its twelfth. The Strandline brokers get the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .cluster import Cluster
from .trials import Machine

WARM_GIB_MIN: Final = 8
"""Kafka stands still for a while from its third GiB on, and has half of its speed yet to gain."""
WARM_GIB_MAX: Final = 24
STEADY_GIB: Final = 3
GAIN_MAX: Final = 1.05
"""A cluster is warm once STEADY_GIB in a row were at most so much faster than all before them."""
PARTITIONS: Final = 6


def warm(machine: Machine, cluster: Cluster, gib_max: int) -> None:
    """Let a cluster take and give GiB after GiB until it is warm, gib_max of them at most."""
    speeds: list[float] = []
    while len(speeds) < gib_max and not is_warm(speeds):
        topic = machine.new_topic(cluster, PARTITIONS)
        what = {"topic": topic, "partitions": PARTITIONS, "mib": 1 << 10}
        made, _ = machine.driven(cluster, "produce", value_bytes=1024, **what)
        machine.driven(cluster, "consume", **what | {"mib": (1 << 10) * 9 // 10})
        cluster.delete_topic(topic)
        speeds.append(made["bytes"] / made["seconds"] / 1e6)
        print(f"warming: {cluster.name}: GiB {len(speeds)} at {speeds[-1]:.0f} MB/s", flush=True)
    if gib_max and not is_warm(speeds):
        print(f"warming: {cluster.name} is not known to be warm after {gib_max} GiB", flush=True)


def is_warm(speeds: Sequence[float]) -> bool:
    """Tell whether the last GiB were hardly faster than the fastest one before them."""
    before, last = speeds[:-STEADY_GIB], speeds[-STEADY_GIB:]
    return len(speeds) >= WARM_GIB_MIN and max(last) <= GAIN_MAX * max(before)

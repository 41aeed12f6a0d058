"""Topics that could be brought back: brokers have logs of their ids, and no topic has the ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .kubectl import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A topic id without a topic; replicas holds the brokers that have logs, by partition.

    topic_name is "" if no broker knows it; deleted_at is when its logs came to the trash, "" if
    none is there.
    """

    topic_id: str
    topic_name: str
    partitions: int
    in_trash: bool
    deleted_at: str
    replicas: Mapping[int, tuple[int, ...]]

    def __str__(self) -> str:
        where = "in the trash" if self.in_trash else "on disk"
        since = f" since {self.deleted_at}" if self.deleted_at else ""
        name = self.topic_name or "a topic"
        return f"{name} ({self.topic_id}, {self.partitions} partitions, {where}{since})"


def strays_of(cluster: Object) -> list[Stray]:
    """Return what the controller has written into the status of a BrokerCluster."""
    return [
        Stray(
            topic_id=found["topicId"],
            topic_name=found["topicName"],
            partitions=found["partitions"],
            in_trash=found["inTrash"],
            deleted_at=found.get("deletedAt", ""),
            replicas={each["partition"]: tuple(each["brokers"]) for each in found["replicas"]},
        )
        for found in cluster.get("status", {}).get("strays", ())
    ]


def strays_left_out(cluster: Object) -> int:
    """Return how many strays found no room in the status of a BrokerCluster."""
    status = cluster.get("status", {})
    return max(0, int(status.get("straysTotal", 0)) - len(status.get("strays", ())))

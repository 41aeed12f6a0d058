"""Which brokers keep which partition: Kafka's spread, as a function of the partition's number.

Called by the operator when it creates Partition objects; imports the model alone. The
answer for a partition does not depend on how many partitions were asked for or already
exist: partitions added later continue the spread, and one that was lost and is made again
gets the very brokers that have its data.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from .errors import StrandlineError
from .model import BrokerId, TopicId


class PlacementRefused(StrandlineError):
    """No assignment exists for these numbers."""


class TooFewBrokers(PlacementRefused):
    """More replicas were asked for than there are brokers; two on one broker protect nothing."""

    def __init__(self, *, replication_factor: int, brokers: int) -> None:
        super().__init__(f"{replication_factor} replicas need as many brokers, there are {brokers}")
        self.replication_factor = replication_factor
        self.brokers = brokers


def place_partition(
    partition: int,
    *,
    brokers: Sequence[BrokerId],
    replication_factor: int,
    start: int,
    shift: int,
) -> tuple[BrokerId, ...]:
    """Return the replicas of one partition, the preferred leader first.

    First replicas go round all brokers from `start`; the distance between the first and the
    others grows by one each round, so that the followers of a broker's partitions are spread
    over all others instead of weighing on its neighbour.

    Shape:   brokers are distinct; their order does not matter
    Raises:  TooFewBrokers
    Source:  Kafka AdminUtils.assignReplicasToBrokersRackUnaware. Kafka lets added partitions
             begin the shift anew; here they continue it.
    """
    ordered = sorted(brokers)
    count = len(ordered)
    if not 1 <= replication_factor <= count:
        raise TooFewBrokers(replication_factor=replication_factor, brokers=count)
    first = (partition + start) % count
    distance = shift + partition // count
    replicas = [ordered[first]]
    for follower in range(replication_factor - 1):
        step = 1 + (distance + follower) % (count - 1)
        replicas.append(ordered[(first + step) % count])
    return tuple(replicas)


def place_topic(
    topic_id: TopicId,
    partitions: Sequence[int],
    *,
    brokers: Sequence[BrokerId],
    replication_factor: int,
) -> dict[int, tuple[BrokerId, ...]]:
    """Return the replicas of some partitions of a topic, by partition number.

    Kafka draws start and shift at random; here the topic id is their seed, which spreads
    topics as well and gives the same answer each time.

    Raises:  TooFewBrokers
    """
    seed = zlib.crc32(topic_id.encode())
    count = max(1, len(brokers))
    return {
        partition: place_partition(
            partition,
            brokers=brokers,
            replication_factor=replication_factor,
            start=seed % count,
            shift=seed // count % count,
        )
        for partition in partitions
    }

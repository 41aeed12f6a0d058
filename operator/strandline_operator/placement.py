"""Which brokers keep which partition: Kafka's spread, as a function of the partition's number.

The operator calls it when it creates Partition objects. A partition's replicas do not depend
on how many partitions exist: partitions added later continue the spread, and a Partition object
that is created again after a loss names the brokers that have its data (ADR 0009). A partition
that moved elsewhere, or is resized, keeps its replicas as far as it can (ADR 0057).
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence

from strandline.errors import StrandlineError
from strandline.model import BrokerId, TopicId


class TooFewBrokers(StrandlineError):
    """A topic wants more replicas than there are brokers; two on one broker protect nothing."""

    def __init__(self, *, replication_factor: int, brokers: int) -> None:
        super().__init__(f"{replication_factor} replicas need as many brokers, there are {brokers}")
        self.replication_factor = replication_factor
        self.brokers = brokers


def place_partition(
    partition: int, *, brokers: Sequence[BrokerId], replication_factor: int, start: int, shift: int
) -> tuple[BrokerId, ...]:
    """Return the replicas of one partition, the preferred leader first.

    The preferred leaders go round all brokers from `start`. The distance from a leader to its
    followers grows by one each round, so that the followers of one broker's partitions spread
    over all other brokers.

    Shape:   brokers are distinct; their order does not matter
    Raises:  TooFewBrokers
    Source:  Kafka AdminUtils.assignReplicasToBrokersRackUnaware. Kafka starts
             the shift again for added partitions; here it continues.
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

    Kafka draws start and shift at random; here they follow from the topic id, which spreads
    topics equally well and gives the same replicas each time.

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


def resized(
    current: Sequence[BrokerId], usual: Sequence[BrokerId], *, in_sync: Collection[BrokerId]
) -> tuple[BrokerId, ...]:
    """Return as many replicas as usual ones, so that as few as possible move.

    Brokers that are added are those of the usual placement. Of brokers that have a replica those in
    sync stay first, then those that stand first; their order stays.

    Shape:   in_sync are members of the ISR; the rest of current may lack records
    """
    count = len(usual)
    if count >= len(current):
        return tuple(dict.fromkeys([*current, *usual]))[:count]
    kept = sorted(current, key=lambda each: each not in in_sync)[:count]
    return tuple(each for each in current if each in kept)


def on_logs(
    placed: Mapping[int, tuple[BrokerId, ...]], logs: Mapping[int, Sequence[BrokerId]]
) -> dict[int, tuple[BrokerId, ...]]:
    """Return the placement moved to the brokers that have logs, as far as there are any.

    The rest of a partition's replicas stay where they are usually placed.

    Shape:   both by partition number; a partition has at most as many logs as replicas
    """
    moved: dict[int, tuple[BrokerId, ...]] = {}
    for partition, usual in placed.items():
        having = logs.get(partition, ())
        order = [*(each for each in usual if each in having), *sorted(having), *usual]
        moved[partition] = tuple(dict.fromkeys(order))[: len(usual)]
    return moved

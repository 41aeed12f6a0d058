"""Which brokers keep which partition: Kafka's spread, as a function of the partition's number.

The operator calls it when it creates Partition objects. A partition's replicas do not depend
on how many partitions exist: partitions added later continue the spread, and a Partition object
that is created again after a loss names the brokers that have its data (ADR 0009). A partition
that moved elsewhere, or is resized, keeps its replicas as far as it can (ADR 0057). `strandline
drain` asks where the replicas of a broker go. Racks count only if every broker that may take a
replica has one: a broker without could be anywhere (ADR 0064).
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from strandline.errors import StrandlineError
from strandline.model import BrokerId, TopicId

Replicas = tuple[BrokerId, ...]
"""The brokers of a partition, the preferred leader first."""


UNEVEN: Final = 2
"""By so much two brokers differ if one can give and is not the one with fewer then."""
NO_RACKS: Final[Mapping[BrokerId, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Racks:
    """Where brokers are, without those that have no rack; awaited are those that may soon have one.

    Topics wait for these for a moment, so that a topic made with its cluster is spread as well.
    """

    by_broker: Mapping[BrokerId, str] = field(default_factory=dict)
    awaited: tuple[BrokerId, ...] = ()


NOWHERE: Final = Racks()


class TooFewBrokers(StrandlineError):
    """A topic wants more replicas than there are brokers; two on one broker protect nothing."""

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
    racks: Mapping[BrokerId, str] = NO_RACKS,
) -> tuple[BrokerId, ...]:
    """Return the replicas of one partition, the preferred leader first.

    The preferred leaders go round all brokers from `start`, rack after rack. The distance from a
    leader to its followers grows each round, so that the followers of one broker's partitions
    spread over all other brokers. A follower goes to the next broker in a rack that has the fewest
    replicas of the partition. Without racks all brokers are in one.

    Shape:   brokers are distinct; their order does not matter; "" or nothing is no rack
    Raises:  TooFewBrokers
    Source:  Kafka AdminUtils.assignReplicasToBrokersRackAware, and RackUnaware for one rack. Kafka
             starts the shift again for added partitions; here it continues. Where a partition has
             more replicas than there are racks, Kafka's next round takes any rack.
    """
    known = known_racks(brokers, racks)
    ordered = _rack_after_rack(brokers, known)
    count = len(ordered)
    if not 1 <= replication_factor <= count:
        raise TooFewBrokers(replication_factor=replication_factor, brokers=count)
    first = (partition + start) % count
    distance = (shift + partition // count) * len(set(known.values()))
    room, had = Counter(known.values()), Counter[str]()
    replicas: list[BrokerId] = []
    step = 0
    while len(replicas) < replication_factor:
        away = 1 + (distance + step - 1) % (count - 1) if step else 0
        candidate = ordered[(first + away) % count]
        rack, fewest = known[candidate], min(had[each] for each in room if room[each])
        if candidate not in replicas and had[rack] == fewest:
            replicas.append(candidate)
            room[rack] -= 1
            had[rack] += 1
        step += 1
    return tuple(replicas)


def known_racks(
    brokers: Collection[BrokerId], racks: Mapping[BrokerId, str]
) -> dict[BrokerId, str]:
    """Return the rack of each broker, the same one for all if some broker has none."""
    found = {each: racks.get(each, "") for each in brokers}
    return found if all(found.values()) else dict.fromkeys(brokers, "")


def _rack_after_rack(
    brokers: Collection[BrokerId], known: Mapping[BrokerId, str]
) -> list[BrokerId]:
    """Return the brokers so that neighbours are in different racks as far as that goes.

    Source:  Kafka AdminUtils.getRackAlternatedBrokerList
    """
    turns: dict[str, int] = {}
    placed: list[tuple[int, str, BrokerId]] = []
    for each in sorted(brokers):
        turn = turns.get(known[each], 0)
        turns[known[each]] = turn + 1
        placed.append((turn, known[each], each))
    return [each for _, _, each in sorted(placed)]


def place_topic(
    topic_id: TopicId,
    partitions: Sequence[int],
    *,
    brokers: Sequence[BrokerId],
    replication_factor: int,
    racks: Mapping[BrokerId, str] = NO_RACKS,
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
            racks=racks,
        )
        for partition in partitions
    }


def resized(
    current: Sequence[BrokerId],
    usual: Sequence[BrokerId],
    *,
    in_sync: Collection[BrokerId],
    racks: Mapping[BrokerId, str] = NO_RACKS,
) -> tuple[BrokerId, ...]:
    """Return as many replicas as usual ones, so that as few as possible move.

    Brokers that are added are those of the usual placement. Of brokers that have a replica those in
    sync stay first, then those in racks of their own, then those that stand first; their order
    stays.

    Shape:   in_sync are members of the ISR; the rest of current may lack records
    """
    count = len(usual)
    if count >= len(current):
        others = [each for each in usual if each not in current]
        return (*current, *_chosen(others, count - len(current), racks, beside=current))
    ready = [each for each in current if each in in_sync]
    kept = _chosen(ready, count, racks)
    behind = [each for each in current if each not in in_sync]
    kept += _chosen(behind, count - len(kept), racks, beside=kept)
    return tuple(each for each in current if each in kept)


def _chosen(
    options: Sequence[BrokerId],
    count: int,
    racks: Mapping[BrokerId, str],
    *,
    beside: Sequence[BrokerId] = (),
) -> list[BrokerId]:
    """Return some of the options, first those in racks that no broker chosen so far is in."""
    left, chosen = list(options), list[BrokerId]()
    while left and len(chosen) < count:
        taken = {racks.get(each, "") for each in (*beside, *chosen)} - {""}
        chosen.append(min(left, key=lambda each: racks.get(each, "") in taken))
        left.remove(chosen[-1])
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The replicas that a partition shall have; the first is the preferred leader."""

    topic_id: TopicId
    partition: int
    replicas: tuple[BrokerId, ...]


class Takers:
    """Who takes the replicas of a broker that is to hold none, and how many each one then has.

    A replica goes to a rack that the partition is not in, then to the broker with the fewest
    replicas; a preferred leader to the one of these that is the first of the fewest partitions.
    Between equal ones the usual placement decides.
    """

    def __init__(
        self,
        assigned: Collection[Assigned],
        *,
        away: BrokerId,
        brokers: Collection[BrokerId],
        fit: Collection[BrokerId],
        racks: Mapping[BrokerId, str],
    ) -> None:
        """Take all partitions and brokers of a cluster.

        Shape:   fit are the brokers that may take a replica; "" or nothing is no rack
        """
        self._away = away
        self._others = [each for each in brokers if each != away]
        self._fit = frozenset(fit) - {away}
        self._racks = racks
        self._replicas = Counter(broker for each in assigned for broker in each.replicas)
        self._firsts = Counter(each.replicas[0] for each in assigned)
        self._taker: dict[Assigned, BrokerId] = {}

    def options(self, each: Assigned) -> list[BrokerId]:
        """Return who may take the replica of a partition, in the order of the usual placement."""
        if not self._others:
            return []
        usual = place_topic(
            each.topic_id,
            [each.partition],
            brokers=self._others,
            replication_factor=len(self._others),
        )[each.partition]
        return [one for one in usual if one in self._fit and one not in each.replicas]

    def choose(self, leaving: Collection[Assigned]) -> dict[Assigned, tuple[BrokerId, ...]]:
        """Return the replicas of these partitions without the broker; each has an option."""
        options = {each: self.options(each) for each in leaving}
        # First those that can go to few brokers.
        ordered = sorted(leaving, key=lambda it: (len(options[it]), it.topic_id, it.partition))
        for each in ordered:
            self._give(each, min(options[each], key=lambda to: self._cost(each, to)))
        # A later choice may have filled whom an earlier one took. Each turn evens the numbers out.
        while any(self._is_evened(each, options[each]) for each in leaving):
            pass
        return {each: self._replaced(each) for each in leaving}

    def _give(self, each: Assigned, taker: BrokerId) -> None:
        first = each.replicas[0] == self._away
        if (former := self._taker.get(each)) is not None:
            self._replicas[former] -= 1
            self._firsts[former] -= first
        self._taker[each] = taker
        self._replicas[taker] += 1
        self._firsts[taker] += first

    def _cost(self, each: Assigned, taker: BrokerId) -> tuple[bool, int, int]:
        firsts = self._firsts[taker] if each.replicas[0] == self._away else 0
        return self._repeats_rack(each, taker), self._replicas[taker], firsts

    def _repeats_rack(self, each: Assigned, taker: BrokerId) -> bool:
        return repeats_rack(self._racks, each.replicas, giver=self._away, taker=taker)

    def _is_evened(self, each: Assigned, options: Collection[BrokerId]) -> bool:
        """Give a replica to another broker that has at least two fewer; tell whether one does."""
        present = self._taker[each]
        for taker in options:
            keeps_racks = self._repeats_rack(each, taker) <= self._repeats_rack(each, present)
            if keeps_racks and self._replicas[taker] + 1 < self._replicas[present]:
                self._give(each, taker)
                return True
        return False

    def _replaced(self, each: Assigned) -> tuple[BrokerId, ...]:
        """Put the taker where the broker stood, so that preferred leaders stay spread."""
        taker = self._taker[each]
        return tuple(taker if one == self._away else one for one in each.replicas)


def repeats_rack(
    racks: Mapping[BrokerId, str], replicas: Replicas, *, giver: BrokerId, taker: BrokerId
) -> bool:
    """Tell whether a broker in the giver's place has the rack of another replica."""
    rack = racks.get(taker, "")
    return bool(rack) and any(racks.get(one, "") == rack for one in replicas if one != giver)


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

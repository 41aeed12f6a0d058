"""Which replicas move so that all brokers hold about as many, and are preferred about as often.

Pure; called by `strandline rebalance`. Replicas that share a rack first, if another rack has none
of their partition. Then replicas move from the broker with the most to the one with the fewest as
long as they differ by two, so as few move as even numbers ask for. Then the order of replicas,
which copies nothing: a partition prefers another of its replicas as leader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from strandline.model import BrokerId

from .placement import UNEVEN, Assigned, Replicas, repeats_rack

Step = tuple[BrokerId, BrokerId, Assigned]
"""The preferred leader of a partition, the one that it is to prefer, and the partition."""


def even_moves(
    assigned: Collection[Assigned],
    *,
    movable: Collection[Assigned],
    brokers: Collection[BrokerId],
    fit: Collection[BrokerId],
    racks: Mapping[BrokerId, str],
) -> dict[Assigned, Replicas]:
    """Return other replicas of some partitions, {} if the brokers are even.

    No partition is in fewer racks afterwards, so numbers may differ by more than one where brokers
    have racks, as they may where some partitions stay or some brokers take nothing.

    Shape:   movable are some of assigned, fit some of the brokers, who alone take anything; "" or
             nothing is no rack
    """
    evening = _Evening(assigned, movable, brokers, fit, racks)
    # Each step puts a partition into more racks, or none into fewer and brokers closer together.
    while evening.move_apart() or evening.move_replica():
        pass
    while evening.prefer_other_leaders():
        pass
    return {each: after for each, after in evening.replicas.items() if after != each.replicas}


class _Evening:
    """Replicas of what may move as they become, and what each broker then has."""

    def __init__(
        self,
        assigned: Collection[Assigned],
        movable: Collection[Assigned],
        brokers: Collection[BrokerId],
        fit: Collection[BrokerId],
        racks: Mapping[BrokerId, str],
    ) -> None:
        ordered = sorted(movable, key=lambda each: (each.topic_id, each.partition))
        self.replicas = {each: each.replicas for each in ordered}
        self._not_looked_at = dict.fromkeys(ordered)
        self._on: dict[BrokerId, set[Assigned]] = {each: set() for each in brokers}
        for each in ordered:
            for broker in each.replicas:
                self._on.setdefault(broker, set()).add(each)
        self._brokers = sorted(brokers)
        self._fit = sorted(fit)
        self._racks = racks
        self._held = Counter(broker for each in assigned for broker in each.replicas)
        self._firsts = Counter(each.replicas[0] for each in assigned)
        self._of_topic = Counter(
            (each.topic_id, broker) for each in assigned for broker in each.replicas
        )

    def move_apart(self) -> bool:
        """Move one replica to a rack that its partition is not in; tell whether one was due.

        From the broker of those in one rack that has the most, to the one that has the fewest.
        """
        takers, held = [each for each in self._fit if self._racks.get(each)], self._held
        while self._not_looked_at:
            each = next(iter(self._not_looked_at))
            replicas = self.replicas[each]
            pairs = [
                (giver, taker)
                for giver in replicas
                if self._repeats_rack(each, giver, giver)
                for taker in takers
                if taker not in replicas and not self._repeats_rack(each, giver, taker)
            ]
            if pairs:
                giver, taker = min(pairs, key=lambda it: (held[it[1]] - held[it[0]], *it))
                self._move(each, giver, taker)
                return True
            # What it can do depends on its own replicas alone, so it is done until they change.
            del self._not_looked_at[each]
        return False

    def move_replica(self) -> bool:
        """Move one replica between brokers that differ most; tell whether one was due."""
        for giver, taker in _uneven(self._brokers, self._fit, self._held):
            takeable = [
                each
                for each in self._on[giver] - self._on[taker]
                if self._repeats_rack(each, giver, taker) <= self._repeats_rack(each, giver, giver)
            ]
            if takeable:
                self._move(min(takeable, key=lambda it: self._cost(it, giver, taker)), giver, taker)
                return True
        return False

    def prefer_other_leaders(self) -> bool:
        """Give one preferred leadership to a broker that has two fewer; tell whether one was due.

        It may go over brokers between them, each of which gets one and gives one.
        """
        for giver, taker in _uneven(self._brokers, self._fit, self._firsts):
            steps = self._way(giver, taker)
            for former, preferred, each in steps:
                swapped = {former: preferred, preferred: former}
                self.replicas[each] = tuple(swapped.get(it, it) for it in self.replicas[each])
            if steps:
                self._firsts[giver] -= 1
                self._firsts[taker] += 1
                return True
        return False

    def _way(self, giver: BrokerId, taker: BrokerId) -> list[Step]:
        """Return the fewest changed orders from one broker to another, none if there is no way."""
        led: dict[BrokerId, list[Assigned]] = {}
        for each, replicas in self.replicas.items():
            led.setdefault(replicas[0], []).append(each)
        came: dict[BrokerId, Step] = {}
        reached = [giver]
        for broker in reached:
            for each in led.get(broker, ()):
                for other in self.replicas[each][1:]:
                    if other != giver and other not in came:
                        came[other] = (broker, other, each)
                        reached.append(other)
            if taker in came:
                break
        steps: list[Step] = []
        at = taker
        while at in came:
            steps.append(came[at])
            at = came[at][0]
        return steps

    def _cost(self, each: Assigned, giver: BrokerId, taker: BrokerId) -> tuple[object, ...]:
        """Return the least for what spreads racks, then preferred leaders, then topics."""
        wants_first = self._firsts[taker] < self._firsts[giver]
        is_first = self.replicas[each][0] == giver
        return (
            not self._repeats_rack(each, giver, giver),
            self.replicas[each] != each.replicas,
            is_first != wants_first,
            self._of_topic[each.topic_id, taker] - self._of_topic[each.topic_id, giver],
            each.topic_id,
            each.partition,
        )

    def _repeats_rack(self, each: Assigned, giver: BrokerId, taker: BrokerId) -> bool:
        return repeats_rack(self._racks, self.replicas[each], giver=giver, taker=taker)

    def _move(self, each: Assigned, giver: BrokerId, taker: BrokerId) -> None:
        before = self.replicas[each]
        self.replicas[each] = tuple(taker if it == giver else it for it in before)
        self._not_looked_at[each] = None
        self._on[giver].remove(each)
        self._on[taker].add(each)
        self._held[giver] -= 1
        self._held[taker] += 1
        self._of_topic[each.topic_id, giver] -= 1
        self._of_topic[each.topic_id, taker] += 1
        if before[0] == giver:
            self._firsts[giver] -= 1
            self._firsts[taker] += 1


def _uneven(
    brokers: Collection[BrokerId], fit: Collection[BrokerId], has: Counter[BrokerId]
) -> list[tuple[BrokerId, BrokerId]]:
    """Return who could give to whom, first those that differ most."""
    pairs = [
        (giver, taker) for giver in brokers for taker in fit if has[giver] - has[taker] >= UNEVEN
    ]
    return sorted(pairs, key=lambda pair: (has[pair[1]] - has[pair[0]], *pair))

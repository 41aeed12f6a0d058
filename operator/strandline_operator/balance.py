"""Which replicas move to brokers that are new, so that all brokers hold about as many.

Pure; called by `scaling`. As few replicas as possible move: only to new brokers, and no more than
even numbers ask for. A move takes the giver's place in the list of replicas, so preferred leaders
spread as well. No partition is in fewer racks afterwards, even if a new broker gets less then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from strandline.model import BrokerId

from .placement import NO_RACKS, UNEVEN, Assigned, Replicas, repeats_rack


def moves_to_new(
    assigned: Collection[Assigned],
    *,
    brokers: Collection[BrokerId],
    new: Collection[BrokerId],
    limit: int,
    racks: Mapping[BrokerId, str] = NO_RACKS,
) -> dict[Assigned, Replicas]:
    """Return other replicas of some partitions, {} if the new brokers have their share.

    Applied and asked again it goes on, so a part of the moves may be made first.

    Shape:   new are among the brokers; at most limit partitions; "" or nothing is no rack
    """
    spread = _Spread(assigned, brokers, racks)
    while len(spread.moved) < limit and spread.move_one(new):
        pass
    return {each: spread.replicas[each] for each in spread.moved}


class _Spread:
    """Replicas as they become, and how many each broker then has, and has as the first."""

    def __init__(
        self,
        assigned: Collection[Assigned],
        brokers: Collection[BrokerId],
        racks: Mapping[BrokerId, str],
    ) -> None:
        self.replicas = {each: each.replicas for each in assigned}
        self.moved: dict[Assigned, None] = {}
        self._brokers = sorted(brokers)
        self._racks = racks
        self._held = Counter(broker for each in assigned for broker in each.replicas)
        self._firsts = Counter(each.replicas[0] for each in assigned)
        self._of_topic = Counter(
            (each.topic_id, broker) for each in assigned for broker in each.replicas
        )
        self._share = sum(self._held[each] for each in self._brokers) // len(self._brokers)
        self._share_of_firsts = len(assigned) // len(self._brokers)

    def move_one(self, new: Collection[BrokerId]) -> bool:
        """Give a replica to the new broker that has the fewest; tell whether one was due."""
        takers = [each for each in sorted(new) if self._held[each] < self._share]
        return any(self._gets_one(each) for each in sorted(takers, key=lambda it: self._held[it]))

    def _gets_one(self, taker: BrokerId) -> bool:
        """Give a replica to a broker; tell whether there is one that it may take."""
        # Where racks keep it from those with more than a share, a neighbour shares what it has.
        givers = [
            each
            for each in self._brokers
            if self._held[each] > self._share
            or (self._racks and self._held[each] - self._held[taker] >= UNEVEN)
        ]
        for giver in sorted(givers, key=lambda each: (-self._held[each], each)):
            takeable = [
                each
                for each, replicas in self.replicas.items()
                if giver in replicas
                and taker not in replicas
                and self._repeats(each, giver, taker) <= self._repeats(each, giver, giver)
            ]
            if takeable:
                chosen = min(takeable, key=lambda each: self._cost(each, giver, taker))
                self._move(chosen, giver, taker)
                return True
        return False

    def _cost(self, each: Assigned, giver: BrokerId, taker: BrokerId) -> tuple[object, ...]:
        """Return the least for what spreads racks, then preferred leaders, then topics."""
        share = self._share_of_firsts
        wants_first = self._firsts[taker] < share < self._firsts[giver]
        is_first = self.replicas[each][0] == giver
        of_topic = self._of_topic[each.topic_id, taker]
        return (
            each in self.moved,
            not self._repeats(each, giver, giver),
            is_first != wants_first,
            of_topic,
            each.topic_id,
            each.partition,
        )

    def _repeats(self, each: Assigned, giver: BrokerId, taker: BrokerId) -> bool:
        return repeats_rack(self._racks, self.replicas[each], giver=giver, taker=taker)

    def _move(self, each: Assigned, giver: BrokerId, taker: BrokerId) -> None:
        before = self.replicas[each]
        self.replicas[each] = tuple(taker if one == giver else one for one in before)
        self.moved[each] = None
        self._held[giver] -= 1
        self._held[taker] += 1
        self._of_topic[each.topic_id, giver] -= 1
        self._of_topic[each.topic_id, taker] += 1
        if before[0] == giver:
            self._firsts[giver] -= 1
            self._firsts[taker] += 1

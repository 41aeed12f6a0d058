"""A follower's fetch as its leader remembers it: each partition costs work only when it changes.

`FollowerFetches` keeps one session for each follower. A partition is settled while another look at
it can tell nothing: the follower, a member of the maximal ISR, has all that the leader has, and
knows its high watermark and log start. A fetch that names a settled partition counts by the clock
of the session alone. `LeaderReplica` unsettles a partition before it changes (ADR 0067).

Invariant: each wanted partition is settled, or is looked at by the next fetch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.model import BrokerEpoch, TopicPartition

from .events import FollowerFetchReceived
from .fetch_changes import FetchChanges, FetchPartition
from .progress import FetchClock, FollowerProgress


@dataclass(slots=True, kw_only=True, eq=False)
class FetchSession:
    """The last fetch of one follower; changed by its own methods alone.

    wanted holds the partitions in the order of their last change; clock has the time of the last
    fetch, which all settled partitions share.
    """

    broker_epoch: BrokerEpoch
    changes: FetchChanges | None
    wanted: dict[TopicPartition, FetchPartition]
    clock: FetchClock
    _places: dict[TopicPartition, int] = field(default_factory=dict)
    _next_place: int = 0
    _unsettled: dict[TopicPartition, None] = field(default_factory=dict)
    _settled: dict[TopicPartition, FollowerProgress] = field(default_factory=dict)

    @classmethod
    def begun_by(cls, event: FollowerFetchReceived, now_ms: int) -> FetchSession:
        """Begin with a whole fetch, whatever the leader remembered before."""
        wanted = {part.tp: part for part in event.partitions}
        return cls(
            broker_epoch=event.broker_epoch,
            changes=event.changes,
            wanted=wanted,
            clock=FetchClock(fetched_ms=now_ms, has_room=not event.without_records),
            _places={tp: place for place, tp in enumerate(wanted)},
            _next_place=len(wanted),
            _unsettled=dict.fromkeys(wanted),
        )

    def continues_with(self, event: FollowerFetchReceived, now_ms: int) -> bool:
        """Take the changes of the next fetch; what stays settled is counted by the clock.

        Returns: False, and takes nothing, if they are not those since the remembered fetch
        """
        changes = event.changes
        if (
            self.changes is None
            or changes is None
            or not changes.follows(self.changes)
            or event.broker_epoch != self.broker_epoch
        ):
            return False
        self.changes = changes
        for tp in changes.forgotten:
            self.unsettle(tp)
            for kept in (self.wanted, self._places, self._unsettled):
                kept.pop(tp, None)
        for part in changes.changed:
            # Before the clock moves: what the former fetch told counts up to that fetch.
            self.unsettle(part.tp)
            self.wanted.pop(part.tp, None)
            self.wanted[part.tp] = part
            self._places[part.tp] = self._next_place
            self._next_place += 1
            self._unsettled[part.tp] = None
        self.clock.note_fetch(now_ms, has_room=not event.without_records)
        return True

    def end(self) -> None:
        """Count what was settled up to the last fetch; another session follows."""
        for tp in list(self._settled):
            self.unsettle(tp)

    def to_look_at(self) -> list[FetchPartition]:
        """Return the unsettled partitions, those that changed last at the end."""
        in_turn = sorted(self._unsettled, key=self._places.__getitem__)
        return [self.wanted[tp] for tp in in_turn]

    def settle(self, tp: TopicPartition, progress: FollowerProgress) -> None:
        """Look at a partition no more until it is unsettled; the clock counts for it."""
        del self._unsettled[tp]
        self._settled[tp] = progress
        progress.follow_clock(self.clock, on_change=self.unsettle)

    def unsettle(self, tp: TopicPartition) -> None:
        """Look at a partition again; count the fetches that it was settled in."""
        progress = self._settled.pop(tp, None)
        if progress is not None:
            progress.leave_clock()
            self._unsettled[tp] = None

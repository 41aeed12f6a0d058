"""What a leader knows about its followers, and when one of them counts as in sync.

Progress is kept per broker epoch: what an earlier process of the same broker had fetched
says nothing about the log of the present one (ADR 0002). Accepted fetches alone change a
progress; for a new process the leader begins a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from strandline.model import BrokerEpoch, BrokerId, IsrEntry, TopicPartition, covers

UNKNOWN_END = -1
"""Log end of a follower that has not fetched yet in this leader epoch: it holds the HW back."""

_NO_BROKER_EPOCH = BrokerEpoch(-1)


@dataclass(slots=True, kw_only=True, eq=False)
class FetchClock:
    """When a follower fetched last, for all partitions in which its fetch told nothing new."""

    fetched_ms: int
    has_room: bool

    def note_fetch(self, now_ms: int, *, has_room: bool) -> None:
        """Count the next fetch."""
        self.fetched_ms, self.has_room = now_ms, has_room


@dataclass(slots=True, kw_only=True)
class FollowerProgress:
    """One follower as its fetches in this leader epoch show it.

    Before the first fetch log_end_offset is UNKNOWN_END and last_fetch_ms None; last_caught_up_ms
    is the latest time at which the follower had all that the leader had, None for never.
    has_room: its last fetch asked for records; one without room gets no further (ADR 0050).
    While the progress follows a clock, the follower is at the leader's end, and each fetch moves
    the clock instead of the fields; `caught_up_ms` and `leave_clock` read it.
    """

    broker_epoch: BrokerEpoch = _NO_BROKER_EPOCH
    clean_since_epoch: BrokerEpoch = _NO_BROKER_EPOCH
    log_end_offset: int = UNKNOWN_END
    log_start_offset: int = UNKNOWN_END
    last_fetch_ms: int | None = None
    last_fetch_leader_end: int = UNKNOWN_END
    last_caught_up_ms: int | None = None
    has_room: bool = True
    _clock: FetchClock | None = None
    _on_change: Callable[[TopicPartition], None] | None = None

    @property
    def caught_up_ms(self) -> int | None:
        """The latest time at which the follower had all that the leader had, None for never."""
        return self.last_caught_up_ms if self._clock is None else self._clock.fetched_ms

    def follow_clock(
        self, clock: FetchClock, *, on_change: Callable[[TopicPartition], None]
    ) -> None:
        """Let fetches at the leader's end count by a clock until `unsettle` is called."""
        self._clock, self._on_change = clock, on_change

    def unsettle(self, tp: TopicPartition) -> None:
        """Have each fetch looked at again: this partition is about to change."""
        if self._on_change is not None:
            self._on_change(tp)

    def leave_clock(self) -> None:
        """Take over what the clock counted: it stood at the leader's end in every fetch of it."""
        if self._clock is not None:
            self.last_fetch_ms = self.last_caught_up_ms = self._clock.fetched_ms
            self.has_room = self._clock.has_room
        self._clock = self._on_change = None

    def covers(self, entry: IsrEntry) -> bool:
        """Tell whether the process that fetches still has what the ISR entry stands for."""
        since, present = self.clean_since_epoch, self.broker_epoch
        return covers(entry, clean_since_epoch=since, broker_epoch=present)

    def is_stale(self, entry: IsrEntry) -> bool:
        """Tell whether the process that fetches may lack what the ISR entry stands for."""
        return self.last_fetch_ms is not None and not self.covers(entry)

    def record_fetch(
        self,
        *,
        fetch_offset: int,
        log_start_offset: int,
        leader_end: int,
        now_ms: int,
        has_room: bool = True,
    ) -> None:
        """Note a fetch that was accepted.

        A follower that reaches what the leader had at the previous fetch was caught up at
        that time: otherwise a follower that is always one batch behind would never be caught up
        (KAFKA-4485). Merely fetching is not catching up.

        Units:   offsets are log ends (exclusive); leader_end is taken before the read
        Source:  Kafka 3.9 Replica.updateFetchStateOrThrow
        """
        if fetch_offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and fetch_offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms or 0, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end = max(leader_end, self.last_fetch_leader_end)
        self.last_fetch_ms = now_ms
        self.has_room = has_room

    def is_caught_up(self, *, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Tell whether this follower is at the leader's end, or was recently."""
        if self.log_end_offset == leader_end:
            return True
        return (
            self.last_caught_up_ms is not None
            and now_ms - self.last_caught_up_ms <= lag_time_max_ms
        )


def reset_progress(
    former: FollowerProgress,
    *,
    broker_epoch: BrokerEpoch,
    clean_since_epoch: BrokerEpoch,
    entry: IsrEntry | None,
) -> FollowerProgress:
    """Return the first progress of a follower that came back as a new process.

    Nothing is known of its log. A member that restarted cleanly keeps the time at which it
    was last caught up, so that it gets the whole lag time to fetch again.
    """
    fresh = FollowerProgress(broker_epoch=broker_epoch, clean_since_epoch=clean_since_epoch)
    if entry is None or not fresh.covers(entry):
        return fresh
    return replace(fresh, last_caught_up_ms=former.caught_up_ms)


def out_of_sync(
    isr: frozenset[BrokerId],
    followers: Mapping[BrokerId, FollowerProgress],
    *,
    leader_end: int,
    now_ms: int,
    lag_time_max_ms: int,
) -> frozenset[BrokerId]:
    """Return the ISR members that must leave now.

    A follower at the leader's end never leaves, however silent: the controller, not the lag rule,
    removes a dead broker.

    Units:   offsets are exclusive ends; times are ms of the driver's clock
    Source:  Kafka 3.9 Partition.getOutOfSyncReplicas; KAFKA-7152 for the equal-end rule
    """
    return frozenset(
        broker_id
        for broker_id, progress in followers.items()
        if broker_id in isr
        and not progress.is_caught_up(
            leader_end=leader_end, now_ms=now_ms, lag_time_max_ms=lag_time_max_ms
        )
    )


def are_all_in_sync(
    isr: tuple[IsrEntry, ...], followers: Mapping[BrokerId, FollowerProgress], *, leader_end: int
) -> bool:
    """Tell whether every follower is a member, at the leader's end, and no stale incarnation.

    Then time makes none of them leave or join.
    """
    return (
        len(isr) == len(followers) + 1
        and all(progress.log_end_offset == leader_end for progress in followers.values())
        and not stale_incarnations(isr, followers)
    )


def in_sync_count(isr: tuple[IsrEntry, ...], followers: Mapping[BrokerId, FollowerProgress]) -> int:
    """Return how many ISR members are no stale incarnations, the leader included."""
    count = len(isr)
    for entry in isr:
        progress = followers.get(entry.broker_id)
        if progress is not None and progress.is_stale(entry):
            count -= 1
    return count


def stale_incarnations(
    isr: tuple[IsrEntry, ...], followers: Mapping[BrokerId, FollowerProgress]
) -> frozenset[BrokerId]:
    """Return the ISR members whose present process may lack what their entry stands for.

    Their fetches count for nothing, even at the leader's end: they hold the high watermark
    back until the controller has removed them (ADR 0002).
    """
    return frozenset(
        entry.broker_id
        for entry in isr
        if (progress := followers.get(entry.broker_id)) is not None and progress.is_stale(entry)
    )

"""Elections and ISR changes as Events of their Partition: merged, and a bounded number a minute.

Pure: time is an argument. `reconcile` shows each change of a Partition, and posts what is due. A
partition that changes several times in a moment gets one Event; what is beyond the bound is
counted, and told at the end of the minute by one Event about the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from strandline.model import NO_LEADER, PartitionState

from .actions import PostEvent
from .observed import ObjectRef

SETTLE_MS: Final = 1_000
"""Changes of one partition within this time become one Event."""
WINDOW_MS: Final = 60_000
EVENTS_A_WINDOW: Final = 10
"""Events about changes of one cluster's partitions in a window, the counting one included."""

LEADER_ELECTED: Final = "LeaderElected"
LEADER_LOST: Final = "LeaderLost"
ISR_SHRUNK: Final = "IsrShrunk"
ISR_CHANGED: Final = "IsrChanged"
CHANGES_NOT_TOLD: Final = "ChangesNotTold"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What happened to a partition since its last Event."""

    cluster: ObjectRef
    before: PartitionState
    after: PartitionState
    since_ms: int

    @property
    def is_election(self) -> bool:
        return self.before.leader_epoch != self.after.leader_epoch


@dataclass(slots=True, kw_only=True)
class _Window:
    """What one cluster was told in the present window, and what it was not."""

    ends_ms: int
    told: int = 0
    elections: int = 0
    isr_changes: int = 0
    partitions: set[str] = field(default_factory=set)


class PartitionNews:
    """Changes of Partitions that wait to be told."""

    def __init__(self) -> None:
        self._waiting: dict[ObjectRef, _Change] = {}
        self._windows: dict[ObjectRef, _Window] = {}

    def observe(
        self,
        partition: ObjectRef,
        cluster: ObjectRef,
        before: PartitionState,
        after: PartitionState,
        *,
        now_ms: int,
    ) -> None:
        """Take a change of a Partition's status; others than of leader and ISR are no news."""
        is_news = before.leader_epoch != after.leader_epoch or _isr(before) != _isr(after)
        waiting = self._waiting.get(partition)
        if waiting is not None:
            self._waiting[partition] = replace(waiting, after=after)
        elif is_news:
            self._waiting[partition] = _Change(
                cluster=cluster, before=before, after=after, since_ms=now_ms
            )

    def due(self, now_ms: int) -> list[PostEvent]:
        """Return the Events to post now, elections first."""
        events = self._ended_windows(now_ms)
        ready = {
            partition: change
            for partition, change in self._waiting.items()
            if change.since_ms + SETTLE_MS <= now_ms
        }
        for partition in ready:
            del self._waiting[partition]
        ordered = sorted(ready.items(), key=lambda each: (not each[1].is_election, each[0].name))
        for partition, change in ordered:
            window = self._windows.setdefault(change.cluster, _Window(ends_ms=now_ms + WINDOW_MS))
            # The last one of a window belongs to the Event that counts the others.
            if window.told < EVENTS_A_WINDOW - 1:
                window.told += 1
                events.append(_event(partition, change))
            else:
                window.elections += change.is_election
                window.isr_changes += not change.is_election
                window.partitions.add(partition.name)
        return events

    def _ended_windows(self, now_ms: int) -> list[PostEvent]:
        ended = {each: w for each, w in self._windows.items() if w.ends_ms <= now_ms}
        for cluster in ended:
            del self._windows[cluster]
        return [
            PostEvent(
                about=cluster,
                reason=CHANGES_NOT_TOLD,
                message=(
                    f"{window.elections} elections and {window.isr_changes} ISR changes of "
                    f"{len(window.partitions)} partitions have no Event of their own"
                ),
                is_warning=False,
            )
            for cluster, window in ended.items()
            if window.partitions
        ]


def _event(partition: ObjectRef, change: _Change) -> PostEvent:
    before, after = change.before, change.after
    isr = f"ISR {_isr(before)} -> {_isr(after)}" if _isr(before) != _isr(after) else ""
    is_under = len(after.isr) < after.min_insync_replicas
    if change.is_election and after.leader == NO_LEADER:
        why = f" ({after.reason})" if after.reason else ""
        sentence = f"no broker leads epoch {after.leader_epoch}{why}; before it {_leader(before)}"
        reason = LEADER_LOST
    elif change.is_election:
        sentence = (
            f"broker {after.leader} leads epoch {after.leader_epoch}; before it {_leader(before)}"
        )
        reason = LEADER_ELECTED
    else:
        sentence = f"leader {after.leader} in epoch {after.leader_epoch}"
        reason = ISR_SHRUNK if len(after.isr) < len(before.isr) else ISR_CHANGED
    message = "; ".join(part for part in (sentence, isr) if part)
    if is_under:
        message += f"; fewer than min.insync.replicas {after.min_insync_replicas}"
    return PostEvent(
        about=partition,
        reason=reason,
        message=message,
        is_warning=is_under or reason == LEADER_LOST,
    )


def _isr(state: PartitionState) -> list[int]:
    return sorted(state.isr_ids)


def _leader(state: PartitionState) -> str:
    if state.leader == NO_LEADER:
        return f"nobody led epoch {state.leader_epoch}"
    return f"broker {state.leader} led epoch {state.leader_epoch}"

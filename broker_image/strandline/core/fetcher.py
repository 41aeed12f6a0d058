"""The fetches of this broker from one leader: one outstanding, all partitions in turn.

`Fetchers` makes one for each leader; a `Fetcher` changes its own fields alone.
A partition may become ready while its leader holds a fetch. A new fetch then supersedes the held
one: the leader ends the old fetch, and the fetcher drops its response by the request id. Otherwise
every election would cost a long poll. While the copies of this broker have used up what they may
bring, they are left out of fetches (ADR 0063); members of an ISR never wait for them.
Invariant: a response is taken only for the outstanding request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strandline.model import BrokerId, TopicPartition

from .asked_partitions import AskedPartitions
from .broker_context import BrokerContext
from .copy_quota import CopyQuota
from .effects import Effect, SendFetch
from .events import FetchedPartition
from .fetch_changes import FetchPartition
from .follower import FollowerReplica
from .settings import CoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class OutstandingFetch:
    """The fetch without a response yet; requested is `AskedPartitions.asked` until the next one."""

    request_id: int
    requested: Mapping[TopicPartition, FetchPartition]
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Fetcher:
    """The partitions that this broker fetches from one leader.

    fetch_order holds them in the order in which they are fetched next; not_yet_fetched are
    those that became ready after the outstanding fetch was sent, delayed maps those that wait to
    the end of their wait. A fetch tells the leader that this broker has all below its offset, so a
    partition waits until that is on disk; flushed are those whose wait ended after the outstanding
    fetch was sent, and found_waiting is one that waited when somebody last looked. copies is the
    quota of all fetchers.
    """

    leader: BrokerId
    context: BrokerContext
    copies: CopyQuota
    asked: AskedPartitions = field(default_factory=AskedPartitions)
    fetch_order: dict[TopicPartition, FollowerReplica] = field(default_factory=dict)
    not_yet_fetched: dict[TopicPartition, None] = field(default_factory=dict)
    flushed: dict[TopicPartition, None] = field(default_factory=dict)
    found_waiting: TopicPartition | None = None
    delayed: dict[TopicPartition, int] = field(default_factory=dict)
    outstanding: OutstandingFetch | None = None
    failures: int = 0
    paused_until_ms: int = 0

    def add(self, tp: TopicPartition, replica: FollowerReplica) -> None:
        """Fetch a partition from now on; news of its leader also ends a pause."""
        self.forget(tp)
        self.fetch_order[tp] = replica
        self.not_yet_fetched[tp] = None
        self.failures = 0
        self.paused_until_ms = 0

    def forget(self, tp: TopicPartition) -> None:
        """Fetch a partition no longer."""
        self.fetch_order.pop(tp, None)
        self.not_yet_fetched.pop(tp, None)
        self.flushed.pop(tp, None)
        self.delayed.pop(tp, None)
        self.asked.touch(tp)

    def refetch(self, tp: TopicPartition) -> None:
        """Fetch a partition anew unless it waits after a refusal."""
        self.asked.touch(tp)
        if tp not in self.delayed:
            self.not_yet_fetched[tp] = None

    def note_flushed(self, tp: TopicPartition) -> None:
        """Fetch a partition again, whose end is on disk now."""
        self.asked.touch(tp)
        is_named = self.outstanding is not None and tp in self.outstanding.requested
        if not is_named and not self._waits_for_disk(tp):
            self.flushed[tp] = None

    def delay(self, tp: TopicPartition, until_ms: int) -> None:
        """Let a partition wait while the others are fetched."""
        self.delayed[tp] = until_ms
        self.asked.touch(tp)

    def send_to_back(self, tp: TopicPartition) -> None:
        """Fetch a partition after all others: the byte limit of responses is shared in turn."""
        self.fetch_order[tp] = self.fetch_order.pop(tp)
        self.asked.touch(tp)

    def take_outstanding(self, request_id: int) -> OutstandingFetch | None:
        """End the outstanding fetch, which got this response; ignore any other response."""
        outstanding = self.outstanding
        if outstanding is None or outstanding.request_id != request_id:
            return None
        self.outstanding = None
        self.failures = 0
        return outstanding

    def fail(self, request_id: int, now_ms: int) -> None:
        """End the outstanding fetch, which failed, and pause; ignore any other failure."""
        if self.outstanding is not None and self.outstanding.request_id == request_id:
            self.outstanding = None
            self.failures += 1
            self.paused_until_ms = now_ms + self.context.settings.backoff_ms(self.failures)

    def plan(self, now_ms: int) -> list[Effect]:
        """Fetch the ready partitions, unless the outstanding fetch names them all."""
        if self._only_waits(now_ms):
            return []
        if self.outstanding is not None and self.outstanding.deadline_ms <= now_ms:
            self.fail(self.outstanding.request_id, now_ms)
        for tp in [tp for tp, until_ms in self.delayed.items() if until_ms <= now_ms]:
            del self.delayed[tp]
            self.asked.touch(tp)
            self.not_yet_fetched[tp] = None
        if now_ms < self.paused_until_ms or (self.outstanding and not self._may_supersede()):
            return []
        if self._holds_copies(now_ms) and self.outstanding and not self._may_supersede():
            return []
        return [self._send(now_ms)] if any(map(self._is_ready, self.fetch_order)) else []

    def _only_waits(self, now_ms: int) -> bool:
        """Tell at little cost that there is nothing to do: most events are another leader's."""
        return (
            self.outstanding is not None
            and now_ms < self.outstanding.deadline_ms
            and not (self.delayed or self.not_yet_fetched or self.flushed)
        )

    def next_wakeup_ms(self) -> int | None:
        """Return when `Fetchers.plan` has something to do without an event."""
        if self.outstanding is not None and not self.delayed:
            return max(self.outstanding.deadline_ms, self.paused_until_ms)
        times = list(self.delayed.values())
        if self.outstanding is not None:
            times.append(self.outstanding.deadline_ms)
        elif any(map(self._is_ready, self.fetch_order)):
            times.append(self.paused_until_ms)
        return max(min(times), self.paused_until_ms) if times else None

    def _holds_copies(self, now_ms: int) -> bool:
        """Let copies wait while what they may bring is used up; tell whether there are such."""
        wait_ms = self.copies.wait_ms(self.leader, now_ms)
        if wait_ms == 0:
            return False
        broker_id = self.context.broker_id
        ready = (each for each in self.fetch_order.items() if self._is_ready(each[0]))
        held = [tp for tp, replica in ready if replica.is_copy(broker_id)]
        for tp in held:
            self.delay(tp, now_ms + wait_ms)
            self.flushed.pop(tp, None)
        if held:
            self.copies.note_refused(self.leader, now_ms)
        return bool(held)

    def note_copied(self, fetched: FetchedPartition) -> None:
        """Count records of a copy, also those that come too late to be of use."""
        replica = self.fetch_order.get(fetched.tp)
        if (
            fetched.record_bytes > 0
            and replica is not None
            and replica.is_copy(self.context.broker_id)
        ):
            self.copies.note_copied(self.leader, fetched.record_bytes)

    def _may_supersede(self) -> bool:
        """Tell whether a new fetch is worth the response that the outstanding one may get.

        After an append all partitions that share the disk come back at about the same time: the
        last of them sends for all, or each one would have the leader send the same records again.
        """
        if any(map(self._is_ready, self.not_yet_fetched)):
            return True
        return bool(self.flushed) and not self._any_waits_for_disk()

    def _is_ready(self, tp: TopicPartition) -> bool:
        return tp not in self.delayed and not self._waits_for_disk(tp)

    def _waits_for_disk(self, tp: TopicPartition) -> bool:
        return self.fetch_order[tp].log.waits_for_disk

    def _any_waits_for_disk(self) -> bool:
        """Look first at the one that was found last: while it waits, a round costs one look."""
        found = self.found_waiting
        if found is None or found not in self.fetch_order or not self._waits_for_disk(found):
            self.found_waiting = next(filter(self._waits_for_disk, self.fetch_order), None)
        return self.found_waiting is not None

    def _send(self, now_ms: int) -> SendFetch:
        settings, request_id = self.context.settings, self.context.next_request_id()
        changes, max_wait_ms = None, settings.fetch_wait_max_ms
        if len(self.fetch_order) > settings.fetch_partitions_max:
            max_wait_ms = self._choose_in_turn(settings)
        else:
            changes = self.asked.ask(request_id, wish_for=self._wish_for)
        self.not_yet_fetched.clear()
        self.flushed.clear()
        self.outstanding = OutstandingFetch(
            request_id=request_id,
            requested=self.asked.asked,
            deadline_ms=now_ms + max_wait_ms + settings.fetch_timeout_ms,
        )
        return SendFetch(
            request_id=request_id,
            leader=self.leader,
            max_wait_ms=max_wait_ms,
            partitions=tuple(self.asked.asked.values()),
            changes=changes,
        )

    def _wish_for(self, tp: TopicPartition) -> FetchPartition | None:
        replica = self.fetch_order.get(tp)
        return replica.fetch() if replica is not None and self._is_ready(tp) else None

    def _choose_in_turn(self, settings: CoreSettings) -> int:
        """Ask for as many partitions as one fetch may name; return how long it may wait."""
        ready = [tp for tp in self.fetch_order if self._is_ready(tp)]
        chosen = ready[: settings.fetch_partitions_max]
        takes_turns = len(chosen) < len(ready)
        self.asked.ask_in_turn(self.fetch_order[tp].fetch() for tp in chosen)
        if takes_turns:
            for tp in chosen:
                self.send_to_back(tp)
        return 0 if takes_turns else settings.fetch_wait_max_ms

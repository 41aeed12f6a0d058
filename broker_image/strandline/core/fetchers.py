"""The fetches of this broker: one outstanding per leader, all partitions in turn.

`Replicas` hands over responses and, after each step, the time; `ControllerRequests` adds and
removes partitions as their roles change. A `Fetcher` changes its own fields alone.
A partition may become ready while its leader holds a fetch. A new fetch then supersedes the held
one: the leader ends the old fetch, and the fetcher drops its response by the request id. Otherwise
every election would cost a long poll. While the copies of this broker have used up what they may
bring, they are left out of fetches (ADR 0063); members of an ISR never wait for them.
Invariant: a response is taken only for the outstanding request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strandline.model import NO_LEADER, BrokerId, TopicPartition

from .broker_context import BrokerContext
from .copy_quota import CopyQuota
from .effects import Effect, SendFetch
from .events import FetchedPartition, FetchPartition, FetchResponseReceived
from .follower import FollowerReplica


@dataclass(frozen=True, slots=True, kw_only=True)
class OutstandingFetch:
    """The fetch without a response yet, and what it requested."""

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

    def refetch(self, tp: TopicPartition) -> None:
        """Fetch a partition anew unless it waits after a refusal."""
        if tp not in self.delayed:
            self.not_yet_fetched[tp] = None

    def note_flushed(self, tp: TopicPartition) -> None:
        """Fetch a partition again, whose end is on disk now."""
        is_named = self.outstanding is not None and tp in self.outstanding.requested
        if not is_named and not self._waits_for_disk(tp):
            self.flushed[tp] = None

    def delay(self, tp: TopicPartition, until_ms: int) -> None:
        """Let a partition wait while the others are fetched."""
        self.delayed[tp] = until_ms

    def send_to_back(self, tp: TopicPartition) -> None:
        """Fetch a partition after all others: the byte limit of responses is shared in turn."""
        self.fetch_order[tp] = self.fetch_order.pop(tp)

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
        if self.outstanding is not None and self.outstanding.deadline_ms <= now_ms:
            self.fail(self.outstanding.request_id, now_ms)
        for tp in [tp for tp, until_ms in self.delayed.items() if until_ms <= now_ms]:
            del self.delayed[tp]
            self.not_yet_fetched[tp] = None
        if now_ms < self.paused_until_ms or (self.outstanding and not self._may_supersede()):
            return []
        if self._holds_copies(now_ms) and self.outstanding and not self._may_supersede():
            return []
        ready = [tp for tp in self.fetch_order if self._is_ready(tp)]
        return [self._send(ready, now_ms)] if ready else []

    def next_wakeup_ms(self) -> int | None:
        """Return when `Fetchers.plan` has something to do without an event."""
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

    def _send(self, ready: list[TopicPartition], now_ms: int) -> SendFetch:
        settings = self.context.settings
        chosen = ready[: settings.fetch_partitions_max]
        takes_turns = len(chosen) < len(ready)
        if takes_turns:
            for tp in chosen:
                self.send_to_back(tp)
        max_wait_ms = 0 if takes_turns else settings.fetch_wait_max_ms
        self.not_yet_fetched.clear()
        self.flushed.clear()
        self.outstanding = OutstandingFetch(
            request_id=self.context.next_request_id(),
            requested={tp: self.fetch_order[tp].fetch() for tp in chosen},
            deadline_ms=now_ms + max_wait_ms + settings.fetch_timeout_ms,
        )
        return SendFetch(
            request_id=self.outstanding.request_id,
            leader=self.leader,
            max_wait_ms=max_wait_ms,
            partitions=tuple(self.outstanding.requested.values()),
        )


class Fetchers:
    """The fetchers of this broker, by leader."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._copies = CopyQuota(rate=context.settings.copy_intake_max)
        self._by_leader: dict[BrokerId, Fetcher] = {}
        self._leader_of: dict[TopicPartition, BrokerId] = {}

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `plan` has something to do without an event, None for never."""
        times = (fetcher.next_wakeup_ms() for fetcher in self._by_leader.values())
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def follow(self, tp: TopicPartition, replica: FollowerReplica) -> None:
        """Fetch a partition from the leader of its new role, no longer from the former one."""
        self.forget(tp)
        if replica.fenced or replica.leader == NO_LEADER:
            return
        new = Fetcher(leader=replica.leader, context=self._context, copies=self._copies)
        self._by_leader.setdefault(replica.leader, new).add(tp, replica)
        self._leader_of[tp] = replica.leader

    def forget(self, tp: TopicPartition) -> None:
        """Fetch a partition from no leader."""
        leader = self._leader_of.pop(tp, None)
        if leader is None:
            return
        fetcher = self._by_leader[leader]
        fetcher.forget(tp)
        if not fetcher.fetch_order:
            del self._by_leader[leader]

    def on_fetch_response(self, event: FetchResponseReceived, now_ms: int) -> list[Effect]:
        """Hand each part of a response to its replica, and decide when the replica fetches next."""
        fetcher = self._by_leader.get(event.leader)
        if fetcher is not None:
            for each in event.partitions:
                fetcher.note_copied(each)
        outstanding = None if fetcher is None else fetcher.take_outstanding(event.request_id)
        if fetcher is None or outstanding is None:
            return []
        effects: list[Effect] = []
        for fetched in event.partitions:
            requested = outstanding.requested.get(fetched.tp)
            replica = fetcher.fetch_order.get(fetched.tp)
            # A response under an earlier leadership or to another log end does not fit the present
            # log (KAFKA-7786, KAFKA-18723).
            if replica is None or requested is None or not replica.expects(requested):
                continue
            effects += replica.on_fetched(fetched, now_ms=now_ms, settings=self._context.settings)
            if replica.fenced:
                self.forget(fetched.tp)
                continue
            if now_ms < replica.delayed_until_ms:
                fetcher.delay(fetched.tp, replica.delayed_until_ms)
            if fetched.batches:
                fetcher.send_to_back(fetched.tp)
        return effects

    def change_copy_intake(self, rate: int) -> None:
        """Let copies bring so many bytes per second from now on."""
        self._copies.change_rate(rate)

    def refetch(self, tp: TopicPartition) -> None:
        """Tell a partition's leader of the log start that is on disk now, also in mid-wait."""
        leader = self._leader_of.get(tp)
        if leader is not None:
            self._by_leader[leader].refetch(tp)

    def note_flushed(self, tp: TopicPartition) -> None:
        """Fetch a partition that waited for its disk."""
        leader = self._leader_of.get(tp)
        if leader is not None:
            self._by_leader[leader].note_flushed(tp)

    def on_fetch_failed(self, leader: BrokerId, request_id: int, now_ms: int) -> None:
        """Pause a leader's partitions if the failed fetch is the outstanding one."""
        fetcher = self._by_leader.get(leader)
        if fetcher is not None:
            fetcher.fail(request_id, now_ms)

    def plan(self, now_ms: int) -> list[Effect]:
        """Fetch the ready partitions, with one fetch per leader."""
        effects: list[Effect] = []
        for leader in sorted(self._by_leader):
            effects += self._by_leader[leader].plan(now_ms)
        return effects

"""The fetches of this broker: one outstanding per leader, all partitions in turn.

Called by `Replicas` after each step with the time; partitions come and go with their roles.
A partition that becomes ready while a fetch is being held by its leader does not wait for
that one: a new fetch supersedes it, the leader ends the old one, and its response is dropped
by its request id. Otherwise every election would cost a long poll.
Invariant: a response is taken only for the outstanding request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strandline.model import NO_LEADER, BrokerId, TopicPartition

from .broker_context import BrokerContext
from .effects import Effect, SendFetch
from .events import FetchPartition
from .follower import FollowerReplica
from .settings import CoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class OutstandingFetch:
    """The fetch without a response yet, and what it requested."""

    request_id: int
    requested: Mapping[TopicPartition, FetchPartition]
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class Fetcher:
    """All partitions that one leader leads for this broker.

    fetch_order holds them in the order in which they are fetched next; not_yet_fetched are
    those that became ready after the outstanding fetch was sent, delayed those that wait.
    """

    leader: BrokerId
    fetch_order: dict[TopicPartition, FollowerReplica] = field(default_factory=dict)
    not_yet_fetched: dict[TopicPartition, None] = field(default_factory=dict)
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
        self.delayed.pop(tp, None)

    def send_to_back(self, tp: TopicPartition) -> None:
        """Fetch a partition after all others: the byte limit of responses is shared in turn."""
        self.fetch_order[tp] = self.fetch_order.pop(tp)

    def fail(self, now_ms: int, settings: CoreSettings) -> None:
        """Pause all partitions: the leader did not respond."""
        self.outstanding = None
        self.failures += 1
        self.paused_until_ms = now_ms + settings.backoff_ms(self.failures)

    def release_delayed(self, now_ms: int) -> None:
        """Make partitions ready whose pause is over."""
        for tp in [tp for tp, until_ms in self.delayed.items() if until_ms <= now_ms]:
            del self.delayed[tp]
            self.not_yet_fetched[tp] = None

    def next_wakeup_ms(self) -> int | None:
        """Return when `Fetchers.plan` has something to do without an event."""
        times = list(self.delayed.values())
        if self.outstanding is not None:
            times.append(self.outstanding.deadline_ms)
        elif len(self.delayed) < len(self.fetch_order):
            times.append(self.paused_until_ms)
        return max(min(times), self.paused_until_ms) if times else None


class Fetchers:
    """The fetchers of this broker, by leader."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._by_leader: dict[BrokerId, Fetcher] = {}
        self._leader_of: dict[TopicPartition, BrokerId] = {}

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `plan` has something to do without an event, None for never."""
        times = [
            time_ms
            for fetcher in self._by_leader.values()
            if (time_ms := fetcher.next_wakeup_ms()) is not None
        ]
        return min(times, default=None)

    def follow(self, tp: TopicPartition, replica: FollowerReplica) -> None:
        """Fetch a partition from the leader of its new role, no longer from the former one."""
        self.forget(tp)
        if replica.fenced or replica.leader == NO_LEADER:
            return
        fetcher = self._by_leader.get(replica.leader)
        if fetcher is None:
            fetcher = self._by_leader[replica.leader] = Fetcher(leader=replica.leader)
        fetcher.add(tp, replica)
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

    def take_outstanding(
        self, leader: BrokerId, request_id: int
    ) -> tuple[Fetcher, OutstandingFetch] | None:
        """End the outstanding fetch if it is this one; any other response is not taken."""
        fetcher = self._by_leader.get(leader)
        if fetcher is None or fetcher.outstanding is None:
            return None
        outstanding = fetcher.outstanding
        if outstanding.request_id != request_id:
            return None
        fetcher.outstanding = None
        fetcher.failures = 0
        return fetcher, outstanding

    def on_fetch_failed(self, leader: BrokerId, request_id: int, now_ms: int) -> None:
        """Pause a leader's partitions; news of a fetch that is not outstanding says nothing."""
        fetcher = self._by_leader.get(leader)
        if (
            fetcher is not None
            and fetcher.outstanding is not None
            and fetcher.outstanding.request_id == request_id
        ):
            fetcher.fail(now_ms, self._context.settings)

    def after_response(self, fetcher: Fetcher, tp: TopicPartition, now_ms: int) -> None:
        """Decide when a partition is fetched next: at once, later, or not at all."""
        replica = fetcher.fetch_order[tp]
        if replica.fenced:
            self.forget(tp)
        elif now_ms < replica.delayed_until_ms:
            fetcher.delayed[tp] = replica.delayed_until_ms

    def plan(self, now_ms: int) -> list[Effect]:
        """Send what is ready, one fetch per leader."""
        effects: list[Effect] = []
        for leader in sorted(self._by_leader):
            fetcher = self._by_leader[leader]
            if fetcher.outstanding is not None and fetcher.outstanding.deadline_ms <= now_ms:
                fetcher.fail(now_ms, self._context.settings)
            fetcher.release_delayed(now_ms)
            idle = fetcher.outstanding is None
            if now_ms >= fetcher.paused_until_ms and (idle or fetcher.not_yet_fetched):
                effects += self._send(fetcher, now_ms)
        return effects

    def _send(self, fetcher: Fetcher, now_ms: int) -> list[Effect]:
        settings = self._context.settings
        ready = [tp for tp in fetcher.fetch_order if tp not in fetcher.delayed]
        if not ready:
            return []
        chosen = ready[: settings.fetch_partitions_max]
        takes_turns = len(chosen) < len(ready)
        if takes_turns:
            for tp in chosen:
                fetcher.send_to_back(tp)
        requested = {tp: fetcher.fetch_order[tp].fetch() for tp in chosen}
        request_id = self._context.next_request_id()
        max_wait_ms = 0 if takes_turns else settings.fetch_wait_max_ms
        fetcher.not_yet_fetched.clear()
        fetcher.outstanding = OutstandingFetch(
            request_id=request_id,
            requested=requested,
            deadline_ms=now_ms + max_wait_ms + settings.fetch_timeout_ms,
        )
        return [
            SendFetch(
                request_id=request_id,
                leader=fetcher.leader,
                max_wait_ms=max_wait_ms,
                partitions=tuple(requested.values()),
            )
        ]

"""The fetches of this broker from all its leaders, one `Fetcher` for each.

`Replicas` hands over responses and, after each step, the time; `ControllerRequests` adds and
removes partitions as their roles change.
"""

from __future__ import annotations

from strandline.model import NO_LEADER, BrokerId, TopicPartition

from .broker_context import BrokerContext
from .copy_quota import CopyQuota
from .effects import Effect
from .events import FetchResponseReceived
from .fetcher import Fetcher
from .follower import FollowerReplica


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
        times = [fetcher.next_wakeup_ms() for fetcher in self._by_leader.values()]
        return min([time_ms for time_ms in times if time_ms is not None], default=None)

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
            fetcher.asked.touch(fetched.tp)
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

    def note_settings(self, tp: TopicPartition) -> None:
        """Look at a partition again: it may wait for its disk now, or no more."""
        leader = self._leader_of.get(tp)
        if leader is not None:
            self._by_leader[leader].asked.touch(tp)

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

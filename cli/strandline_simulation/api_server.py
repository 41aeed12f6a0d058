"""The API server as a process sees it: calls that are slow or lost, watches that are late.

A call is applied once or never; its response may be lost, and a call that was given up may
still be applied up to two seconds later. Reads are quorum reads at the moment they arrive.
A list takes its time to come back, as long as a watch may lag behind, so it may be old when it
arrives. Watches deliver each change after a delay, sometimes twice, and not in order if so
planned. Every write of the store goes through here: it is applied, judged and shown to watches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from strandline.controller.effects import WritePartitionStatus
from strandline.controller.events import ControllerEvent
from strandline.controller.store_events import (
    BrokerObserved,
    PartitionObserved,
    StoreOutcome,
    TopicDeleted,
    TopicObserved,
    WatchLost,
)
from strandline.model import (
    BrokerId,
    LeaseRecord,
    PartitionState,
    Registration,
    StoredBroker,
    StoredPartition,
)

from .fault_counts import Anomaly, FaultCounts
from .plan import Plan
from .present_conditions import PresentConditions
from .prng import Prng, key_of
from .process_life import ProcessLife
from .store import SimulatedStore
from .virtual_time import VirtualTime

Value = TypeVar("Value")

OnStatusWritten = Callable[[BrokerId, StoredPartition, PartitionState], None]
"""Looks at a status write that was applied, before any watch shows it: writer, before, state."""


@dataclass(slots=True)
class _Watch(Generic[Value]):
    caller: ProcessLife
    on_change: Callable[[Value], None]
    prng: Prng
    from_ms: int = 0
    last_arrival_ms: int = 0


class ApiServer:
    """One API server, and the store behind it."""

    def __init__(
        self,
        virtual_time: VirtualTime,
        plan: Plan,
        *,
        store: SimulatedStore,
        conditions: PresentConditions,
        fault_counts: FaultCounts,
        on_status_written: Sequence[OnStatusWritten],
        on_status_refused: Callable[[StoredPartition, PartitionState], None],
    ) -> None:
        """on_status_refused takes a write of the current version that the CRD's rules refuse."""
        self.store = store
        self._virtual_time = virtual_time
        self._fault_counts = fault_counts
        self._seed = plan.seed
        self._conditions = conditions
        self._timeout_ms = plan.timing.api_timeout_ms
        self._on_status_written = on_status_written
        self._on_status_refused = on_status_refused
        self._prngs: dict[tuple[BrokerId, str], Prng] = {}
        self._outage_until_ms = 0
        self._cut_until_ms: dict[BrokerId, int] = {}
        self._slow_until_ms: dict[BrokerId, int] = {}
        self._lease_watches: dict[BrokerId, _Watch[LeaseRecord]] = {}
        self._watches: dict[BrokerId, _Watch[ControllerEvent]] = {}

    def outage(self, until_ms: int) -> None:
        """Answer no call until then."""
        self._outage_until_ms = max(self._outage_until_ms, until_ms)

    def cut(self, broker_id: BrokerId, until_ms: int) -> None:
        """Do not answer one broker until then."""
        self._cut_until_ms[broker_id] = max(self._cut_until_ms.get(broker_id, 0), until_ms)

    def hold_back(self, broker_id: BrokerId, until_ms: int) -> None:
        """Apply what one broker asks for until then only then, long after it gave up."""
        self._slow_until_ms[broker_id] = max(self._slow_until_ms.get(broker_id, 0), until_ms)

    def heal(self) -> None:
        """From now on every call is answered."""
        self._outage_until_ms = 0
        self._cut_until_ms.clear()
        self._slow_until_ms.clear()

    def _unavailable_until_ms(self, broker_id: BrokerId) -> int:
        return max(self._outage_until_ms, self._cut_until_ms.get(broker_id, 0))

    def expire_watches(self, broker_id: BrokerId) -> None:
        """End a broker's watches with 410 Gone; a watch begins, and so ends, behind its list."""
        watch = self._watches.pop(broker_id, None)
        if watch is not None:
            delay_ms = max(0, watch.from_ms - self._virtual_time.now_ms) + 1
            watch.caller.deliver_after(delay_ms, watch.on_change, WatchLost())

    def write_lease(self, lease: LeaseRecord) -> LeaseRecord | None:
        """Apply a write of the Lease and show it."""
        stored = self.store.put_lease(lease)
        if stored is not None:
            for _, watch in sorted(self._lease_watches.items()):
                self._notify(watch, stored)
        return stored

    def write_registration(
        self, found: StoredBroker, registration: Registration
    ) -> StoredBroker | None:
        """Apply a registration and show it."""
        stored = self.store.put_registration(found, registration)
        if stored is not None:
            self._notify_watches(BrokerObserved(broker=stored))
        return stored

    def write_status(
        self, writer: BrokerId, effect: WritePartitionStatus
    ) -> StoredPartition | None:
        """Apply a status write, let it be judged, and show it."""
        before = self.store.partitions[effect.name]
        stored = self.store.put_partition_status(effect.name, effect.resource_version, effect.state)
        if stored is None:
            if before.resource_version == effect.resource_version:
                self._on_status_refused(before, effect.state)
            return None
        for observe in self._on_status_written:
            observe(writer, before, effect.state)
        self._notify_watches(PartitionObserved(partition=stored))
        return stored

    def wish(self, name: str, replicas: tuple[BrokerId, ...]) -> None:
        """Write the replicas that a Partition shall have, and show it."""
        self._notify_watches(PartitionObserved(partition=self.store.wish(name, replicas)))

    def delete_topic(self) -> None:
        """Delete the ReplicatedTopic, and show it."""
        self.store.delete_topic()
        self._notify_watches(TopicDeleted(topic_id=self.store.topic.topic_id))

    def return_topic(self) -> None:
        """Create the ReplicatedTopic again with its topic id, and show it."""
        self.store.return_topic()
        self._notify_watches(TopicObserved(topic=self.store.topic))

    def lose_partition(self, name: str) -> None:
        """Delete a Partition, make it anew without a status, and show it."""
        self._notify_watches(PartitionObserved(partition=self.store.lose_partition(name)))

    def call(
        self,
        caller: ProcessLife,
        apply: Callable[[], Value | None],
        on_response: Callable[[StoreOutcome, Value | None], None],
        *,
        watch: Callable[[ControllerEvent], None] | None = None,
    ) -> None:
        """Have a call applied and answered; None from apply means it was refused.

        watch: takes the changes after the response, which is a list of everything.
        """
        now_ms, prng = self._virtual_time.now_ms, self._prng(caller.broker_id)
        conditions, fate = self._conditions.now, prng.draw()
        there_ms = prng.between(1, conditions.api_delay_max_ms)
        back_ms = prng.between(1, conditions.api_delay_max_ms)
        late_ms = prng.between(0, conditions.api_late_max_ms)
        lost = fate % 1000 < conditions.api_loss
        if now_ms < self._unavailable_until_ms(caller.broker_id) or (lost and fate >> 16 & 3 == 0):
            # It never arrived.
            self._time_out(caller, on_response)
            return
        slow_ms = self._slow_until_ms.get(caller.broker_id, 0) - now_ms
        if slow_ms > self._timeout_ms:
            self._virtual_time.after(slow_ms, apply)
            self._time_out(caller, on_response)
            return
        if lost:
            # The response is lost: applied in time, or after the caller gave up.
            if fate >> 16 & 1:
                there_ms = self._timeout_ms + late_ms
            self._virtual_time.after(there_ms, apply)
            self._time_out(caller, on_response)
            return

        def arrive() -> None:
            found = apply()
            outcome = StoreOutcome.OK
            if found is None:
                outcome = StoreOutcome.CONFLICT
                self._fault_counts[Anomaly.WRITE_REFUSED] += 1
            total_ms = back_ms if watch is None else self._list_back_ms(caller.broker_id, back_ms)
            if watch is not None:
                from_ms = self._virtual_time.now_ms + total_ms
                self._watches[caller.broker_id] = self._new_watch(caller, watch, from_ms)
            caller.deliver_after(total_ms, on_response, outcome, found)

        self._virtual_time.after(there_ms, arrive)

    def _time_out(
        self, caller: ProcessLife, on_response: Callable[[StoreOutcome, Value | None], None]
    ) -> None:
        self._fault_counts[Anomaly.CALL_UNANSWERED] += 1
        caller.deliver_after(self._timeout_ms, on_response, StoreOutcome.UNKNOWN, None)

    def _list_back_ms(self, broker_id: BrokerId, back_ms: int) -> int:
        """Return how long the response to a list takes; in time for a caller that waits for it."""
        conditions, prng = self._conditions.now, self._prng(broker_id, "list")
        slow_ms = prng.between(1, conditions.watch_delay_max_ms)
        return max(back_ms, min(slow_ms, self._timeout_ms - conditions.api_delay_max_ms - 1))

    def watch_lease(self, caller: ProcessLife, on_change: Callable[[LeaseRecord], None]) -> None:
        """Give a process the Lease as a read shows it, and then each change."""
        now_ms, silent_ms = self._virtual_time.now_ms, self._unavailable_until_ms(caller.broker_id)
        read_ms = max(now_ms, silent_ms) + self._conditions.now.api_delay_max_ms
        self._lease_watches[caller.broker_id] = self._new_watch(caller, on_change, read_ms)
        self._virtual_time.at(read_ms, caller.deliver, on_change, self.store.lease)

    def stop_watching(self, caller: ProcessLife) -> None:
        """End the watches of a process on partitions, brokers and topics."""
        watch = self._watches.get(caller.broker_id)
        if watch is not None and watch.caller is caller:
            del self._watches[caller.broker_id]

    def _notify_watches(self, event: ControllerEvent) -> None:
        for _, watch in sorted(self._watches.items()):
            self._notify(watch, event)

    def _notify(self, watch: _Watch[Value], value: Value) -> None:
        conditions, prng, now_ms = self._conditions.now, watch.prng, self._virtual_time.now_ms
        deliver, on_change = watch.caller.deliver, watch.on_change
        delay_ms = prng.between(1, conditions.watch_delay_max_ms)
        silent_ms = self._unavailable_until_ms(watch.caller.broker_id)
        arrival_ms = max(now_ms + delay_ms, silent_ms + delay_ms, watch.from_ms)
        if conditions.watch_in_order:
            arrival_ms = max(arrival_ms, watch.last_arrival_ms)
        elif arrival_ms < watch.last_arrival_ms:
            self._fault_counts[Anomaly.WATCH_OVERTAKEN] += 1
        watch.last_arrival_ms = max(arrival_ms, watch.last_arrival_ms)
        self._virtual_time.at(arrival_ms, deliver, on_change, value)
        if prng.chance(conditions.watch_duplicates):
            late_ms = prng.between(0, conditions.api_late_max_ms)
            self._virtual_time.at(arrival_ms + late_ms, deliver, on_change, value)

    def _new_watch(
        self, caller: ProcessLife, on_change: Callable[[Value], None], from_ms: int
    ) -> _Watch[Value]:
        key = key_of(self._seed, "watch", caller.broker_id, self._virtual_time.now_ms)
        return _Watch(caller, on_change, Prng(key), from_ms=from_ms)

    def _prng(self, broker_id: BrokerId, kind: str = "api") -> Prng:
        if (broker_id, kind) not in self._prngs:
            self._prngs[broker_id, kind] = Prng(key_of(self._seed, kind, broker_id))
        return self._prngs[broker_id, kind]

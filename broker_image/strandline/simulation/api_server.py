"""The API server as a process sees it: calls that are slow or lost, watches that are late.

A call is applied once or never; its answer may be lost, and a call that was given up may
still be applied up to two seconds later. Reads are quorum reads at the moment they arrive.
A list takes its time to come back, as long as a watch may lag behind, so it may be old when it
arrives. Watches deliver each change after a delay, sometimes twice, and not in order if so
planned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from strandline.controller.events import ControllerEvent
from strandline.controller.store_events import StoreOutcome, WatchLost
from strandline.model import BrokerId, LeaseRecord

from .fault_counts import Anomaly, FaultCounts
from .plan import Conditions
from .prng import Prng, key_of
from .virtual_time import Callback, VirtualTime

Value = TypeVar("Value")


class Caller(Protocol):
    """A process, as far as the API server answers it."""

    broker_id: BrokerId

    def deliver(self, callback: Callback, *arguments: object) -> None:
        """Run a callback in the process, unless it is dead; later, if it is paused."""
        ...

    def step_controller(self, event: ControllerEvent) -> None:
        """Step the controller of the process."""
        ...

    def observe_lease(self, lease: LeaseRecord) -> None:
        """Hear of the controller Lease."""
        ...


@dataclass(slots=True)
class _Watch:
    caller: Caller
    prng: Prng
    from_ms: int = 0
    last_arrival_ms: int = 0


class ApiServer:
    """One API server."""

    def __init__(
        self,
        virtual_time: VirtualTime,
        *,
        seed: int,
        conditions: Conditions,
        timeout_ms: int,
        fault_counts: FaultCounts,
    ) -> None:
        self._virtual_time = virtual_time
        self._fault_counts = fault_counts
        self._seed = seed
        self._conditions = conditions
        self._timeout_ms = timeout_ms
        self._prngs: dict[tuple[BrokerId, str], Prng] = {}
        self._outage_until_ms = 0
        self._cut_until_ms: dict[BrokerId, int] = {}
        self._lease_watches: dict[BrokerId, _Watch] = {}
        self._watches: dict[BrokerId, _Watch] = {}

    # --- faults ---------------------------------------------------------------------------

    def outage(self, until_ms: int) -> None:
        """Answer no call until then."""
        self._outage_until_ms = max(self._outage_until_ms, until_ms)

    def cut(self, broker_id: BrokerId, until_ms: int) -> None:
        """Do not answer one broker until then."""
        self._cut_until_ms[broker_id] = max(self._cut_until_ms.get(broker_id, 0), until_ms)

    def heal(self) -> None:
        """From now on every call is answered soon."""
        self._conditions = Conditions()
        self._outage_until_ms = 0
        self._cut_until_ms.clear()

    def _unavailable_until_ms(self, broker_id: BrokerId) -> int:
        return max(self._outage_until_ms, self._cut_until_ms.get(broker_id, 0))

    def expire_watches(self, caller: Caller) -> None:
        """End a process's watches with 410 Gone."""
        watch = self._watches.get(caller.broker_id)
        if watch is not None and watch.caller is caller:
            del self._watches[caller.broker_id]
            self._virtual_time.after(1, caller.deliver, caller.step_controller, WatchLost())

    # --- calls ----------------------------------------------------------------------------

    def call(
        self,
        caller: Caller,
        apply: Callable[[], Value | None],
        answer: Callable[[StoreOutcome, Value | None], None],
        *,
        watch: bool = False,
    ) -> None:
        """Have a call applied and answered; None from apply means it was refused.

        watch: the answer is a list from which the caller watches on.
        """
        now_ms, prng = self._virtual_time.now_ms, self._prng(caller.broker_id)
        conditions, fate = self._conditions, prng.draw()
        there_ms = prng.between(1, conditions.api_delay_max_ms)
        back_ms = prng.between(1, conditions.api_delay_max_ms)
        late_ms = prng.between(0, conditions.api_late_max_ms)
        lost = fate % 1000 < conditions.api_loss
        if now_ms < self._unavailable_until_ms(caller.broker_id) or (lost and fate >> 16 & 3 == 0):
            # It never arrived.
            self._time_out(caller, answer)
            return
        if lost:
            # The answer is lost: applied in time, or after the caller gave up.
            if fate >> 16 & 1:
                there_ms = self._timeout_ms + late_ms
            self._virtual_time.after(there_ms, apply)
            self._time_out(caller, answer)
            return
        self._virtual_time.after(there_ms, self._apply, caller, apply, answer, back_ms, watch)

    def _time_out(
        self, caller: Caller, answer: Callable[[StoreOutcome, Value | None], None]
    ) -> None:
        self._fault_counts[Anomaly.CALL_UNANSWERED] += 1
        self._virtual_time.after(
            self._timeout_ms, caller.deliver, answer, StoreOutcome.UNKNOWN, None
        )

    def _apply(
        self,
        caller: Caller,
        apply: Callable[[], Value | None],
        answer: Callable[[StoreOutcome, Value | None], None],
        back_ms: int,
        watch: bool,  # noqa: FBT001  # travels through virtual time by position
    ) -> None:
        found = apply()
        now_ms = self._virtual_time.now_ms
        arrival_ms = now_ms + back_ms
        if watch:
            arrival_ms = now_ms + self._list_back_ms(caller.broker_id, back_ms)
            self._watches[caller.broker_id] = self._new_watch(caller, arrival_ms)
        outcome = StoreOutcome.OK
        if found is None:
            outcome = StoreOutcome.CONFLICT
            self._fault_counts[Anomaly.WRITE_REFUSED] += 1
        self._virtual_time.at(arrival_ms, caller.deliver, answer, outcome, found)

    def _list_back_ms(self, broker_id: BrokerId, back_ms: int) -> int:
        """Return how long the answer of a list takes; in time for a caller that waits for it."""
        conditions, prng = self._conditions, self._prng(broker_id, "list")
        slow_ms = prng.between(1, conditions.watch_delay_max_ms)
        return max(back_ms, min(slow_ms, self._timeout_ms - conditions.api_delay_max_ms - 1))

    # --- watches --------------------------------------------------------------------------

    def watch_lease(self, caller: Caller, lease: LeaseRecord) -> None:
        """Give a process the Lease as a read shows it, and then each change."""
        now_ms, silent_ms = self._virtual_time.now_ms, self._unavailable_until_ms(caller.broker_id)
        read_ms = max(now_ms, silent_ms) + self._conditions.api_delay_max_ms
        self._lease_watches[caller.broker_id] = self._new_watch(caller, read_ms)
        self._virtual_time.at(read_ms, caller.deliver, caller.observe_lease, lease)

    def stop_watching(self, caller: Caller) -> None:
        """End the watches of a process on partitions, brokers and topics."""
        watch = self._watches.get(caller.broker_id)
        if watch is not None and watch.caller is caller:
            del self._watches[caller.broker_id]

    def notify_watches(self, event: ControllerEvent) -> None:
        """Send a change to every watch."""
        for _, watch in sorted(self._watches.items()):
            self._notify(watch, watch.caller.step_controller, event)

    def notify_lease_watches(self, lease: LeaseRecord) -> None:
        """Send the Lease to every watch of it."""
        for _, watch in sorted(self._lease_watches.items()):
            self._notify(watch, watch.caller.observe_lease, lease)

    def _notify(self, watch: _Watch, callback: Callback, *arguments: object) -> None:
        conditions, prng, now_ms = self._conditions, watch.prng, self._virtual_time.now_ms
        delay_ms = prng.between(1, conditions.watch_delay_max_ms)
        silent_ms = self._unavailable_until_ms(watch.caller.broker_id)
        arrival_ms = max(now_ms + delay_ms, silent_ms + delay_ms, watch.from_ms)
        if conditions.watch_in_order:
            arrival_ms = max(arrival_ms, watch.last_arrival_ms)
        elif arrival_ms < watch.last_arrival_ms:
            self._fault_counts[Anomaly.WATCH_OVERTAKEN] += 1
        watch.last_arrival_ms = max(arrival_ms, watch.last_arrival_ms)
        self._virtual_time.at(arrival_ms, watch.caller.deliver, callback, *arguments)
        if prng.chance(conditions.watch_duplicates):
            late_ms = prng.between(0, conditions.api_late_max_ms)
            self._virtual_time.at(arrival_ms + late_ms, watch.caller.deliver, callback, *arguments)

    def _new_watch(self, caller: Caller, from_ms: int) -> _Watch:
        key = key_of(self._seed, "watch", caller.broker_id, self._virtual_time.now_ms)
        return _Watch(caller, Prng(key), from_ms=from_ms)

    def _prng(self, broker_id: BrokerId, kind: str = "api") -> Prng:
        prng = self._prngs.get((broker_id, kind))
        if prng is None:
            key = key_of(self._seed, kind, broker_id)
            prng = self._prngs[broker_id, kind] = Prng(key)
        return prng

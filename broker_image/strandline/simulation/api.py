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

from .chance import Chance, key_of
from .happenings import Happened, Happening
from .plan import Conditions
from .timeline import Action, Timeline

Value = TypeVar("Value")


class Caller(Protocol):
    """A process, as far as the API server answers it."""

    broker_id: BrokerId

    def deliver(self, action: Action, *arguments: object) -> None:
        """Run an action in the process, unless it is dead; later, if it is paused."""
        ...

    def control(self, event: ControllerEvent) -> None:
        """Hand an event to the controller of the process."""
        ...

    def observe_lease(self, lease: LeaseRecord) -> None:
        """Hear of the controller Lease."""
        ...


@dataclass(slots=True)
class _Watch:
    caller: Caller
    chance: Chance
    from_ms: int = 0
    last_arrival_ms: int = 0


class Api:
    """One API server."""

    def __init__(
        self,
        timeline: Timeline,
        *,
        seed: int,
        conditions: Conditions,
        timeout_ms: int,
        happened: Happened,
    ) -> None:
        self._timeline = timeline
        self._happened = happened
        self._seed = seed
        self._conditions = conditions
        self._timeout_ms = timeout_ms
        self._chances: dict[tuple[BrokerId, str], Chance] = {}
        self._outage_until_ms = 0
        self._cut_until_ms: dict[BrokerId, int] = {}
        self._lease_watches: dict[BrokerId, _Watch] = {}
        self._watches: dict[BrokerId, _Watch] = {}

    # --- faults ---------------------------------------------------------------------------

    def outage(self, until_ms: int) -> None:
        """Answer nobody until then."""
        self._outage_until_ms = max(self._outage_until_ms, until_ms)

    def cut(self, broker_id: BrokerId, until_ms: int) -> None:
        """Do not answer one broker until then."""
        self._cut_until_ms[broker_id] = max(self._cut_until_ms.get(broker_id, 0), until_ms)

    def calm(self) -> None:
        """From now on every call is answered soon."""
        self._conditions = Conditions()
        self._outage_until_ms = 0
        self._cut_until_ms.clear()

    def _silent_until_ms(self, broker_id: BrokerId) -> int:
        return max(self._outage_until_ms, self._cut_until_ms.get(broker_id, 0))

    def lose_watches(self, caller: Caller) -> None:
        """End a process's watches with 410 Gone."""
        watch = self._watches.get(caller.broker_id)
        if watch is not None and watch.caller is caller:
            del self._watches[caller.broker_id]
            self._timeline.after(1, caller.deliver, caller.control, WatchLost())

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
        now_ms, chance = self._timeline.now_ms, self._chance(caller.broker_id)
        conditions, fate = self._conditions, chance.draw()
        there_ms = chance.between(1, conditions.api_delay_max_ms)
        back_ms = chance.between(1, conditions.api_delay_max_ms)
        late_ms = chance.between(0, conditions.api_late_max_ms)
        lost = fate % 1000 < conditions.api_loss
        if now_ms < self._silent_until_ms(caller.broker_id) or (lost and fate >> 16 & 3 == 0):
            # It never arrived.
            self._give_up(caller, answer)
            return
        if lost:
            # The answer is lost: applied in time, or after the caller gave up.
            if fate >> 16 & 1:
                there_ms = self._timeout_ms + late_ms
            self._timeline.after(there_ms, apply)
            self._give_up(caller, answer)
            return
        self._timeline.after(there_ms, self._apply, caller, apply, answer, back_ms, watch)

    def _give_up(
        self, caller: Caller, answer: Callable[[StoreOutcome, Value | None], None]
    ) -> None:
        self._happened[Happening.CALL_UNANSWERED] += 1
        self._timeline.after(self._timeout_ms, caller.deliver, answer, StoreOutcome.UNKNOWN, None)

    def _apply(
        self,
        caller: Caller,
        apply: Callable[[], Value | None],
        answer: Callable[[StoreOutcome, Value | None], None],
        back_ms: int,
        watch: bool,  # noqa: FBT001  # travels through the timeline by position
    ) -> None:
        found = apply()
        now_ms = self._timeline.now_ms
        arrival_ms = now_ms + back_ms
        if watch:
            arrival_ms = now_ms + self._list_back_ms(caller.broker_id, back_ms)
            self._watches[caller.broker_id] = self._new_watch(caller, arrival_ms)
        outcome = StoreOutcome.OK
        if found is None:
            outcome = StoreOutcome.CONFLICT
            self._happened[Happening.WRITE_REFUSED] += 1
        self._timeline.at(arrival_ms, caller.deliver, answer, outcome, found)

    def _list_back_ms(self, broker_id: BrokerId, back_ms: int) -> int:
        """Return how long the answer of a list takes; in time for a caller that waits for it."""
        conditions, chance = self._conditions, self._chance(broker_id, "list")
        slow_ms = chance.between(1, conditions.watch_delay_max_ms)
        return max(back_ms, min(slow_ms, self._timeout_ms - conditions.api_delay_max_ms - 1))

    # --- watches --------------------------------------------------------------------------

    def watch_lease(self, caller: Caller, lease: LeaseRecord) -> None:
        """Tell a process of the Lease as a read shows it, and then of each change."""
        now_ms, silent_ms = self._timeline.now_ms, self._silent_until_ms(caller.broker_id)
        read_ms = max(now_ms, silent_ms) + self._conditions.api_delay_max_ms
        self._lease_watches[caller.broker_id] = self._new_watch(caller, read_ms)
        self._timeline.at(read_ms, caller.deliver, caller.observe_lease, lease)

    def stop_watching(self, caller: Caller) -> None:
        """End the watches of a process on partitions, brokers and topics."""
        watch = self._watches.get(caller.broker_id)
        if watch is not None and watch.caller is caller:
            del self._watches[caller.broker_id]

    def show(self, event: ControllerEvent) -> None:
        """Tell everybody who watches."""
        for _, watch in sorted(self._watches.items()):
            self._show(watch, watch.caller.control, event)

    def show_lease(self, lease: LeaseRecord) -> None:
        """Tell everybody of the Lease."""
        for _, watch in sorted(self._lease_watches.items()):
            self._show(watch, watch.caller.observe_lease, lease)

    def _show(self, watch: _Watch, action: Action, *arguments: object) -> None:
        conditions, chance, now_ms = self._conditions, watch.chance, self._timeline.now_ms
        delay_ms = chance.between(1, conditions.watch_delay_max_ms)
        silent_ms = self._silent_until_ms(watch.caller.broker_id)
        arrival_ms = max(now_ms + delay_ms, silent_ms + delay_ms, watch.from_ms)
        if conditions.watch_in_order:
            arrival_ms = max(arrival_ms, watch.last_arrival_ms)
        elif arrival_ms < watch.last_arrival_ms:
            self._happened[Happening.WATCH_OVERTAKEN] += 1
        watch.last_arrival_ms = max(arrival_ms, watch.last_arrival_ms)
        self._timeline.at(arrival_ms, watch.caller.deliver, action, *arguments)
        if chance.happens(conditions.watch_duplicates):
            late_ms = chance.between(0, conditions.api_late_max_ms)
            self._timeline.at(arrival_ms + late_ms, watch.caller.deliver, action, *arguments)

    def _new_watch(self, caller: Caller, from_ms: int) -> _Watch:
        key = key_of(self._seed, "watch", caller.broker_id, self._timeline.now_ms)
        return _Watch(caller, Chance(key), from_ms=from_ms)

    def _chance(self, broker_id: BrokerId, kind: str = "api") -> Chance:
        chance = self._chances.get((broker_id, kind))
        if chance is None:
            key = key_of(self._seed, kind, broker_id)
            chance = self._chances[broker_id, kind] = Chance(key)
        return chance

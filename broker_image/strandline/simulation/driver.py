"""Drives one pure machine: steps it, performs its effects, wakes it when it asked to be woken.

The simulator's counterpart of the runtime's driver. A step never nests, because performing
only schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from .virtual_time import Callback, VirtualTime

Event = TypeVar("Event")
Effect = TypeVar("Effect")
Event_contra = TypeVar("Event_contra", contravariant=True)
Effect_co = TypeVar("Effect_co", covariant=True)


class DrivenMachine(Protocol[Event_contra, Effect_co]):
    """A pure state machine: `Replicas` or `Controller`."""

    def step(self, event: Event_contra, now_ms: int) -> Sequence[Effect_co]:
        """Take one event, return what is to be done."""
        ...

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the machine wants a tick, None if only events matter."""
        ...


class SimulatedDriver(Generic[Event, Effect]):
    """A machine with its timer; deliver runs a callback in the process that owns it."""

    __slots__ = ("_deliver", "_machine", "_perform", "_tick", "_virtual_time", "_wakeup_at_ms")

    def __init__(
        self,
        machine: DrivenMachine[Event, Effect],
        *,
        virtual_time: VirtualTime,
        deliver: Callable[..., None],
        perform: Callable[[Sequence[Effect]], None],
        tick: Event,
    ) -> None:
        self._machine = machine
        self._virtual_time = virtual_time
        self._deliver: Callback = deliver
        self._perform = perform
        self._tick = tick
        self._wakeup_at_ms: int | None = None

    def step(self, event: Event) -> None:
        """Take one event now."""
        self._perform(self._machine.step(event, self._virtual_time.now_ms))
        self._arm()

    def _arm(self) -> None:
        due_ms = self._machine.next_wakeup_ms
        if due_ms is None:
            return
        due_ms = max(due_ms, self._virtual_time.now_ms + 1)
        if self._wakeup_at_ms is None or due_ms < self._wakeup_at_ms:
            self._wakeup_at_ms = due_ms
            self._virtual_time.at(due_ms, self._deliver, self._wake, due_ms)

    def _wake(self, due_ms: int) -> None:
        if due_ms != self._wakeup_at_ms:
            return
        self._wakeup_at_ms = None
        wakeup_ms = self._machine.next_wakeup_ms
        if wakeup_ms is not None and wakeup_ms <= self._virtual_time.now_ms:
            self.step(self._tick)
        else:
            self._arm()

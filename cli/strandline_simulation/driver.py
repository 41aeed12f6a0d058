"""Drives one pure machine: steps it, performs its effects, wakes it when it asked to be woken.

The simulator's counterpart of the runtime's driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from .process_life import ProcessLife

Event = TypeVar("Event")
Effect = TypeVar("Effect")
Event_contra = TypeVar("Event_contra", contravariant=True)
Effect_co = TypeVar("Effect_co", covariant=True)


class DrivenMachine(Protocol[Event_contra, Effect_co]):
    """A pure state machine: `Replicas`, `Controller` or `ControllerSession`."""

    def step(self, event: Event_contra, now_ms: int) -> Sequence[Effect_co]:
        """Take one event, return what is to be done."""

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the machine wants a tick, None if only events matter."""


class SimulatedDriver(Generic[Event, Effect]):
    """A machine with its timer, in the process that owns it."""

    def __init__(
        self,
        machine: DrivenMachine[Event, Effect],
        life: ProcessLife,
        *,
        perform: Callable[[Sequence[Effect]], None],
        tick: Event,
    ) -> None:
        self._machine = machine
        self._life = life
        self._perform = perform
        self._tick = tick
        self._wakeup_at_ms: int | None = None

    def step(self, event: Event) -> None:
        """Take one event now, or after the steps that are under way."""
        self._life.take_turn(self._step, event)

    def _step(self, event: Event) -> None:
        self._perform(self._machine.step(event, self._life.virtual_time.now_ms))
        self._arm()

    def _arm(self) -> None:
        due_ms, virtual_time = self._machine.next_wakeup_ms, self._life.virtual_time
        if due_ms is None:
            return
        due_ms = max(due_ms, virtual_time.now_ms + 1)
        if self._wakeup_at_ms is None or due_ms < self._wakeup_at_ms:
            self._wakeup_at_ms = due_ms
            virtual_time.at(due_ms, self._life.deliver, self._wake, due_ms)

    def _wake(self, due_ms: int) -> None:
        if due_ms != self._wakeup_at_ms:
            return
        self._wakeup_at_ms = None
        wakeup_ms = self._machine.next_wakeup_ms
        if wakeup_ms is not None and wakeup_ms <= self._life.virtual_time.now_ms:
            self.step(self._tick)
        else:
            self._arm()

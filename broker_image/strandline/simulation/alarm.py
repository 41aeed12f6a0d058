"""Drives one pure machine: steps it, performs what it decided, wakes it when it asked to be.

The simulator's counterpart of the runtime's driver. A step never nests, because performing
only schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from .timeline import Action, Timeline

Event = TypeVar("Event")
Effect = TypeVar("Effect")
Event_contra = TypeVar("Event_contra", contravariant=True)
Effect_co = TypeVar("Effect_co", covariant=True)


class Machine(Protocol[Event_contra, Effect_co]):
    """A pure state machine: `Replicas` or `Controller`."""

    def step(self, event: Event_contra, now_ms: int) -> Sequence[Effect_co]:
        """Take one event, return what is to be done."""
        ...

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the machine wants to be told the time."""
        ...


class Driven(Generic[Event, Effect]):
    """A machine with its timer; deliver runs an action in the process that owns it."""

    __slots__ = ("_armed_ms", "_deliver", "_machine", "_perform", "_tick", "_timeline")

    def __init__(
        self,
        machine: Machine[Event, Effect],
        *,
        timeline: Timeline,
        deliver: Callable[..., None],
        perform: Callable[[Sequence[Effect]], None],
        tick: Event,
    ) -> None:
        self._machine = machine
        self._timeline = timeline
        self._deliver: Action = deliver
        self._perform = perform
        self._tick = tick
        self._armed_ms: int | None = None

    def step(self, event: Event) -> None:
        """Take one event now."""
        self._perform(self._machine.step(event, self._timeline.now_ms))
        self._arm()

    def _arm(self) -> None:
        due_ms = self._machine.next_wakeup_ms
        if due_ms is None:
            return
        due_ms = max(due_ms, self._timeline.now_ms + 1)
        if self._armed_ms is None or due_ms < self._armed_ms:
            self._armed_ms = due_ms
            self._timeline.at(due_ms, self._deliver, self._ring, due_ms)

    def _ring(self, due_ms: int) -> None:
        if due_ms != self._armed_ms:
            return
        self._armed_ms = None
        wakeup_ms = self._machine.next_wakeup_ms
        if wakeup_ms is not None and wakeup_ms <= self._timeline.now_ms:
            self.step(self._tick)
        else:
            self._arm()

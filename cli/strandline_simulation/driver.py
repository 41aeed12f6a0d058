"""Drives one pure machine: steps it, performs its effects, wakes it when it asked to be woken.

The simulator's counterpart of the runtime's driver. The machines of one process share a
`StepQueue`, so that a step never nests in the performing of another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from .virtual_time import Callback, VirtualTime

Event = TypeVar("Event")
Effect = TypeVar("Effect")
Event_contra = TypeVar("Event_contra", contravariant=True)
Effect_co = TypeVar("Effect_co", covariant=True)


class DrivenMachine(Protocol[Event_contra, Effect_co]):
    """A pure state machine: `Replicas`, `Controller` or `ControllerSession`."""

    def step(self, event: Event_contra, now_ms: int) -> Sequence[Effect_co]:
        """Take one event, return what is to be done."""
        ...

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the machine wants a tick, None if only events matter."""
        ...


class StepQueue:
    """Runs the steps of one process one after the other, in the order in which they were asked."""

    __slots__ = ("_is_stepping", "_waiting")

    def __init__(self) -> None:
        self._is_stepping = False
        self._waiting: deque[tuple[Callback, object]] = deque()

    def run(self, step: Callback, event: object) -> None:
        """Run a step now, or after those that are under way."""
        if self._is_stepping:
            self._waiting.append((step, event))
            return
        self._is_stepping = True
        step(event)
        while self._waiting:
            step, event = self._waiting.popleft()
            step(event)
        self._is_stepping = False


class SimulatedDriver(Generic[Event, Effect]):
    """A machine with its timer; deliver runs a callback in the process that owns it."""

    __slots__ = (
        "_deliver",
        "_machine",
        "_perform",
        "_queue",
        "_tick",
        "_virtual_time",
        "_wakeup_at_ms",
    )

    def __init__(
        self,
        machine: DrivenMachine[Event, Effect],
        *,
        virtual_time: VirtualTime,
        queue: StepQueue,
        deliver: Callable[..., None],
        perform: Callable[[Sequence[Effect]], None],
        tick: Event,
    ) -> None:
        self._machine = machine
        self._virtual_time = virtual_time
        self._queue = queue
        self._deliver: Callback = deliver
        self._perform = perform
        self._tick = tick
        self._wakeup_at_ms: int | None = None

    def step(self, event: Event) -> None:
        """Take one event now, or after the steps that are under way."""
        self._queue.run(self._step, event)

    def _step(self, event: Event) -> None:
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

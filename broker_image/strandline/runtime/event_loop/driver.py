"""The one caller of a pure machine: events in, effects performed in order.

Three of them run in a broker: for the replication core, for the controller, and for the session
with the controller. A driver runs on the event loop's thread and never blocks longer than a disk
call. An event that arrives while effects are being performed is queued, so steps never nest. A
storage failure drops the rest of that step's effects and becomes an event of its own: no message
leaves before the change that it reports is on disk.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NoReturn, Protocol, TypeVar

from strandline.errors import InvariantViolation, StorageError

Event = TypeVar("Event")
Effect = TypeVar("Effect")
Event_contra = TypeVar("Event_contra", contravariant=True)
Effect_co = TypeVar("Effect_co", covariant=True)


class StateMachine(Protocol[Event_contra, Effect_co]):
    """A pure state machine: `Replicas`, `Controller` or `ControllerSession`."""

    def step(self, event: Event_contra, now_ms: int) -> Sequence[Effect_co]:
        """Take one event and return the effects to perform."""
        ...

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the machine wants its next tick, None if only events matter."""
        ...


def no_disk(error: StorageError) -> NoReturn:
    """Raise for a storage error: only the effects of the replication core touch a disk."""
    raise InvariantViolation("only replicas have a disk", cause=str(error))


class Driver(Generic[Event, Effect]):
    """Orders the events of one machine; on_broken_promise must end the process.

    on_step gets each event and the seconds that its step took.
    """

    def __init__(
        self,
        machine: StateMachine[Event, Effect],
        *,
        perform: Callable[[Sequence[Effect]], None],
        tick: Event,
        now_ms: Callable[[], int],
        on_broken_promise: Callable[[InvariantViolation], None],
        on_storage_error: Callable[[StorageError], Event] = no_disk,
        on_step: Callable[[Event, float], None] | None = None,
    ) -> None:
        self._machine = machine
        self._perform = perform
        self._tick_event = tick
        self._now_ms = now_ms
        self._on_storage_error = on_storage_error
        self._on_broken_promise = on_broken_promise
        self._on_step = on_step
        self._events: deque[Event] = deque()
        self._stepping = False
        self._stopped = False
        self._storage_failed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms: int | None = None

    def submit(self, event: Event) -> None:
        """Step the machine and perform its effects; queue the event while effects are performed."""
        if self._stopped:
            return
        self._events.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._events and not self._stopped:
                self._step(self._events.popleft())
        except InvariantViolation as violation:
            self.stop()
            self._on_broken_promise(violation)
        except Exception as error:  # some effects of a decision were not performed
            self.stop()
            broken = InvariantViolation("every effect is performed", cause=repr(error))
            broken.__cause__ = error
            self._on_broken_promise(broken)
        finally:
            self._stepping = False
        self._arm_timer()

    def stop(self) -> None:
        """Take no more events: the process is about to end."""
        self._stopped = True
        self._events.clear()
        self._cancel_timer()

    def _step(self, event: Event) -> None:
        if self._on_step is None:
            effects = self._machine.step(event, self._now_ms())
        else:
            begun = time.perf_counter()
            effects = self._machine.step(event, self._now_ms())
            self._on_step(event, time.perf_counter() - begun)
        try:
            self._perform(effects)
        except StorageError as error:
            if self._storage_failed:
                raise InvariantViolation(
                    "a failed log directory is not touched again", cause=str(error)
                ) from error
            self._storage_failed = True
            self._events.appendleft(self._on_storage_error(error))

    def _arm_timer(self) -> None:
        """Tick in time; a timer that comes too early stays.

        Most waits end before their time: a timer for each of them costs more than a needless tick.
        """
        at_ms = None if self._stopped else self._machine.next_wakeup_ms
        if at_ms is None or (self._timer_at_ms is not None and self._timer_at_ms <= at_ms):
            return
        self._cancel_timer()
        self._timer_at_ms = at_ms
        delay_seconds = max(0, at_ms - self._now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_seconds, self._tick)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._timer_at_ms = None

    def _tick(self) -> None:
        self._timer = self._timer_at_ms = None
        self.submit(self._tick_event)

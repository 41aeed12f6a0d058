"""The life of one process: a dead one takes nothing any more, a paused one later."""

from __future__ import annotations

from collections import deque
from typing import Any

from strandline.model import BrokerId

from .network import Address
from .virtual_time import Callback, VirtualTime


class ProcessLife:
    """The names of one process, whether it lives, and its turns; changed by its own methods only.

    The three machines of the process step in turns: a step never nests in the performing of
    another one.
    """

    def __init__(self, virtual_time: VirtualTime, *, broker_id: BrokerId, number: int) -> None:
        """Begin alive; number counts the processes of the broker from 1."""
        self.virtual_time = virtual_time
        self.broker_id = broker_id
        self.incarnation = f"pod-{broker_id}.{number}"
        self.address = Address(broker_id, number)
        self.alive = True
        self._paused = False
        self._inbox: deque[tuple[Callback, tuple[Any, ...]]] = deque()
        self._is_stepping = False
        self._steps: deque[tuple[Callback, object]] = deque()

    def deliver(self, callback: Callback, *arguments: object) -> None:
        """Run a callback in this process; later if it is paused, never if it is dead."""
        if not self.alive:
            return
        if self._paused:
            self._inbox.append((callback, arguments))
        else:
            callback(*arguments)

    def deliver_after(self, delay_ms: int, callback: Callback, *arguments: object) -> None:
        """Run a callback in this process after a delay, as `deliver` does."""
        self.virtual_time.after(delay_ms, self.deliver, callback, *arguments)

    def take_turn(self, step: Callback, event: object) -> None:
        """Run a step of a machine now, or after the steps that were asked for before."""
        self._steps.append((step, event))
        if self._is_stepping:
            return
        self._is_stepping = True
        while self._steps:
            step, event = self._steps.popleft()
            step(event)
        self._is_stepping = False

    def pause(self) -> None:
        """Freeze; what arrives waits."""
        self._paused = True

    def resume(self) -> None:
        """Go on with what has arrived meanwhile."""
        self._paused = False
        while self._inbox:
            callback, arguments = self._inbox.popleft()
            self.deliver_after(0, callback, *arguments)

    def end(self) -> None:
        """Die at once."""
        self.alive = False
        self._inbox.clear()

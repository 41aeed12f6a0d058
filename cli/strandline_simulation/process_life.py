"""The life of one process: a dead one takes nothing any more, a paused one later."""

from __future__ import annotations

from collections import deque
from typing import Any

from strandline.model import BrokerId

from .network import Address
from .virtual_time import Callback, VirtualTime


class ProcessLife:
    """The names of one process, and whether it lives; changed by its own methods only."""

    def __init__(
        self, virtual_time: VirtualTime, *, broker_id: BrokerId, incarnation: str, number: int
    ) -> None:
        """Begin alive; number counts the processes of the broker from 1."""
        self.broker_id = broker_id
        self.incarnation = incarnation
        self.address = Address(broker_id, number)
        self.alive = True
        self.paused = False
        self._virtual_time = virtual_time
        self._inbox: deque[tuple[Callback, tuple[Any, ...]]] = deque()

    def deliver(self, callback: Callback, *arguments: object) -> None:
        """Run a callback in this process; later if it is paused, never if it is dead."""
        if not self.alive:
            return
        if self.paused:
            self._inbox.append((callback, arguments))
        else:
            callback(*arguments)

    def pause(self) -> None:
        """Freeze; what arrives waits."""
        self.paused = True

    def resume(self) -> None:
        """Go on with what has arrived meanwhile."""
        if not self.paused:
            return
        self.paused = False
        while self._inbox:
            callback, arguments = self._inbox.popleft()
            self._virtual_time.after(0, self.deliver, callback, *arguments)

    def end(self) -> None:
        """Die at once."""
        self.alive = False
        self._inbox.clear()

"""What a part of a process may use of it: its names, its life, and the three pure machines.

Implemented by `Process`; each part is given its own process's port and no other one's.
"""

from __future__ import annotations

from typing import Protocol

from strandline.controller.events import ControllerEvent
from strandline.controller_session.events import Event as SessionEvent
from strandline.core.events import Event as CoreEvent

from .driver import StepQueue
from .invariants import Replica
from .network import Address
from .virtual_time import Callback


class ProcessPort(Replica, Protocol):
    """One process, as its own parts see it."""

    @property
    def address(self) -> Address:
        """Where this process alone is reached, and no later one of its broker."""
        ...

    @property
    def queue(self) -> StepQueue:
        """The steps of the machines of this process."""
        ...

    def deliver(self, callback: Callback, *arguments: object) -> None:
        """Run a callback in this process; later if it is paused, never if it is dead."""
        ...

    def step_core(self, event: CoreEvent) -> None:
        """Step the replicas, after the step that is under way."""
        ...

    def step_controller(self, event: ControllerEvent) -> None:
        """Step the controller, after the step that is under way."""
        ...

    def step_session(self, event: SessionEvent) -> None:
        """Step the controller session, after the step that is under way."""
        ...

"""What a part of a process may use of it: its life, and the three pure machines.

Implemented by `ServingBroker`; each part is given its own process's port and no other one's.
"""

from __future__ import annotations

from typing import Protocol

from strandline.controller.events import ControllerEvent
from strandline.controller_session.events import Event as SessionEvent
from strandline.core.events import Event as CoreEvent

from .oracle import Replica
from .process_life import ProcessLife


class ProcessPort(Replica, Protocol):
    """One process, as its own parts see it; a step comes after the one that is under way."""

    @property
    def life(self) -> ProcessLife:
        """Its names, and its turns."""

    def step_core(self, event: CoreEvent) -> None:
        """Step the replicas."""

    def step_controller(self, event: ControllerEvent) -> None:
        """Step the controller."""

    def step_session(self, event: SessionEvent) -> None:
        """Step the controller session."""

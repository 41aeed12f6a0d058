"""The part of a broker's process that is its controller."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeVar

from strandline.controller.controller import Controller
from strandline.controller.effects import ControllerEffect
from strandline.controller.events import ControllerEvent

E = TypeVar("E")


@dataclass
class ControllerNode:
    """The shipped controller, its inbox, and the effects it has returned.

    A node whose watch is cut sees no change of the store. A frozen node takes no event until it
    thaws, like a stopped process.
    """

    controller: Controller
    watching: bool = False
    cut: bool = False
    frozen: bool = False
    inbox: deque[ControllerEvent] = field(default_factory=deque)
    effects: list[ControllerEffect] = field(default_factory=list)

    def sent(self, kind: type[E]) -> list[E]:
        """Return the effects of one kind that the controller has returned so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

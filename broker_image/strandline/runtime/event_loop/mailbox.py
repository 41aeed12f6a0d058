"""Where the parts of a broker send events to a machine whose driver is made after them.

A driver performs by means of the parts, and the parts answer with events: one of the two has to be
made first. The parts are, and each is handed a mailbox.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from strandline.errors import InvariantViolation

Event = TypeVar("Event")


class Mailbox(Generic[Event]):
    """The way to one driver; nothing is sent before the driver is there."""

    def __init__(self) -> None:
        self._deliver: Callable[[Event], None] = _refuse

    def open(self, deliver: Callable[[Event], None]) -> None:
        """Deliver to this driver from now on."""
        self._deliver = deliver

    def send(self, event: Event) -> None:
        """Submit an event to the driver."""
        self._deliver(event)


def _refuse(event: object) -> None:
    raise InvariantViolation("parts send no event before their driver is made", event=event)

"""Mailboxes: the parts of a broker send events through them to a driver that is made later.

A driver performs effects through the parts, and the parts send it events: one of the two has to be
made first. The parts are made first, and each gets a mailbox.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from strandline.errors import InvariantViolation

Event = TypeVar("Event")


class Mailbox(Generic[Event]):
    """The way to one driver; `send` raises before `open`."""

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

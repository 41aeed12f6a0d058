"""A mailbox passes events to its driver, and refuses them before it has one."""

from __future__ import annotations

import pytest

from strandline.errors import InvariantViolation
from strandline.runtime.event_loop.mailbox import Mailbox


def test_events_reach_the_driver_in_order() -> None:
    delivered: list[int] = []
    mailbox: Mailbox[int] = Mailbox()
    mailbox.open(delivered.append)
    mailbox.send(1)
    mailbox.send(2)
    assert delivered == [1, 2]


def test_event_before_the_driver_is_made_is_an_invariant_violation() -> None:
    mailbox: Mailbox[int] = Mailbox()
    with pytest.raises(InvariantViolation):
        mailbox.send(1)

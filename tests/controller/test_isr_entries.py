"""What an entry is worth: a loss needs proof, and so does a death."""

from __future__ import annotations

import pytest

from strandline.controller.broker_entry import Dead, Unregistered
from strandline.controller.isr_entries import lost_data
from tests.support.world.values import entry

from .test_elections import View, view


@pytest.mark.parametrize(
    "found, epoch, lost",
    [
        (view(0, epoch=3, clean=2), 1, True),
        (view(0, epoch=3, clean=2), 2, False),
        # The entry is newer than what the controller knows of the broker.
        (view(0, epoch=3, clean=2), 4, False),
        (view(0, Dead, epoch=3, clean=2), 1, True),
        (view(0, Unregistered), 1, False),
        (view(1), 1, False),
    ],
)
def test_data_is_lost_only_if_a_registration_says_so(
    found: View, epoch: int, *, lost: bool
) -> None:
    assert lost_data(entry(0, epoch), dict([found])) is lost

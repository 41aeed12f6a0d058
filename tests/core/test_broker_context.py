"""Identity of a process: its request ids and its own ISR entry."""

from __future__ import annotations

from dataclasses import replace

from strandline.model import BrokerEpoch

from .samples import context, entry


def test_no_two_processes_of_a_broker_send_the_same_request_id() -> None:
    first, second = context(), replace(context(), broker_epoch=BrokerEpoch(2))
    assert len({each.next_request_id() for each in (first, first, second, second)}) == 4


def test_own_entry_names_this_incarnation() -> None:
    here = context()
    assert here.is_own_incarnation(entry(0, 1))
    assert not here.is_own_incarnation(entry(0, 2))
    assert not here.is_own_incarnation(entry(1, 1))
    assert not here.is_own_incarnation(None)

"""Identity of a process: its request ids, its own ISR entry, and who is live."""

from __future__ import annotations

from strandline.model import BrokerEpoch, BrokerId

from .samples import around, entry


def test_no_two_processes_of_a_broker_send_the_same_request_id() -> None:
    first, second = around(), around()
    second.broker_epoch = BrokerEpoch(2)
    assert len({each.next_request_id() for each in (first, first, second, second)}) == 4


def test_own_entry_is_that_of_this_process() -> None:
    here = around()
    assert here.is_present_self(entry(0, 1))
    assert not here.is_present_self(entry(0, 2))
    assert not here.is_present_self(entry(1, 1))
    assert not here.is_present_self(None)


def test_live_is_exactly_the_announced_process() -> None:
    here = around(1)
    assert here.is_live(BrokerId(1), BrokerEpoch(1))
    assert not here.is_live(BrokerId(1), BrokerEpoch(2))
    assert not here.is_live(BrokerId(2), BrokerEpoch(1))

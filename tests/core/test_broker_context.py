"""Identity of a process: its request ids, its own ISR entry, and who is live."""

from __future__ import annotations

from strandline.model import BrokerEpoch, BrokerId

from .samples import context, entry


def test_no_two_processes_of_a_broker_send_the_same_request_id() -> None:
    first, second = context(), context()
    second.broker_epoch = BrokerEpoch(2)
    assert len({each.next_request_id() for each in (first, first, second, second)}) == 4


def test_own_entry_names_this_incarnation() -> None:
    here = context()
    assert here.is_own_incarnation(entry(0, 1))
    assert not here.is_own_incarnation(entry(0, 2))
    assert not here.is_own_incarnation(entry(1, 1))
    assert not here.is_own_incarnation(None)


def test_live_is_exactly_the_announced_process() -> None:
    here = context(1)
    assert here.is_live(BrokerId(1), BrokerEpoch(1))
    assert not here.is_live(BrokerId(1), BrokerEpoch(2))
    assert not here.is_live(BrokerId(2), BrokerEpoch(1))

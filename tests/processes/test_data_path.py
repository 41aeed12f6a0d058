"""Records through real brokers: acknowledged, replicated, kept through a leader's death."""

from __future__ import annotations

import pytest

from tests.support.broker_group import BrokerGroup
from tests.support.clients import Sent, producer_of, read_all

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


def test_acknowledged_records_are_read_at_their_offsets(group: BrokerGroup) -> None:
    group.create_topic("steady")
    group.wait_full_isr("steady")
    sent = Sent(producer_of(group.bootstrap()), "steady")
    sent.send(500)
    sent.settle()
    assert sorted(sent.offsets.values()) == list(range(500))
    assert read_all(group.bootstrap(), "steady", 500) == sent.offsets


def test_nothing_acknowledged_is_lost_when_the_leader_is_killed(group: BrokerGroup) -> None:
    group.create_topic("orders")
    group.wait_full_isr("orders")
    sent = Sent(producer_of(group.bootstrap()), "orders")
    sent.send(200)
    sent.settle()
    leader = group.wait_leader("orders")
    group.brokers[leader].kill()
    sent.send(200)
    sent.settle()
    group.wait_leader("orders", other_than=leader)
    assert read_all(group.bootstrap(), "orders", 400) == sent.offsets
    group.start()
    group.wait_full_isr("orders")
    assert read_all(group.bootstrap(), "orders", 400) == sent.offsets

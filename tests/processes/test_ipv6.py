"""Three brokers whose pods have IPv6 addresses alone: the protocol between them, and clients."""

from __future__ import annotations

import pytest

from tests.processes.conftest import MakeGroup
from tests.support.load import RATE, LoadProcess

pytestmark = pytest.mark.processes

LOOPBACK = "::1"
TOPIC = "six"
PARTITIONS = 3


def test_brokers_with_ipv6_addresses_replicate_elect_and_serve(make_group: MakeGroup) -> None:
    group = make_group(address=LOOPBACK)
    group.create_topic(TOPIC, partitions=PARTITIONS)
    group.wait_full_isr(TOPIC, PARTITIONS)
    load = LoadProcess(group, TOPIC, PARTITIONS)
    load.wait_for_acks(RATE)
    # Each leads one partition; the others probe the controller, elect and dial another one.
    victim = group.controller()
    group.brokers[victim].kill()
    group.wait_leader(TOPIC, victim, other_than=victim)
    load.wait_for_acks(RATE)
    group.start()
    load.judged()

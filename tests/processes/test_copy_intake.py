"""What a real broker receives from two leaders for new replicas keeps to its own bound."""

from __future__ import annotations

import time

import pytest

from strandline import names
from strandline.core.copy_quota import BURST_SECONDS
from tests.processes.conftest import MakeGroup
from tests.processes.test_copy_bound import counted
from tests.processes.test_running_settings import told, wait_told, want
from tests.support.broker_group import FORMED_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of
from tests.support.eventually import eventually
from tests.support.load import acked_history, judge_settled

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

BOUND = "follower.replication.throttled.rate"
MIB = 1 << 20
LEADERS = {"one": 0, "two": 1}
"""Topic of one partition to its leader; both are added to broker 3."""
ADDED = 3
RECORDS = 160
VALUE_BYTES = 100_000
RESPONSE_MAX_BYTES = MIB
SLOW = MIB
WATCHED_BYTES = 6 * MIB
"""The slow bound is watched until so much was copied: three seconds at least."""


def copied(group: BrokerGroup) -> float:
    """Return the bytes of copies that both leaders sent."""
    name = names.COPIED_BYTES_TOTAL.name
    return sum(counted(group, leader, name) for leader in LEADERS.values())


def test_copies_from_two_leaders_together_keep_to_the_bound_of_the_broker_that_is_added(
    make_group: MakeGroup,
) -> None:
    group = make_group(brokers=4)
    producer = producer_of(group.bootstrap())
    before, meanwhile = {}, {}
    for topic, leader in LEADERS.items():
        group.create_topic(topic, assignments=[[leader, 1 - leader, 2]])
        group.wait_full_isr(topic)
        before[topic] = SentRecords(producer, topic, prefix="before")
        meanwhile[topic] = SentRecords(producer, topic, prefix="meanwhile")
        for number in range(RECORDS):
            before[topic].send_value(b"%d-" % number + b"v" * VALUE_BYTES)
        before[topic].settle()
        assert group.wait_leader(topic) == leader
    assert copied(group) == 0
    first = told(group, ADDED)
    want(group, ADDED, {BOUND: SLOW})
    slow = wait_told(group, ADDED, other_than=first["configDigest"])
    looks = [(time.monotonic(), time.monotonic(), copied(group))]
    for topic, leader in LEADERS.items():
        group.move(topic, ADDED, leader, 1 - leader)

    def copied_under_load() -> bool:
        for sent in meanwhile.values():
            sent.send(20)
            sent.settle()
        began = time.monotonic()
        looks.append((began, time.monotonic(), copied(group)))
        assert looks[-1][2] >= WATCHED_BYTES, looks
        return True

    eventually(copied_under_load, FORMED_LIMIT_MS, f"{WATCHED_BYTES} bytes copied")
    overdraft = RESPONSE_MAX_BYTES * len(LEADERS)
    for number, (since, _, had) in enumerate(looks):
        for _, until, has in looks[number + 1 :]:
            assert has - had <= SLOW * (until - since + BURST_SECONDS) + overdraft, looks
    for topic, leader in LEADERS.items():
        status = group.partition(topic)
        assert status["addingReplicas"] == [ADDED], status
        assert {leader, 1 - leader, 2} <= set(status["isr"]), "no member fell behind"

    want(group, ADDED, None)
    wait_told(group, ADDED, other_than=slow["configDigest"])
    for topic, leader in LEADERS.items():
        group.wait_moved(topic, ADDED, leader, 1 - leader)
    assert copied(group) >= len(LEADERS) * RECORDS * VALUE_BYTES
    for topic, sent in meanwhile.items():
        sent.send(20)
        sent.settle()
        judge_settled(group, topic, 1, acked_history(before[topic].offsets, sent.offsets))

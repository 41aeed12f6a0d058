"""Replicas that are added to a real partition copy no faster than the bound, under load."""

from __future__ import annotations

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from strandline import names
from strandline.core.copy_quota import BURST_SECONDS
from tests.processes.conftest import MakeGroup
from tests.processes.test_running_settings import told, wait_told, want
from tests.support.broker_group import FORMED_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of
from tests.support.eventually import eventually
from tests.support.load import acked_history, judge_settled

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

BOUND = "leader.replication.throttled.rate"
MIB = 1 << 20
RECORDS = 240
VALUE_BYTES = 100_000
BATCH_MAX_BYTES = MIB
SLOW = 2 * MIB
WATCHED_BYTES = 8 * MIB
"""The slow bound is watched until so much was copied: three seconds at least."""


def counted(group: BrokerGroup, broker: int, name: str) -> float:
    """Return a broker's counter without labels."""
    _, text = group.brokers[broker].get("/metrics")
    samples = (each for family in text_string_to_metric_families(text) for each in family.samples)
    (value,) = (each.value for each in samples if each.name == name)
    return value


class Watched:
    """How many bytes of copies a leader had sent, between the times before and after the look."""

    def __init__(self, group: BrokerGroup, leader: int) -> None:
        self._group = group
        self._leader = leader
        self.looks: list[tuple[float, float, float]] = []

    def look(self) -> float:
        """Look once more; return the bytes."""
        before = time.monotonic()
        copied = counted(self._group, self._leader, names.COPIED_BYTES_TOTAL.name)
        self.looks.append((before, time.monotonic(), copied))
        return copied

    def judge(self, rate: int) -> None:
        """Between any two looks the rate was kept: but for one burst, and one batch."""
        for number, (since, _, had) in enumerate(self.looks):
            for _, until, has in self.looks[number + 1 :]:
                at_most = rate * (until - since) + rate * BURST_SECONDS + BATCH_MAX_BYTES
                assert has - had <= at_most, (self.looks, rate)


def test_copies_keep_to_the_bound_of_a_running_broker_and_no_other_replica_does(
    make_group: MakeGroup,
) -> None:
    group = make_group(brokers=5)
    group.create_topic("copied", assignments=[[0, 1, 2]])
    group.wait_full_isr("copied")
    producer = producer_of(group.bootstrap())
    before = SentRecords(producer, "copied", prefix="before")
    for number in range(RECORDS):
        before.send_value(b"%d-" % number + b"v" * VALUE_BYTES)
    before.settle()
    leader = group.wait_leader("copied")
    others = counted(group, leader, names.COPIED_BYTES_TOTAL.name)
    assert others == 0, "replicas that were there from the start are no copies"
    first = told(group, leader)
    want(group, leader, {BOUND: SLOW})
    slow = wait_told(group, leader, other_than=first["configDigest"])
    meanwhile = SentRecords(producer, "copied", prefix="meanwhile")
    watched = Watched(group, leader)
    watched.look()
    group.move("copied", 3, 4, 0)

    def copied_under_load() -> bool:
        meanwhile.send(20)
        meanwhile.settle()
        assert watched.look() >= WATCHED_BYTES, watched.looks
        return True

    eventually(copied_under_load, FORMED_LIMIT_MS, f"{WATCHED_BYTES} bytes copied")
    watched.judge(SLOW)
    status = group.partition("copied")
    assert sorted(status["isr"]) == [0, 1, 2], "the copies go on, and no member fell behind"
    assert status["addingReplicas"] == [3, 4]
    assert counted(group, leader, names.COPIES_HELD_BACK_TOTAL.name) > 0

    want(group, leader, None)
    wait_told(group, leader, other_than=slow["configDigest"])
    group.wait_moved("copied", 3, 4, 0)
    assert counted(group, leader, names.COPIED_BYTES_TOTAL.name) >= 2 * RECORDS * VALUE_BYTES
    meanwhile.send(20)
    meanwhile.settle()
    judge_settled(group, "copied", 1, acked_history(before.offsets, meanwhile.offsets))

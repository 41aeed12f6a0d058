"""The reporter of notices keeps a leadership's times until the leadership ends."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from strandline.controller.notices import BrokerDead
from strandline.core.notices import BecameFollower, BecameLeader, ReplicaFailed
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    IsrEntry,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.observability.logs import BrokerLogFormatter
from strandline.runtime.observability.metrics import Metrics
from strandline.runtime.observability.notice_reporters import (
    ControllerNoticeReporter,
    CoreNoticeReporter,
)
from tests.support.counted_calls import calls_of

TAKE_OVER_CALLS_MAX = 250
"""A broker that takes hundreds of partitions over reports them all in one step."""
TP = TopicPartition(topic_id=TopicId("t"), partition=0)
OTHER_TP = TopicPartition(topic_id=TopicId("t"), partition=1)


def leading() -> CoreNoticeReporter:
    reporter = CoreNoticeReporter(Metrics(), Clock())
    for tp in (TP, OTHER_TP):
        reporter.report(
            BecameLeader(
                tp=tp, topic_name="orders", leader_epoch=LeaderEpoch(0), start_offset=0, isr=()
            )
        )
    return reporter


def became_follower(reporter: CoreNoticeReporter) -> None:
    reporter.report(
        BecameFollower(tp=TP, topic_name="orders", leader=BrokerId(1), leader_epoch=LeaderEpoch(1))
    )


def failed(reporter: CoreNoticeReporter) -> None:
    reporter.report(ReplicaFailed(tp=TP, reason="disk"))


def deleted(reporter: CoreNoticeReporter) -> None:
    reporter.replica_deleted(TP)


@pytest.mark.parametrize("end", [became_follower, failed, deleted])
def test_an_ended_leadership_is_forgotten_and_the_others_are_kept(
    end: Callable[[CoreNoticeReporter], None],
) -> None:
    reporter = leading()
    assert set(reporter.leader_since) == set(reporter.isr_changed_at) == {TP, OTHER_TP}
    end(reporter)
    assert set(reporter.leader_since) == set(reporter.isr_changed_at) == {OTHER_TP}


def test_deletion_of_a_replica_that_never_led_changes_nothing() -> None:
    reporter = leading()
    reporter.replica_deleted(TopicPartition(topic_id=TopicId("u"), partition=0))
    assert len(reporter.leader_since) == 2


def test_a_line_has_all_fields_of_its_notice_and_costs_few_calls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    isr = tuple(IsrEntry(broker_id=BrokerId(n), broker_epoch=BrokerEpoch(7)) for n in range(3))
    reporter = CoreNoticeReporter(Metrics(), Clock())

    def take_over() -> None:
        reporter.report(
            BecameLeader(
                tp=TP, topic_name="orders", leader_epoch=LeaderEpoch(4), start_offset=5, isr=isr
            )
        )

    take_over()
    line = json.loads(BrokerLogFormatter().format(caplog.records[-1]))
    assert {name: line[name] for name in ("message", "partition", "topic_name", "isr")} == {
        "message": "became leader",
        "partition": "t-0",
        "topic_name": "orders",
        "isr": [{"broker_id": n, "broker_epoch": 7} for n in range(3)],
    }
    assert (line["leader_epoch"], line["start_offset"]) == (4, 5)
    assert calls_of(take_over) < TAKE_OVER_CALLS_MAX


def test_a_line_about_another_broker_still_says_who_wrote_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = BrokerLogFormatter()
    lines.bind(broker_id=1, broker_epoch=7)
    dead = BrokerDead(
        broker_id=BrokerId(2), broker_epoch=BrokerEpoch(4), reason="probe", detect_ms=90
    )
    ControllerNoticeReporter(Metrics(), lease_name="lease").report(dead)
    line = json.loads(lines.format(caplog.records[-1]))
    assert (line["broker_id"], line["broker_epoch"]) == (1, 7)
    assert (line["about_broker_id"], line["about_broker_epoch"]) == (2, 4)

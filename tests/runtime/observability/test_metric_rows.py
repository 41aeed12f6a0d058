"""Every counter and histogram rises with its event, here or in a test on real brokers.

This file has the events that do not happen in an ordinary run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from strandline import names
from strandline.controller.notices import LeaseLostOrLeft, RequestFenced
from strandline.core.notices import (
    Fenced,
    IsrChanged,
    IsrProposalRefused,
    RequestExpired,
    Truncated,
)
from strandline.errors import ErrorCode
from strandline.kube.api import RequestDone
from strandline.model import BrokerId, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition
from strandline.names import Metric, MetricKind
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.observability.metrics import CONFLICT, Metrics
from strandline.runtime.observability.notice_reporters import (
    ControllerNoticeReporter,
    CoreNoticeReporter,
)
from strandline.runtime.observability.traffic_metrics import ListenerMetrics, ThroughputMetrics
from tests.processes.test_metrics import RISES

TP = TopicPartition(topic_id=TopicId("t"), partition=0)
ONE, BOTH = (BrokerId(0),), (BrokerId(0), BrokerId(1))
NEVER = {names.INVARIANT_VIOLATIONS_TOTAL}
"""Its event is a bug of ours, which ends the process."""


def isr_changed(before: tuple[BrokerId, ...], after: tuple[BrokerId, ...]) -> IsrChanged:
    return IsrChanged(
        tp=TP,
        topic_name="orders",
        leader_epoch=LeaderEpoch(1),
        partition_epoch=PartitionEpoch(2),
        isr_before=before,
        isr_after=after,
        log_end_offset=5,
        high_watermark=3,
    )


def truncated(metrics: Metrics) -> None:
    cut = Truncated(
        tp=TP,
        topic_name="orders",
        leader_epoch=LeaderEpoch(1),
        from_offset=5,
        to_offset=2,
        below_high_watermark=1,
        reason="diverging_epoch",
    )
    CoreNoticeReporter(metrics, Clock()).report(cut)


def shrunk(metrics: Metrics) -> None:
    CoreNoticeReporter(metrics, Clock()).report(isr_changed(BOTH, ONE))


def expanded(metrics: Metrics) -> None:
    CoreNoticeReporter(metrics, Clock()).report(isr_changed(ONE, BOTH))


def proposal_refused(metrics: Metrics) -> None:
    refused = IsrProposalRefused(tp=TP, error=ErrorCode.NOT_CONTROLLER)
    CoreNoticeReporter(metrics, Clock()).report(refused)


def fenced_by_the_core(metrics: Metrics) -> None:
    CoreNoticeReporter(metrics, Clock()).report(Fenced(fence="leader_epoch", detail=""))


def fenced_by_the_controller(metrics: Metrics) -> None:
    fenced = RequestFenced(broker_id=BrokerId(1), fence="broker_epoch", detail="")
    ControllerNoticeReporter(metrics, lease_name="lease").report(fenced)


def expired(metrics: Metrics) -> None:
    CoreNoticeReporter(metrics, Clock()).report(RequestExpired(operation="produce"))


def lease_lost(metrics: Metrics) -> None:
    ControllerNoticeReporter(metrics, lease_name="lease").report(
        LeaseLostOrLeft(reason="another holder")
    )


def conflict(metrics: Metrics) -> None:
    done = RequestDone(verb="update", resource="partitions", code=CONFLICT, seconds=0.01)
    metrics.kubernetes_request_done(done)


def unsupported(metrics: Metrics) -> None:
    ListenerMetrics(metrics).request_unsupported("JoinGroup", "client")


def copied(metrics: Metrics) -> None:
    ThroughputMetrics(metrics).copied(100)


def copy_held_back(metrics: Metrics) -> None:
    ThroughputMetrics(metrics).copy_held_back()


EVENTS: tuple[tuple[Metric, Callable[[Metrics], None]], ...] = (
    (names.ISR_SHRINKS_TOTAL, shrunk),
    (names.ISR_EXPANDS_TOTAL, expanded),
    (names.ISR_UPDATE_FAILURES_TOTAL, proposal_refused),
    (names.TRUNCATIONS_TOTAL, truncated),
    (names.TRUNCATED_RECORDS_TOTAL, truncated),
    (names.TRUNCATIONS_BELOW_HIGH_WATERMARK_TOTAL, truncated),
    (names.UNSUPPORTED_REQUESTS_TOTAL, unsupported),
    (names.PURGATORY_EXPIRED_TOTAL, expired),
    (names.FENCED_REQUESTS_TOTAL, fenced_by_the_core),
    (names.FENCED_REQUESTS_TOTAL, fenced_by_the_controller),
    (names.LEASE_LOST_TOTAL, lease_lost),
    (names.KUBERNETES_CONFLICTS_TOTAL, conflict),
    (names.COPIED_BYTES_TOTAL, copied),
    (names.COPIES_HELD_BACK_TOTAL, copy_held_back),
)


@pytest.mark.parametrize(("row", "event"), EVENTS, ids=lambda each: getattr(each, "name", ""))
def test_a_counter_rises_with_its_event(row: Metric, event: Callable[[Metrics], None]) -> None:
    metrics = Metrics()
    event(metrics)
    shown = text_string_to_metric_families(asyncio.run(metrics.exposition()).decode())
    assert sum(s.value for family in shown for s in family.samples if s.name == row.name) > 0


def test_every_counter_and_histogram_is_seen_to_rise_somewhere() -> None:
    tried = {row for row, _ in EVENTS} | set(RISES) | NEVER
    counting = {row for row in names.ALL_METRICS if row.kind is not MetricKind.GAUGE}
    assert tried == counting

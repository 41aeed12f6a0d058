"""Logs and counters as views of notices: a broker reports its decisions here alone.

One notice, one constant message, its fields beside it. Called by the performers of the core's
and the controller's effects; decides nothing.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from enum import Enum
from typing import Final

from strandline import names
from strandline.controller import notices as controller_notices
from strandline.controller.events import ControllerEvent
from strandline.core import notices as core_notices
from strandline.log_fields import fields
from strandline.model import ElectionKind, TopicPartition
from strandline.runtime.event_loop.clock import Clock

from .metrics import Metrics

_log = logging.getLogger(__name__)

FENCES: Final = ("controller_epoch", "broker_epoch", "leader_epoch", "topic_id")
OPERATIONS: Final = ("produce", "fetch", "follower_fetch")
DIRECTIONS: Final = ("in", "out")
PHASES: Final = ("detect", "elect")


class CoreNoticeReporter:
    """Reports what replicas did; remembers when each one's leadership and ISR last changed."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self.leader_since: dict[TopicPartition, float] = {}
        """Wall time in seconds, for partitions led here."""
        self.isr_changed_at: dict[TopicPartition, float] = {}
        """Wall time in seconds, for partitions led here."""
        for fence in FENCES:
            metrics.counter(names.FENCED_REQUESTS_TOTAL).labels(fence)
        for operation in OPERATIONS:
            metrics.counter(names.PURGATORY_EXPIRED_TOTAL).labels(operation)
        for direction in DIRECTIONS:
            metrics.counter(names.REPLICATION_BYTES_TOTAL).labels(direction)
        metrics.gauge(names.LOG_DIRECTORY_FAILED).set(0)

    def report(self, notice: core_notices.Notice) -> None:
        """Log and count one fact."""
        match notice:
            case core_notices.HighWatermarkAdvanced():
                return
            case core_notices.RequestExpired():
                expired = self._metrics.counter(names.PURGATORY_EXPIRED_TOTAL)
                expired.labels(notice.operation).inc()
            case core_notices.BecameLeader():
                self._became_leader(notice)
            case core_notices.BecameFollower():
                self._forget_leadership(notice.tp)
                _log.info("became follower", extra=fields(**_named(notice)))
            case core_notices.IsrChanged():
                self._isr_changed(notice)
            case core_notices.IsrProposalRefused():
                failures = self._metrics.counter(names.ISR_UPDATE_FAILURES_TOTAL)
                failures.labels(notice.error.name).inc()
                _log.info("isr proposal not accepted", extra=fields(**_named(notice)))
            case core_notices.Truncated():
                self._truncated(notice)
            case core_notices.Fenced():
                self._metrics.counter(names.FENCED_REQUESTS_TOTAL).labels(notice.fence).inc()
                _log.warning("fenced", extra=fields(**_named(notice)))
            case core_notices.ReplicaFailed():
                self._forget_leadership(notice.tp)
                self._metrics.gauge(names.LOG_DIRECTORY_FAILED).set(1)
                _log.error("replica failed", extra=fields(**_named(notice)))

    def replica_deleted(self, tp: TopicPartition) -> None:
        """Forget a deleted replica; this broker may have led it or not."""
        self._forget_leadership(tp)

    def _became_leader(self, notice: core_notices.BecameLeader) -> None:
        labels = (notice.topic_name, str(notice.tp.partition))
        self._metrics.counter(names.ISR_SHRINKS_TOTAL).labels(*labels)
        self._metrics.counter(names.ISR_EXPANDS_TOTAL).labels(*labels)
        now = self._clock.wall_time_us() / 1e6
        self.leader_since[notice.tp] = now
        self.isr_changed_at[notice.tp] = now
        _log.info("became leader", extra=fields(**_named(notice)))

    def _forget_leadership(self, tp: TopicPartition) -> None:
        self.leader_since.pop(tp, None)
        self.isr_changed_at.pop(tp, None)

    def _isr_changed(self, notice: core_notices.IsrChanged) -> None:
        labels = (notice.topic_name, str(notice.tp.partition))
        before, after = set(notice.isr_before), set(notice.isr_after)
        self.isr_changed_at[notice.tp] = self._clock.wall_time_us() / 1e6
        if before - after:
            self._metrics.counter(names.ISR_SHRINKS_TOTAL).labels(*labels).inc()
            _log.info("isr shrunk", extra=fields(**_named(notice)))
        if after - before:
            self._metrics.counter(names.ISR_EXPANDS_TOTAL).labels(*labels).inc()
            _log.info("isr expanded", extra=fields(**_named(notice)))

    def _truncated(self, notice: core_notices.Truncated) -> None:
        labels = (notice.topic_name, str(notice.tp.partition), notice.reason)
        self._metrics.counter(names.TRUNCATIONS_TOTAL).labels(*labels).inc()
        removed = notice.from_offset - notice.to_offset
        self._metrics.counter(names.TRUNCATED_RECORDS_TOTAL).labels(*labels).inc(removed)
        below = self._metrics.counter(names.TRUNCATIONS_BELOW_HIGH_WATERMARK_TOTAL).labels(*labels)
        if notice.below_high_watermark > 0:
            below.inc()
            _log.warning("truncated below high watermark", extra=fields(**_named(notice)))
        else:
            _log.info("truncated", extra=fields(**_named(notice)))


class ControllerNoticeReporter:
    """Reports what the controller did."""

    def __init__(self, metrics: Metrics, *, lease_name: str) -> None:
        self._metrics = metrics
        self._lease_name = lease_name
        self._decided = metrics.histogram(names.CONTROLLER_EVENT_SECONDS)
        metrics.gauge(names.CONTROLLER_ACTIVE).set(0)
        metrics.counter(names.LEASE_LOST_TOTAL).labels(lease_name)
        metrics.counter(names.LEASE_TRANSITIONS_TOTAL).labels(lease_name)
        for kind in ElectionKind:
            metrics.counter(names.LEADER_ELECTIONS_TOTAL).labels(kind.value)
            for phase in PHASES:
                metrics.histogram(names.FAILOVER_SECONDS).labels(kind.value, phase)

    def report(self, notice: controller_notices.ControllerNotice) -> None:
        """Log and count one fact."""
        match notice:
            case controller_notices.LeaderElected():
                self._leader_elected(notice)
            case controller_notices.LeaseTaken():
                self._metrics.counter(names.LEASE_TRANSITIONS_TOTAL).labels(self._lease_name).inc()
                _log.info("lease taken", extra=fields(**_named(notice)))
            case controller_notices.LeaseLostOrLeft():
                self._metrics.counter(names.LEASE_LOST_TOTAL).labels(self._lease_name).inc()
                _log.info("lease lost or left", extra=fields(**_named(notice)))
            case controller_notices.ControllerElected():
                self._metrics.gauge(names.CONTROLLER_ACTIVE).set(1)
                _log.info("controller elected", extra=fields(**_named(notice)))
            case controller_notices.ControllerResigned():
                self._metrics.gauge(names.CONTROLLER_ACTIVE).set(0)
                _log.warning("controller resigned", extra=fields(**_named(notice)))
            case controller_notices.BrokerDead():
                _log.warning("broker dead", extra=fields(**_named(notice)))
            case controller_notices.PartitionOffline():
                _log.warning("partition offline", extra=fields(**_named(notice)))
            case controller_notices.RequestFenced():
                self._metrics.counter(names.FENCED_REQUESTS_TOTAL).labels(notice.fence).inc()
                _log.warning("request fenced", extra=fields(**_named(notice)))
            case _:
                _log.info(MESSAGES[type(notice)], extra=fields(**_named(notice)))

    def stepped(self, event: ControllerEvent, seconds: float) -> None:
        """Observe how long the controller took to decide."""
        self._decided.labels(type(event).__name__).observe(seconds)

    def lease_written(self, seconds: float) -> None:
        """Observe how long a write of the controller Lease took."""
        self._metrics.histogram(names.LEASE_RENEW_SECONDS).labels(self._lease_name).observe(seconds)

    def _leader_elected(self, notice: controller_notices.LeaderElected) -> None:
        kind = notice.kind.value
        self._metrics.counter(names.LEADER_ELECTIONS_TOTAL).labels(kind).inc()
        phases = self._metrics.histogram(names.FAILOVER_SECONDS)
        phases.labels(kind, "detect").observe(notice.detect_ms / 1000)
        phases.labels(kind, "elect").observe(notice.elect_ms / 1000)
        level = logging.WARNING if notice.kind is ElectionKind.UNCLEAN else logging.INFO
        _log.log(level, "leader elected", extra=fields(**_named(notice)))


MESSAGES: Final[dict[type, str]] = {
    controller_notices.BrokerRegistered: "broker session opened",
    controller_notices.IsrAccepted: "isr accepted",
    controller_notices.IsrRefused: "isr refused",
    controller_notices.MinIsrChanged: "min isr changed",
    controller_notices.StoreConflicted: "store conflicted",
    controller_notices.TopicDeletionConfirmed: "topic deletion confirmed",
}


WRITERS_OWN: Final = frozenset({"broker_id", "broker_epoch"})
"""Fields that every line uses for the broker that wrote it."""


def _named(notice: object) -> dict[str, object]:
    """Return a notice's fields, partitions spelled as people read them.

    The broker that a notice is about gets `about_` before its fields: it may not be the writer.
    """
    values: dict[str, object] = {}
    for key, value in asdict(notice).items():  # type: ignore[call-overload]  # every notice is one
        if key == "tp":
            values["partition"] = f"{value['topic_id']}-{value['partition']}"
        else:
            name = f"about_{key}" if key in WRITERS_OWN else key
            values[name] = value.value if isinstance(value, Enum) else value
    return values

"""Logs and counters as views of notices: a broker reports its decisions here alone.

One notice, one constant message, its fields beside it. Called by the performers of the core's
and the controller's effects; decides nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum
from typing import Final

from strandline import names
from strandline.controller import notices as controller_notices
from strandline.controller.events import ControllerEvent
from strandline.core import notices as core_notices
from strandline.log_fields import fields
from strandline.model import ElectionKind, TopicPartition
from strandline.runtime.event_loop.clock import Clock

from .isr_counters import IsrCounters
from .metrics import Metrics

_log = logging.getLogger(__name__)

FENCES: Final = ("controller_epoch", "broker_epoch", "leader_epoch", "topic_id")
OPERATIONS: Final = ("produce", "delete_records", "fetch", "follower_fetch")
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
        self._isr_counters = IsrCounters()
        metrics.add_section(self._isr_counters.pieces)
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
            case (
                core_notices.DurableEndAdvanced()
                | core_notices.HighWatermarkAdvanced()
                | core_notices.LowWatermarkAdvanced()
            ):
                return
            case core_notices.RequestExpired():
                expired = self._metrics.counter(names.PURGATORY_EXPIRED_TOTAL)
                expired.labels(notice.operation).inc()
            case core_notices.BecameLeader():
                self._became_leader(notice)
            case core_notices.BecameFollower():
                self._forget_leadership(notice.tp)
                _say(logging.INFO, "became follower", notice)
            case core_notices.IsrChanged():
                self._isr_changed(notice)
            case core_notices.IsrProposalRefused():
                failures = self._metrics.counter(names.ISR_UPDATE_FAILURES_TOTAL)
                failures.labels(notice.error.name).inc()
                _say(logging.INFO, "isr proposal not accepted", notice)
            case core_notices.LogStartAdvanced():
                _say(logging.INFO, "log start advanced", notice)
            case core_notices.Truncated():
                self._truncated(notice)
            case core_notices.Fenced():
                self._metrics.counter(names.FENCED_REQUESTS_TOTAL).labels(notice.fence).inc()
                _say(logging.WARNING, "fenced", notice)
            case core_notices.ReplicaFailed():
                self._forget_leadership(notice.tp)
                self._metrics.gauge(names.LOG_DIRECTORY_FAILED).set(1)
                _say(logging.ERROR, "replica failed", notice)

    def _became_leader(self, notice: core_notices.BecameLeader) -> None:
        self._isr_counters.count(notice.tp, notice.topic_name, shrank=False, expanded=False)
        now = self._clock.wall_time_us() / 1e6
        self.leader_since[notice.tp] = now
        self.isr_changed_at[notice.tp] = now
        _say(logging.INFO, "became leader", notice)

    def leadership_since(self, tp: TopicPartition) -> tuple[float, float] | None:
        """Return when leadership began and the ISR last changed, None for a replica not led here.

        Units:   wall time in seconds
        """
        began, changed = self.leader_since.get(tp), self.isr_changed_at.get(tp)
        return None if began is None or changed is None else (began, changed)

    def replica_deleted(self, tp: TopicPartition) -> None:
        """Forget what is shown of a replica that this broker hosts no more."""
        self._forget_leadership(tp)
        self._isr_counters.forget(tp)

    def _forget_leadership(self, tp: TopicPartition) -> None:
        """Forget since when a replica leads; this broker may have led it or not."""
        self.leader_since.pop(tp, None)
        self.isr_changed_at.pop(tp, None)

    def _isr_changed(self, notice: core_notices.IsrChanged) -> None:
        before, after = set(notice.isr_before), set(notice.isr_after)
        shrank, expanded = bool(before - after), bool(after - before)
        self.isr_changed_at[notice.tp] = self._clock.wall_time_us() / 1e6
        self._isr_counters.count(notice.tp, notice.topic_name, shrank=shrank, expanded=expanded)
        if shrank:
            _say(logging.INFO, "isr shrunk", notice)
        if expanded:
            _say(logging.INFO, "isr expanded", notice)

    def _truncated(self, notice: core_notices.Truncated) -> None:
        labels = (notice.topic_name, str(notice.tp.partition), notice.reason)
        removed = notice.from_offset - notice.to_offset
        self._metrics.counter(names.TRUNCATIONS_TOTAL).labels(*labels).inc()
        self._metrics.counter(names.TRUNCATED_RECORDS_TOTAL).labels(*labels).inc(removed)
        below = self._metrics.counter(names.TRUNCATIONS_BELOW_HIGH_WATERMARK_TOTAL).labels(*labels)
        if notice.below_high_watermark > 0:
            below.inc()
            _say(logging.WARNING, "truncated below high watermark", notice)
        else:
            _say(logging.INFO, "truncated", notice)


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
        level, message = LINES[type(notice)]
        match notice:
            case controller_notices.LeaderElected():
                self._count_election(notice)
                if notice.kind is ElectionKind.UNCLEAN:
                    level = logging.WARNING
            case controller_notices.LeaseTaken():
                self._metrics.counter(names.LEASE_TRANSITIONS_TOTAL).labels(self._lease_name).inc()
            case controller_notices.LeaseLostOrLeft():
                self._metrics.counter(names.LEASE_LOST_TOTAL).labels(self._lease_name).inc()
            case controller_notices.ControllerElected():
                self._metrics.gauge(names.CONTROLLER_ACTIVE).set(1)
            case controller_notices.ControllerResigned():
                self._metrics.gauge(names.CONTROLLER_ACTIVE).set(0)
            case controller_notices.RequestFenced():
                self._metrics.counter(names.FENCED_REQUESTS_TOTAL).labels(notice.fence).inc()
            case _:
                pass
        _say(level, message, notice)

    def stepped(self, event: ControllerEvent, seconds: float) -> None:
        """Observe how long the controller took to decide."""
        self._decided.labels(type(event).__name__).observe(seconds)

    def lease_written(self, seconds: float) -> None:
        """Observe how long a write of the controller Lease took."""
        self._metrics.histogram(names.LEASE_RENEW_SECONDS).labels(self._lease_name).observe(seconds)

    def _count_election(self, notice: controller_notices.LeaderElected) -> None:
        kind = notice.kind.value
        self._metrics.counter(names.LEADER_ELECTIONS_TOTAL).labels(kind).inc()
        phases = self._metrics.histogram(names.FAILOVER_SECONDS)
        phases.labels(kind, "detect").observe(notice.detect_ms / 1000)
        phases.labels(kind, "elect").observe(notice.elect_ms / 1000)


LINES: Final[dict[type, tuple[int, str]]] = {
    controller_notices.LeaseTaken: (logging.INFO, "lease taken"),
    controller_notices.LeaseLostOrLeft: (logging.INFO, "lease lost or left"),
    controller_notices.ControllerElected: (logging.INFO, "controller elected"),
    controller_notices.ControllerResigned: (logging.WARNING, "controller resigned"),
    controller_notices.BrokerRegistered: (logging.INFO, "broker session opened"),
    controller_notices.BrokerWithoutSession: (logging.WARNING, "broker without session"),
    controller_notices.BrokerDead: (logging.WARNING, "broker dead"),
    controller_notices.LeaderElected: (logging.INFO, "leader elected"),
    controller_notices.PartitionBegunAnew: (logging.WARNING, "partition begun anew"),
    controller_notices.PartitionSetAside: (logging.WARNING, "partition object without effect"),
    controller_notices.PartitionOffline: (logging.WARNING, "partition offline"),
    controller_notices.IsrAccepted: (logging.INFO, "isr accepted"),
    controller_notices.IsrRefused: (logging.INFO, "isr refused"),
    controller_notices.MinIsrChanged: (logging.INFO, "min isr changed"),
    controller_notices.StoreConflicted: (logging.INFO, "store conflicted"),
    controller_notices.RequestFenced: (logging.WARNING, "request fenced"),
    controller_notices.StatesRefused: (logging.WARNING, "states refused"),
    controller_notices.TopicDeletionConfirmed: (logging.INFO, "topic deletion confirmed"),
    controller_notices.StrayFound: (logging.WARNING, "stray topic found"),
    controller_notices.PartitionMoved: (logging.INFO, "replicas changed"),
    controller_notices.ReplicaRemoved: (logging.INFO, "removed replica stopped"),
    controller_notices.RestoreAsked: (logging.INFO, "restore from trash asked for"),
    controller_notices.RestoreFailed: (logging.WARNING, "restore from trash failed"),
}
"""Level and message of each notice of the controller; an unclean election is a warning."""

NAMELESS: Final = (int, float, str, type(None))
"""Types of values that have no parts; most fields of notices have one of these."""

WRITERS_OWN: Final = frozenset({"broker_id", "broker_epoch"})
"""Fields that every line uses for the broker that wrote it."""


def _say(level: int, message: str, notice: object) -> None:
    _log.log(level, message, extra=fields(**_named(notice)))


def _named(notice: object) -> dict[str, object]:
    """Return a notice's fields, partitions spelled as people read them.

    The broker that a notice is about gets `about_` before its fields: it may not be the writer.
    """
    values: dict[str, object] = {}
    for key in _field_names(notice):
        value = getattr(notice, key)
        if key == "tp":
            values["partition"] = str(value)
        else:
            values[f"about_{key}" if key in WRITERS_OWN else key] = _plain(value)
    return values


def _plain(value: object) -> object:
    """Return a value as JSON has it; `asdict` would copy every part of it deeply."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, NAMELESS):
        return value
    parts = _field_names(value)
    if isinstance(value, tuple) and not parts:
        return [_plain(each) for each in value]
    return {name: _plain(getattr(value, name)) for name in parts} if parts else value


def _field_names(value: object) -> Iterable[str]:
    """Return the names of the fields of a dataclass or named tuple, none for any other value."""
    names: Iterable[str] = getattr(value, "__dataclass_fields__", ())
    return names or getattr(value, "_fields", ())

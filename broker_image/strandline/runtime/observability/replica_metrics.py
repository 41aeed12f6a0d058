"""Gauges of replicas, read at each scrape and not kept up to date in between.

A section of the process's metrics. A leader alone shows the rows of a leader: on a follower
they are absent, not zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from strandline import names
from strandline.controller.controller import Controller
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.replicas import Replicas
from strandline.core.views import RoleName
from strandline.model import BrokerId, TopicPartition
from strandline.names import Metric, MetricKind
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.storage.disk_space import DiskSpace
from strandline.runtime.storage.replica_store import ReplicaStore

from . import replica_lines
from .exposition import PARTITIONS_PER_STEP, header, in_steps, sample
from .notice_reporters import CoreNoticeReporter
from .replica_lines import Lines, ReplicaLines

SET_AS_THEY_CHANGE = (
    names.BROKER_EPOCH,
    names.BROKER_START_TIMESTAMP_SECONDS,
    names.LOG_DIRECTORY_FAILED,
    names.LOG_RECOVERY_REMAINING_LOGS,
    names.CONTROLLER_ACTIVE,
    names.WATCH_LAST_EVENT_TIMESTAMP_SECONDS,
)
SHOWN = tuple(
    row
    for row in names.ALL_METRICS
    if row.kind is MetricKind.GAUGE and row not in SET_AS_THEY_CHANGE
)
"""The gauges that a scrape reads; `Metrics` holds the others."""
BROKER_ROWS = tuple(row for row in SHOWN if row not in replica_lines.ROWS)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplicaMetrics:
    """All gauges of one broker's replicas; detail_max bounds the partitions shown one by one."""

    broker_id: BrokerId
    replicas: Replicas
    store: ReplicaStore
    space: DiskSpace
    metadata: MetadataCache
    controller: Controller
    reporter: CoreNoticeReporter
    clock: Clock
    detail_max: int
    _kept: dict[TopicPartition, ReplicaLines] = field(init=False, default_factory=dict)
    """What was shown of the replicas that this broker hosts."""

    def pieces(self) -> Iterator[str]:
        """Yield the text of all families; a piece without text ends a step.

        The steps are apart in time: each partition is shown as it is when its step comes.
        """
        lines: list[list[str]] = [[] for _ in replica_lines.ROWS]
        shown: list[ReplicaLines] = []
        clock_began = self.clock.wall_time_us() / 1e6 - self.clock.now_ms() / 1000
        for number, tp in enumerate(sorted(self.store.logs)):
            detail = lines if len(shown) < self.detail_max else None
            replica = self._replica(tp, detail, clock_began)
            if replica is not None:
                shown.append(replica)
            if number % PARTITIONS_PER_STEP == PARTITIONS_PER_STEP - 1:
                yield ""
        self._forget_replicas_that_are_gone()
        yield ""
        for row, text in zip(replica_lines.ROWS, lines, strict=True):
            yield header(row.name, row.documentation, row.kind.value)
            yield from in_steps(text)
        yield self._broker_text(shown)

    def _replica(
        self, tp: TopicPartition, lines: Lines | None, clock_began: float
    ) -> ReplicaLines | None:
        """Look at one replica and add its lines; return None if it is hosted no more."""
        gauges = self.replicas.gauges(tp)
        if gauges is None:
            return None
        replica = self._kept.get(tp)
        if replica is None:
            replica = self._kept[tp] = ReplicaLines(gauges.topic_name, tp.partition)
        replica.update(gauges)
        if lines is None:
            return replica
        replica.add(gauges, self.store.logs.get(tp), lines)
        if replica.led is not None:
            replica.add_leader(gauges, self.reporter.leadership_since(tp), clock_began, lines)
        return replica

    def _forget_replicas_that_are_gone(self) -> None:
        if len(self._kept) > len(self.store.logs):
            for tp in self._kept.keys() - self.store.logs.keys():
                del self._kept[tp]

    def _broker_text(self, shown: Sequence[ReplicaLines]) -> str:
        """Return the families of the broker and of the controller."""
        lines: dict[str, list[str]] = {row.name: [] for row in BROKER_ROWS}

        def show(row: Metric, value: float, *labels: str) -> None:
            lines[row.name].append(sample(row.name, zip(row.labels, labels, strict=True), value))

        led = [replica.led for replica in shown if replica.led is not None]
        # A replica that is being added is not missing.
        sizes = [(len(each.isr), len(each.original_replicas), each.least_in_sync) for each in led]
        show(names.BROKER_PARTITIONS, len(shown))
        show(names.BROKER_LEADERS, len(led))
        others = sum(each.original_replicas[0] != self.broker_id for each in led)
        show(names.BROKER_LEADERS_FOR_OTHERS, others)
        show(names.BROKER_UNDER_REPLICATED_PARTITIONS, sum(isr < ar for isr, ar, _ in sizes))
        show(names.BROKER_UNDER_MIN_ISR_PARTITIONS, sum(isr < least for isr, _, least in sizes))
        show(names.BROKER_AT_MIN_ISR_PARTITIONS, sum(isr == least for isr, _, least in sizes))
        failed = sum(replica.role is RoleName.FAILED for replica in shown)
        show(names.BROKER_OFFLINE_REPLICAS, failed)
        show(names.LOG_TRASH_BYTES, self.store.trash_bytes)
        show(names.BROKER_FENCED, self.metadata.live_broker(self.broker_id) is None)
        show(names.LOG_DIRECTORY_TOTAL_BYTES, self.space.total_bytes)
        show(names.LOG_DIRECTORY_FREE_BYTES, self.space.free_bytes)
        show(names.LOG_DIRECTORY_FULL, self.space.is_full)
        show(names.LOG_DIRECTORY_FILL_SECONDS, self.space.fills_in_seconds)
        for operation, size in self.replicas.purgatory_sizes().items():
            show(names.PURGATORY_SIZE, size, operation)
        show(names.CONTROLLER_EPOCH, self.replicas.controller_epoch)
        if self.controller.epoch is not None:
            show(names.CONTROLLER_QUEUE_SIZE, self.controller.queue_length)
            show(names.OFFLINE_PARTITIONS, self.controller.offline_partition_count)
            on_disk, in_trash = self.controller.stray_topic_counts
            show(names.STRAY_TOPICS, on_disk, "disk")
            show(names.STRAY_TOPICS, in_trash, "trash")
        return "".join(
            header(row.name, row.documentation, row.kind.value) + "".join(lines[row.name])
            for row in BROKER_ROWS
        )

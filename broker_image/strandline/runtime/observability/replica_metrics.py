"""Gauges of replicas, read at each scrape and not kept up to date in between.

A section of the process's metrics. A leader alone shows the rows of a leader: on a follower
they are absent, not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from strandline import names
from strandline.controller.controller import Controller
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.replicas import Replicas
from strandline.core.views import PartitionView, RoleName
from strandline.log.partition_log import PartitionLog
from strandline.model import BrokerId, TopicPartition
from strandline.names import Metric, MetricKind
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.storage.disk_space import DiskSpace
from strandline.runtime.storage.replica_store import ReplicaStore

from .exposition import PARTITIONS_PER_STEP, header, in_steps, sample
from .notice_reporters import CoreNoticeReporter

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

    def pieces(self) -> Iterator[str]:
        """Yield the text of all families; a piece without text ends a step.

        The steps are apart in time: each partition is shown as it is when its step comes.
        """
        lines: dict[str, list[str]] = {row.name: [] for row in SHOWN}

        def show(row: Metric, value: float, *labels: str) -> None:
            lines[row.name].append(sample(row.name, zip(row.labels, labels, strict=True), value))

        views: list[PartitionView] = []
        for number, tp in enumerate(sorted(self.store.logs)):
            view = self.replicas.view(tp)
            if view is None:
                continue
            views.append(view)
            if len(views) <= self.detail_max:
                self._show_replica(view, self.store.logs, show)
                if view.role is RoleName.LEADER:
                    self._show_leader(view, show)
            if number % PARTITIONS_PER_STEP == PARTITIONS_PER_STEP - 1:
                yield ""
        self._show_broker(views, show)
        show(names.LOG_DIRECTORY_TOTAL_BYTES, self.space.total_bytes)
        show(names.LOG_DIRECTORY_FREE_BYTES, self.space.free_bytes)
        show(names.LOG_DIRECTORY_FULL, self.space.is_full)
        show(names.LOG_DIRECTORY_FILL_SECONDS, self.space.fills_in_seconds)
        for operation, size in self.replicas.purgatory_sizes().items():
            show(names.PURGATORY_SIZE, size, operation)
        yield ""
        for row in SHOWN:
            yield header(row.name, row.documentation, row.kind.value)
            yield from in_steps(lines[row.name])

    def _show_replica(
        self,
        view: PartitionView,
        logs: Mapping[TopicPartition, PartitionLog],
        show: Callable[..., None],
    ) -> None:
        labels = (view.topic_name, str(view.tp.partition))
        show(names.PARTITION_LOG_START_OFFSET, view.log_start_offset, *labels)
        show(names.PARTITION_LOG_END_OFFSET, view.log_end_offset, *labels)
        show(names.PARTITION_HIGH_WATERMARK, view.high_watermark, *labels)
        show(names.PARTITION_LEADER_EPOCH, view.leader_epoch, *labels)
        show(names.PARTITION_IS_LEADER, view.role is RoleName.LEADER, *labels)
        log = logs.get(view.tp)
        if log is not None:
            show(names.PARTITION_LOG_SIZE_BYTES, log.size_bytes, *labels)
            show(names.PARTITION_LOG_SEGMENTS, log.segment_count, *labels)

    def _show_leader(self, view: PartitionView, show: Callable[..., None]) -> None:
        labels = (view.topic_name, str(view.tp.partition))
        members = {entry.broker_id for entry in view.isr}
        show(names.PARTITION_REPLICAS, len(view.original_replicas), *labels)
        show(names.PARTITION_ISR_SIZE, len(members), *labels)
        show(names.PARTITION_ELIGIBLE_LEADERS, len(view.eligible_leaders), *labels)
        show(names.PARTITION_MIN_INSYNC_REPLICAS, view.min_insync_replicas, *labels)
        show(names.PARTITION_PARTITION_EPOCH, view.partition_epoch, *labels)
        for replica in view.replicas:
            show(names.PARTITION_ISR_MEMBER, replica in members, *labels, str(replica))
        since = self.reporter.leader_since.get(view.tp)
        changed = self.reporter.isr_changed_at.get(view.tp)
        if since is not None and changed is not None:
            show(names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS, since, *labels)
            show(names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS, changed, *labels)
        wall_seconds = self.clock.wall_time_us() / 1e6
        now_ms = self.clock.now_ms()
        for follower in view.followers:
            replica_labels = (*labels, str(follower.broker_id))
            show(names.REPLICA_LOG_END_OFFSET, follower.log_end_offset, *replica_labels)
            if follower.last_caught_up_ms is not None:
                seconds = wall_seconds - (now_ms - follower.last_caught_up_ms) / 1000
                show(names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS, seconds, *replica_labels)

    def _show_broker(self, views: Sequence[PartitionView], show: Callable[..., None]) -> None:
        led = [view for view in views if view.role is RoleName.LEADER]
        # A replica that is being added is not missing.
        sizes = [
            (len(view.isr), len(view.original_replicas), view.min_insync_replicas) for view in led
        ]
        show(names.BROKER_PARTITIONS, len(views))
        show(names.BROKER_LEADERS, len(led))
        others = sum(view.original_replicas[0] != self.broker_id for view in led)
        show(names.BROKER_LEADERS_FOR_OTHERS, others)
        show(names.BROKER_UNDER_REPLICATED_PARTITIONS, sum(isr < ar for isr, ar, _ in sizes))
        show(names.BROKER_UNDER_MIN_ISR_PARTITIONS, sum(isr < least for isr, _, least in sizes))
        show(names.BROKER_AT_MIN_ISR_PARTITIONS, sum(isr == least for isr, _, least in sizes))
        failed = sum(view.role is RoleName.FAILED for view in views)
        show(names.BROKER_OFFLINE_REPLICAS, failed)
        show(names.LOG_TRASH_BYTES, self.store.trash_bytes)
        show(names.BROKER_FENCED, self.metadata.live_broker(self.broker_id) is None)
        show(names.CONTROLLER_EPOCH, self.replicas.controller_epoch)
        if self.controller.epoch is not None:
            show(names.CONTROLLER_QUEUE_SIZE, self.controller.queue_length)
            show(names.OFFLINE_PARTITIONS, self.controller.offline_partition_count)
            on_disk, in_trash = self.controller.stray_topic_counts
            show(names.STRAY_TOPICS, on_disk, "disk")
            show(names.STRAY_TOPICS, in_trash, "trash")

"""Gauges of replicas, read at each scrape and not kept up to date in between.

A section of the process's metrics. A leader alone shows the rows of a leader: on a follower
they are absent, not zero. The text of each step's partitions is kept until the next scrape, which
compares what it reads of each replica, and makes only a changed one's lines anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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

from .exposition import PARTITIONS_PER_STEP, header, in_steps, sample
from .notice_reporters import CoreNoticeReporter
from .replica_lines import COUNTED_ROWS, KEPT_ROWS, ROWS, ReplicaLines, SeenReplica, TimeTexts

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
BROKER_ROWS = tuple(row for row in SHOWN if row not in ROWS)


class _Block(NamedTuple):
    """What one step shows, kept until anything in it changes.

    The first of the replicas are detailed; texts are those of KEPT_ROWS, counts of COUNTED_ROWS.
    """

    seen: list[SeenReplica]
    detailed: list[ReplicaLines]
    texts: list[str]
    counts: list[int]


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
    _blocks: list[_Block] = field(init=False, default_factory=list)
    """What the last scrape showed."""

    def pieces(self) -> Iterator[str]:
        """Yield the text of all families; a piece without text ends a step.

        The steps are apart in time: each partition is shown as it is when its step comes.
        """
        ends, caught_up = list[str](), list[str]()
        times = TimeTexts(self.clock.wall_time_us() / 1e6 - self.clock.now_ms() / 1000)
        blocks, shown = list[_Block](), 0
        tps = sorted(self.store.logs)
        for start in range(0, len(tps), PARTITIONS_PER_STEP):
            found = map(self._seen, tps[start : start + PARTITIONS_PER_STEP])
            seen = [each for each in found if each is not None]
            block = self._block(len(blocks), seen, max(0, self.detail_max - shown))
            for (_, gauges, *_), replica in zip(seen, block.detailed, strict=False):
                if gauges.followers:
                    replica.add_followers(gauges.followers, times, ends, caught_up)
            blocks.append(block)
            shown += len(seen)
            yield ""
        del self._blocks[len(blocks) :]
        self._forget_replicas_that_are_gone()
        kept = ([block.texts[row] for block in blocks] for row in range(len(KEPT_ROWS)))
        for row, texts in zip(ROWS, (*kept, ends, caught_up), strict=True):
            yield header(row.name, row.documentation, row.kind.value)
            yield from in_steps(texts)
        yield self._broker_text(shown, blocks)

    def _seen(self, tp: TopicPartition) -> SeenReplica | None:
        """Return what is shown of a replica, None if it is hosted no more."""
        gauges = self.replicas.gauges(tp)
        if gauges is None:
            return None
        leads = gauges.role is RoleName.LEADER
        since = self.reporter.leadership_since(tp) if leads else None
        log = self.store.logs.get(tp)
        if log is None:
            return tp, gauges, None, None, since
        return tp, gauges, log.size_bytes, log.segment_count, since

    def _block(self, place: int, seen: list[SeenReplica], room: int) -> _Block:
        """Return the block at a place: the former one if it would show the same."""
        room = min(room, len(seen))
        former = self._blocks[place] if place < len(self._blocks) else None
        if former is not None and former.seen == seen and len(former.detailed) == room:
            return former
        replicas = [self._replica(each) for each in seen]
        detailed = replicas[:room]
        lines = [replica.lines(each) for replica, each in zip(detailed, seen, strict=False)]
        block = _Block(
            seen,
            detailed,
            ["".join([each[row] for each in lines]) for row in range(len(KEPT_ROWS))],
            [sum(each.counts[row] for each in replicas) for row in range(len(COUNTED_ROWS))],
        )
        self._blocks[place : place + 1] = [block]
        return block

    def _replica(self, seen: SeenReplica) -> ReplicaLines:
        tp, gauges, *_ = seen
        replica = self._kept.get(tp)
        if replica is None:
            replica = ReplicaLines(gauges.topic_name, tp.partition, self.broker_id)
            self._kept[tp] = replica
        replica.update(seen)
        return replica

    def _forget_replicas_that_are_gone(self) -> None:
        if len(self._kept) > len(self.store.logs):
            for tp in self._kept.keys() - self.store.logs.keys():
                del self._kept[tp]

    def _broker_text(self, shown: int, blocks: Sequence[_Block]) -> str:
        """Return the families of the broker and of the controller."""
        lines: dict[str, list[str]] = {row.name: [] for row in BROKER_ROWS}

        def show(row: Metric, value: float, *labels: str) -> None:
            lines[row.name].append(sample(row.name, zip(row.labels, labels, strict=True), value))

        show(names.BROKER_PARTITIONS, shown)
        for place, row in enumerate(COUNTED_ROWS):
            show(row, sum(block.counts[place] for block in blocks))
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

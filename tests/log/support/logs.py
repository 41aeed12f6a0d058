"""Logs in a temporary data directory, and reads of their contents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from strandline.log.checkpoint import FIRST_START
from strandline.log.log_segments import LogEnvironment
from strandline.log.partition_folder import PartitionMetadataFile, folder_of
from strandline.log.partition_log import EPOCH_MAX, PartitionLog
from strandline.log.record_batch import read_client_batch
from strandline.log.segment import LogLimits, SegmentPool
from strandline.log.segment_part import Records
from strandline.model import EpochStart, LeaderEpoch, TopicId, TopicPartition, TopicSettings

from .batches import batch

TOPIC_ID = TopicId("6f1ed002-ab59-4d60-8a05-7f1c0e9a1b2c")
TP = TopicPartition(topic_id=TOPIC_ID, partition=3)
SMALL_INDEX = LogLimits(index_interval_bytes=64, index_size_max_bytes=1024)


@dataclass
class Workshop:
    """One data directory with small segments, and a log that a test can open more than once."""

    root: Path
    settings: TopicSettings = field(default_factory=lambda: TopicSettings(segment_bytes=400))
    limits: LogLimits = SMALL_INDEX
    pool: SegmentPool = field(default_factory=lambda: SegmentPool(open_segments_max=128))

    @property
    def environment(self) -> LogEnvironment:
        return LogEnvironment(pool=self.pool, limits=self.limits)

    @cached_property
    def folder(self) -> Path:
        return folder_of(self.root, TP)

    def create(self, tp: TopicPartition = TP) -> PartitionLog:
        metadata = PartitionMetadataFile(tp=tp, topic_name="orders")
        return PartitionLog.create(self.root, metadata, self.settings, environment=self.environment)

    def open(
        self,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start: EpochStart = FIRST_START,
        epoch_max: int = EPOCH_MAX,
    ) -> PartitionLog:
        return PartitionLog.open(
            self.folder,
            self.settings,
            clean=clean,
            recovery_point=recovery_point,
            log_start=log_start,
            environment=self.environment,
            epoch_max=LeaderEpoch(epoch_max),
        )


def fill(log: PartitionLog, *, batches: int, records: int = 2, epoch: int = 0) -> None:
    """Append batches of equal size as the leader of an epoch."""
    for _ in range(batches):
        append(log, records=records, epoch=epoch)


def append(
    log: PartitionLog, *, records: int = 1, epoch: int = 0, value: bytes = b"v" * 20
) -> None:
    log.append_as_leader(
        read_client_batch(batch([value] * records)),
        base_offset=log.log_end_offset,
        leader_epoch=LeaderEpoch(epoch),
    )


def content(log: PartitionLog) -> bytes:
    """Return the bytes of all batches of the log."""
    parts = log.read(
        from_offset=log.log_start_offset, up_to_offset=log.log_end_offset, max_bytes=1 << 30
    )
    return b"".join(parts)


def bytes_of(records: Sequence[Records]) -> bytes:
    """Return the bytes of batches, wherever they lie."""
    return b"".join(
        each if isinstance(each, memoryview) else os.pread(each.file.fd, len(each), each.position)
        for each in records
    )


def bring_to_disk(log: PartitionLog) -> None:
    """Bring a log to disk with the summaries of its segments, as a broker does beside its loop."""
    begun = log.begin_flush()
    if begun is not None:
        begun.run()
        log.end_flush(begun)


def complete_producers(log: PartitionLog) -> None:
    """Make the producer state of a cut log anew, if the cut calls for it."""
    if log.rebuild is not None:
        log.end_rebuild(log.rebuild, log.rebuild.run())

"""The replicas of this broker on disk: their logs, their checkpoints, the state file.

Performs the disk effects of the core in their order. Logs are written on the event loop, because
a write to the page cache is shorter than a hand-over to a thread. The state file and the
checkpoints are fsynced, and no later effect waits for them: one background task writes them, and
all changes that queued meanwhile share the next write.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from strandline.core.effects import (
    AppendAsFollower,
    AppendAsLeader,
    CreateReplica,
    DeleteReplica,
    DeleteSegmentsBelow,
    PersistLogStart,
    PersistState,
    RestartLogAt,
    TruncateTo,
    WriteEpochCheckpoint,
    WriteHighWatermarkCheckpoint,
)
from strandline.core.events import RecordsHandle
from strandline.errors import InvariantViolation, StorageError
from strandline.log.checkpoint import (
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    LogStartCheckpoint,
    RecoveryPointCheckpoint,
)
from strandline.log.data_directory import BrokerState
from strandline.log.partition_folder import PartitionMetadataFile
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import ClientBatch, FetchedBatches
from strandline.model import EpochStart, TopicPartition

from .loaded_store import LoadedStore
from .set_aside_files import SetAsideFiles

Checked = TypeVar("Checked", ClientBatch, FetchedBatches)

DiskEffect = (
    CreateReplica
    | AppendAsLeader
    | AppendAsFollower
    | TruncateTo
    | RestartLogAt
    | PersistLogStart
    | DeleteSegmentsBelow
    | WriteEpochCheckpoint
    | WriteHighWatermarkCheckpoint
    | PersistState
    | DeleteReplica
)


class ReplicaStore:
    """One data directory; on_persisted gets tokens in order, on_failure at most one error.

    on_log_start_persisted gets each log start that the checkpoint holds.
    """

    def __init__(
        self,
        loaded: LoadedStore,
        *,
        on_persisted: Callable[[int], None],
        on_log_start_persisted: Callable[[TopicPartition, int], None],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._directory = loaded.directory
        self._environment = loaded.environment
        self._on_persisted = on_persisted
        self._on_log_start_persisted = on_log_start_persisted
        self._on_failure = on_failure
        self._controller_epoch = loaded.state.controller_epoch
        self._persisted = dict(loaded.state.partitions)
        self._tokens: list[int] = []
        self._epochs: dict[TopicPartition, tuple[EpochStart, ...]] = {}
        self._pending_deletes: list[PartitionLog] = []
        self._stopping = False
        self._state_dirty = False
        self._high_watermarks: Mapping[TopicPartition, int] | None = None
        self._recovery_points_due = False
        self._log_starts: dict[TopicPartition, int] = dict(loaded.found.log_starts)
        self._log_starts_due: dict[TopicPartition, int] = {}
        self._log_starts_lock = threading.Lock()
        self._set_aside = SetAsideFiles(on_failure)
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self.logs: dict[TopicPartition, PartitionLog] = dict(loaded.found.logs)
        self._recovery_points: Mapping[TopicPartition, int] = {
            tp: log.recovery_point for tp, log in self.logs.items()
        }

    @property
    def root(self) -> Path:
        """The data directory."""
        return self._directory.path

    def start(self) -> None:
        """Begin to write state and checkpoints in the background."""
        self._writer = asyncio.create_task(self._write_for_ever(), name="state writer")

    def perform(self, effect: DiskEffect) -> None:
        """Perform one disk effect; StorageError means it counts as not done."""
        match effect:
            case AppendAsLeader():
                self.logs[effect.tp].append_as_leader(
                    _held(effect.records, ClientBatch),
                    base_offset=effect.base_offset,
                    leader_epoch=effect.leader_epoch,
                )
            case AppendAsFollower():
                self.logs[effect.tp].append_as_follower(
                    _held(effect.records, FetchedBatches), batch_count=effect.batch_count
                )
            case WriteHighWatermarkCheckpoint():
                self._high_watermarks = dict(effect.high_watermarks)
                self._wake.set()
            case PersistState():
                self._promise(effect)
            case TruncateTo():
                self._truncate(effect)
            case RestartLogAt():
                self._lower_log_start(effect.tp, effect.offset)
                self.logs[effect.tp].restart_at(effect.offset)
                self._lower_recovery_point(effect.tp)
            case PersistLogStart():
                self.logs[effect.tp].begin_at(effect.offset)
                self._log_starts_due[effect.tp] = effect.offset
                self._wake.set()
            case DeleteSegmentsBelow():
                self._delete_segments(effect.tp, effect.offset)
            case WriteEpochCheckpoint():
                self._epochs[effect.tp] = effect.epochs
                self._wake.set()
            case CreateReplica():
                self._create(effect)
            case DeleteReplica():
                self._delete(effect.tp)

    def _create(self, effect: CreateReplica) -> None:
        log = self.logs.get(effect.tp)
        if log is not None:
            log.apply_settings(effect.settings)
            return
        self._lower_log_start(effect.tp, 0)
        self.logs[effect.tp] = PartitionLog.create(
            self.root,
            PartitionMetadataFile(tp=effect.tp, topic_name=effect.topic_name),
            effect.settings,
            environment=self._environment,
        )

    def _truncate(self, effect: TruncateTo) -> None:
        log = self.logs[effect.tp]
        if effect.offset >= log.log_end_offset:
            return
        end = log.truncate_to(effect.offset)
        if end < effect.offset:
            raise InvariantViolation(
                "a truncation ends between batches",
                partition=str(effect.tp),
                offset=effect.offset,
                log_end_offset=end,
            )
        self._lower_recovery_point(effect.tp)

    def _delete(self, tp: TopicPartition) -> None:
        """Forget a replica: first in the state file, then delete its folder.

        In the other order, a kill in between would look like a lost log.
        """
        log = self.logs.pop(tp, None)
        self._epochs.pop(tp, None)
        if log is not None:
            self._pending_deletes.append(log)
        self._persisted.pop(tp, None)
        self._state_dirty = True
        self._wake.set()

    def _promise(self, effect: PersistState) -> None:
        self._controller_epoch = max(self._controller_epoch, effect.controller_epoch)
        self._persisted.update(effect.partitions)
        self._tokens.append(effect.token)
        self._state_dirty = True
        self._wake.set()

    def _lower_recovery_point(self, tp: TopicPartition) -> None:
        """Write the checkpoint if it lies above the truncated log, before new records come.

        An unclean start does not check records below the checkpoint.
        """
        if self._recovery_points.get(tp, 0) > self.logs[tp].recovery_point:
            self._recovery_points = {other: log.recovery_point for other, log in self.logs.items()}
            RecoveryPointCheckpoint(self.root).write(self._recovery_points)

    def delete_below_start(self, tp: TopicPartition) -> None:
        """Delete segments that were closed after the log began above them."""
        self._delete_segments(tp, self._log_starts.get(tp, 0))

    def _delete_segments(self, tp: TopicPartition, offset: int) -> None:
        log = self.logs[tp]
        files = log.set_aside_below(min(offset, log.log_start_offset))
        self._set_aside.add(files, delay_ms=log.settings.file_delete_delay_ms)

    def _lower_log_start(self, tp: TopicPartition, offset: int) -> None:
        """Write the checkpoint before a log begins below the start that the checkpoint holds.

        A start would take the log for one that lost its end.
        """
        self._log_starts_due.pop(tp, None)
        if self._log_starts.get(tp, 0) > offset:
            self._log_starts[tp] = offset
            self._write_log_start_file()

    def _write_log_start_file(self) -> None:
        """Write the newest offsets; of two writes at once, the older could come last."""
        with self._log_starts_lock:
            LogStartCheckpoint(self.root).write(dict(self._log_starts))

    async def _write_log_starts(self) -> None:
        due, self._log_starts_due = self._log_starts_due, {}
        if not due:
            return
        starts = {tp: log.log_start_offset for tp, log in self.logs.items()}
        self._log_starts = {tp: start for tp, start in starts.items() if start > 0}
        await asyncio.to_thread(self._write_log_start_file)
        for tp, offset in due.items():
            # A log that began anew below it meanwhile took its start out of the checkpoint.
            if self._log_starts.get(tp, 0) >= offset:
                self._on_log_start_persisted(tp, offset)

    async def _write_for_ever(self) -> None:
        try:
            while not self._stopping:
                await self._wake.wait()
                self._wake.clear()
                await self._write_once()
        except StorageError as error:
            self._on_failure(error)
            raise

    async def _write_once(self) -> None:
        if self._state_dirty:
            state = BrokerState(
                controller_epoch=self._controller_epoch, partitions=dict(self._persisted)
            )
            tokens, self._tokens = self._tokens, []
            self._state_dirty = False
            await asyncio.to_thread(self._directory.write_state, state)
            for token in tokens:
                self._on_persisted(token)
        pending_deletes, self._pending_deletes = self._pending_deletes, []
        for log in pending_deletes:
            await asyncio.to_thread(log.delete)
        await self._write_log_starts()
        await self._write_epochs()
        if self._recovery_points_due:
            self._recovery_points_due = False
            self._recovery_points = {tp: log.recovery_point for tp, log in self.logs.items()}
            await asyncio.to_thread(RecoveryPointCheckpoint(self.root).write, self._recovery_points)
        if self._high_watermarks is not None:
            marks, self._high_watermarks = self._high_watermarks, None
            await asyncio.to_thread(HighWatermarkCheckpoint(self.root).write, marks)

    async def _write_epochs(self) -> None:
        """Write epoch checkpoints for people and for comparison: epochs come from batches."""
        while self._epochs:
            tp, epochs = self._epochs.popitem()
            if (log := self.logs.get(tp)) is not None:
                await asyncio.to_thread(EpochCheckpoint(log.folder).write, epochs)

    async def stop(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Bring everything to disk and close; StorageError means this stop is not a clean one.

        `stop` never cancels the writer in the middle of a file: the writer ends by itself.
        """
        self._stopping = True
        self._wake.set()
        if self._writer is not None:
            await self._writer
        self._high_watermarks = high_watermarks
        await self._write_once()
        await self._set_aside.close()
        for tp in sorted(self.logs):
            self.logs[tp].flush()
        self._recovery_points_due = True
        await self._write_once()
        for log in self.logs.values():
            log.close()


def _held(records: RecordsHandle, kind: type[Checked]) -> Checked:
    """Return the checked batches in a handle, which came with the event."""
    if isinstance(records, kind):
        return records
    raise InvariantViolation("what is appended came with the event", records=type(records))

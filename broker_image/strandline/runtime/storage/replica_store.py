"""The replicas of this broker on disk: their logs, their checkpoints, the state file.

Performs the disk effects of the core in their order. Logs are written on the event loop, because
a write to the page cache is shorter than a hand-over to a thread. The state file and the
checkpoints are fsynced, and no later effect waits for them: one background task writes them, and
all changes that queued meanwhile share the next write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from strandline.core.effects import (
    AppendAsFollower,
    AppendAsLeader,
    CreateReplica,
    DeleteReplica,
    PersistState,
    RestartLogAt,
    TruncateTo,
    WriteEpochCheckpoint,
    WriteHighWatermarkCheckpoint,
)
from strandline.core.events import RecordsHandle
from strandline.errors import InvariantViolation, LogDirectoryFull, StorageError
from strandline.log.checkpoint import (
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    RecoveryPointCheckpoint,
)
from strandline.log.data_directory import BrokerState
from strandline.log.partition_folder import PartitionMetadataFile
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import ClientBatch, FetchedBatches
from strandline.log.reserve import give_up_reserve
from strandline.log_fields import fields
from strandline.model import EpochStart, TopicPartition

from .loaded_store import LoadedStore

_log = logging.getLogger(__name__)
SPACE_RETRY_SECONDS: Final = 1.0
"""Pause between tries to write a small file on a full volume."""
Checked = TypeVar("Checked", ClientBatch, FetchedBatches)

DiskEffect = (
    CreateReplica
    | AppendAsLeader
    | AppendAsFollower
    | TruncateTo
    | RestartLogAt
    | WriteEpochCheckpoint
    | WriteHighWatermarkCheckpoint
    | PersistState
    | DeleteReplica
)


class ReplicaStore:
    """One data directory; on_persisted gets tokens in order, on_failure the first errors."""

    def __init__(
        self,
        loaded: LoadedStore,
        *,
        on_persisted: Callable[[int], None],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._directory = loaded.directory
        self._environment = loaded.environment
        self._on_persisted = on_persisted
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

    def fail(self, error: StorageError) -> None:
        """Report an error that a reader of the logs met: it fails the directory like any other."""
        self._on_failure(error)

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
                self.logs[effect.tp].restart_at(effect.offset)
                self._lower_recovery_point(effect.tp)
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

    async def _write_for_ever(self) -> None:
        try:
            while not self._stopping:
                await self._wake.wait()
                self._wake.clear()
                try:
                    await self._write_once()
                except LogDirectoryFull as error:
                    await self._wait_for_space(error)
        except StorageError as error:
            self._on_failure(error)
            raise

    async def _wait_for_space(self, error: LogDirectoryFull) -> None:
        """Try again soon: a small file is replaced whole or not at all, so its former one stands.

        What the core waits for stays due; a checkpoint is left out, and another one follows.
        """
        _log.warning("no space for a small file", extra=fields(cause=str(error)))
        if not await asyncio.to_thread(give_up_reserve, self.root):
            await asyncio.sleep(SPACE_RETRY_SECONDS)
        if self._state_dirty:
            self._wake.set()

    async def _write_once(self) -> None:
        if self._state_dirty:
            state = BrokerState(
                controller_epoch=self._controller_epoch, partitions=dict(self._persisted)
            )
            tokens, self._tokens = self._tokens, []
            self._state_dirty = False
            try:
                await asyncio.to_thread(self._directory.write_state, state)
            except LogDirectoryFull:
                self._state_dirty, self._tokens = True, tokens + self._tokens
                raise
            for token in tokens:
                self._on_persisted(token)
        pending_deletes, self._pending_deletes = self._pending_deletes, []
        for log in pending_deletes:
            await asyncio.to_thread(log.delete)
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

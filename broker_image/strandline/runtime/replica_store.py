"""The replicas of this broker on disk: their logs, their checkpoints, the state file.

Obeys the disk commands of the core in the order they come. Logs are written on the event
loop, because a write to the page cache is shorter than a hand-over to a thread; what is fsynced
without anybody waiting in order (state file, offset checkpoints) goes to one background task,
where everything that queued meanwhile shares the next write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from strandline.broker_interface import Buffer
from strandline.core.effects import (
    AppendAsFollower,
    AppendAsLeader,
    CreateReplica,
    DeleteReplica,
    PersistedPartition,
    PersistState,
    RestartLogAt,
    TruncateTo,
    WriteEpochCheckpoint,
    WriteHighWatermarkCheckpoint,
)
from strandline.errors import InvariantViolation, StorageError
from strandline.log.checkpoint import (
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    RecoveryPointCheckpoint,
)
from strandline.log.folders import PartitionMetadata
from strandline.log.log_dirs import BrokerState, DataDirectory
from strandline.log.log_segments import LogEnvironment
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import iterate_headers
from strandline.log.recovery import LoadedLogs, load_logs
from strandline.model import ControllerEpoch, EpochStart, TopicPartition

from .payloads import Payloads

DiskCommand = (
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
    """One data directory; on_persisted hears tokens in order, on_failure at most one error."""

    def __init__(
        self,
        directory: DataDirectory,
        state: BrokerState,
        environment: LogEnvironment,
        *,
        on_persisted: Callable[[int], None],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._directory = directory
        self._environment = environment
        self._on_persisted = on_persisted
        self._on_failure = on_failure
        self._controller_epoch = state.controller_epoch
        self._persisted = {entry.tp: entry for entry in state.partitions}
        self._tokens: list[int] = []
        self._epochs: dict[TopicPartition, tuple[EpochStart, ...]] = {}
        self._doomed: list[PartitionLog] = []
        self._stopping = False
        self._state_dirty = False
        self._high_watermarks: Mapping[TopicPartition, int] | None = None
        self._recovery_points: Mapping[TopicPartition, int] = {}
        self._recovery_points_due = False
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self.logs: dict[TopicPartition, PartitionLog] = {}

    @property
    def root(self) -> Path:
        """The data directory."""
        return self._directory.path

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """The highest controller epoch promised to the state file."""
        return self._controller_epoch

    def load(self, *, clean: bool) -> LoadedLogs:
        """Open every log; blocking, called once before anything else."""
        loaded = load_logs(
            self.root, clean=clean, persisted=self._persisted, environment=self._environment
        )
        self.logs = dict(loaded.logs)
        self._recovery_points = {tp: log.recovery_point for tp, log in self.logs.items()}
        return loaded

    def start(self) -> None:
        """Begin to write state and checkpoints in the background."""
        self._writer = asyncio.create_task(self._write_for_ever(), name="state writer")

    # --- commands --------------------------------------------------------------------------

    def perform(self, command: DiskCommand, payloads: Payloads) -> None:
        """Do one disk command; StorageError means it counts as not done."""
        match command:
            case AppendAsLeader():
                self.logs[command.tp].append_as_leader(
                    payloads.take(command.request_id, command.tp),
                    base_offset=command.base_offset,
                    leader_epoch=command.leader_epoch,
                )
            case AppendAsFollower():
                batches = payloads.take(command.request_id, command.tp)
                self.logs[command.tp].append_as_follower(_first(batches, command.batch_count))
            case WriteHighWatermarkCheckpoint():
                self._high_watermarks = dict(command.high_watermarks)
                self._wake.set()
            case PersistState():
                self._promise(command)
            case TruncateTo():
                self._truncate(command)
            case RestartLogAt():
                self.logs[command.tp].restart_at(command.offset)
                self._lower_recovery_point(command.tp)
            case WriteEpochCheckpoint():
                self._epochs[command.tp] = command.epochs
                self._wake.set()
            case CreateReplica():
                self._create(command)
            case DeleteReplica():
                self._delete(command.tp)

    def _create(self, command: CreateReplica) -> None:
        log = self.logs.get(command.tp)
        if log is not None:
            log.apply_settings(command.settings)
            return
        self.logs[command.tp] = PartitionLog.create(
            self.root,
            PartitionMetadata(tp=command.tp, topic_name=command.topic_name),
            command.settings,
            environment=self._environment,
        )

    def _truncate(self, command: TruncateTo) -> None:
        log = self.logs[command.tp]
        if command.offset >= log.log_end_offset:
            return
        end = log.truncate_to(command.offset)
        if end < command.offset:
            raise InvariantViolation(
                "a truncation ends between batches",
                partition=str(command.tp),
                offset=command.offset,
                log_end_offset=end,
            )
        self._lower_recovery_point(command.tp)

    def _delete(self, tp: TopicPartition) -> None:
        """Forget a replica: first in the state file, then its folder goes.

        The other way round a kill in between would look like a lost log.
        """
        log = self.logs.pop(tp, None)
        self._epochs.pop(tp, None)
        if log is not None:
            self._doomed.append(log)
        self._persisted.pop(tp, None)
        self._state_dirty = True
        self._wake.set()

    def _promise(self, command: PersistState) -> None:
        self._controller_epoch = max(self._controller_epoch, command.controller_epoch)
        for entry in command.partitions:
            self._persisted[entry.tp] = entry
        self._tokens.append(command.token)
        self._state_dirty = True
        self._wake.set()

    def _lower_recovery_point(self, tp: TopicPartition) -> None:
        """Write the checkpoint if it promises more than the cut log: before new records come.

        An unclean start would not check what lies below it.
        """
        if self._recovery_points.get(tp, 0) > self.logs[tp].recovery_point:
            self._recovery_points = {other: log.recovery_point for other, log in self.logs.items()}
            RecoveryPointCheckpoint(self.root).write(self._recovery_points)

    # --- in the background -----------------------------------------------------------------

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
                controller_epoch=self._controller_epoch,
                partitions=tuple(self._sorted_state()),
            )
            tokens, self._tokens = self._tokens, []
            self._state_dirty = False
            await asyncio.to_thread(self._directory.write_state, state)
            for token in tokens:
                self._on_persisted(token)
        doomed, self._doomed = self._doomed, []
        for log in doomed:
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
        """Write epoch checkpoints: for people and comparison, since epochs come from batches."""
        while self._epochs:
            tp, epochs = self._epochs.popitem()
            if (log := self.logs.get(tp)) is not None:
                await asyncio.to_thread(EpochCheckpoint(log.folder).write, epochs)

    def _sorted_state(self) -> Iterator[PersistedPartition]:
        for tp in sorted(self._persisted):
            yield self._persisted[tp]

    # --- the end ---------------------------------------------------------------------------

    async def stop(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Bring everything to disk and close; StorageError means this stop is not a clean one.

        The writer is never cut off in the middle of a file: it ends by itself.
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


def _first(batches: Buffer, count: int) -> Buffer:
    """Return the part of a buffer that holds its first `count` batches."""
    *_, (position, header) = islice(iterate_headers(batches), count)
    return memoryview(batches)[: position + header.size_bytes]

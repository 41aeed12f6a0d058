"""The replicas of this broker on disk: their logs, their checkpoints, the state file, the trash.

Performs the disk effects of the core in their order. Records are written on the event loop,
because a write to the page cache is shorter than a hand-over to a thread. Whatever creates,
renames, removes or fsyncs runs on the threads of three background tasks, which never wait for each
other:
- the state task writes the state file, moves deleted logs to the trash and makes the folders of
  new replicas, in this order, and then reports the tokens. All changes that queued meanwhile share
  the next round.
- the checkpoint task writes high watermarks, recovery points and epochs.
- the trash task removes what lay in the trash for too long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from strandline.config.storage import StorageConfig
from strandline.core.effects import (
    AppendAsFollower,
    AppendAsLeader,
    CreateReplica,
    DeleteReplica,
    DeleteSegmentsBelow,
    PersistedPartition,
    PersistLogStart,
    PersistState,
    RestartLogAt,
    TruncateTo,
    WriteEpochCheckpoint,
    WriteHighWatermarkCheckpoint,
)
from strandline.core.events import RecordsHandle
from strandline.errors import (
    ErrorCode,
    InvariantViolation,
    LogDirectoryFailed,
    ProtocolError,
    StorageError,
)
from strandline.log.checkpoint import (
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    RecoveryPointCheckpoint,
)
from strandline.log.data_directory import BrokerState
from strandline.log.files import disk_failed, sync_folder
from strandline.log.partition_folder import PartitionMetadataFile, folder_of
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import ClientBatch, FetchedBatches
from strandline.log.trash import Trash, TrashLimits
from strandline.log_fields import fields
from strandline.model import ControllerEpoch, EpochStart, TopicPartition, TopicSettings

from .loaded_store import LoadedStore
from .log_start_file import LogStartFile
from .set_aside_files import SetAsideFiles

Checked = TypeVar("Checked", ClientBatch, FetchedBatches)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
BACKGROUND_TASKS = 3
_log = logging.getLogger(__name__)

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
        config: StorageConfig,
        wall_time_us: Callable[[], int],
        on_persisted: Callable[[int], None],
        on_log_start_persisted: Callable[[TopicPartition, int], None],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._directory = loaded.directory
        self._environment = loaded.environment
        self._wall_time_us = wall_time_us
        self._on_persisted = on_persisted
        self._on_failure = on_failure
        self._controller_epoch = loaded.state.controller_epoch
        self._persisted = dict(loaded.state.partitions)
        self._state_dirty = False
        self._tokens: list[int] = []
        self._deleted: set[TopicPartition] = set()
        """Partitions whose folders go to the trash once the state file has forgotten them."""
        self._wanted: dict[TopicPartition, PartitionMetadataFile] = {}
        """New partitions whose folders are made once the state file knows them."""
        self._made: dict[TopicPartition, PartitionLog] = {}
        """Logs that are on disk and wait for their `CreateReplica`."""
        self._epochs: dict[TopicPartition, tuple[EpochStart, ...]] = {}
        self._high_watermarks: Mapping[TopicPartition, int] | None = None
        self._recovery_points_due = False
        self._log_starts = LogStartFile(
            loaded.directory.path, loaded.found.log_starts, on_persisted=on_log_start_persisted
        )
        self._set_aside = SetAsideFiles(on_failure)
        self._config = config
        self._trash = Trash(
            loaded.directory.path,
            TrashLimits(
                retention_ms=config.trash_retention_ms,
                retention_bytes=config.trash_retention_bytes,
            ),
        )
        self._trash_lock = asyncio.Lock()
        self._state_wake = asyncio.Event()
        self._checkpoint_wake = asyncio.Event()
        self._trash_wake = asyncio.Event()
        self._stopping = False
        self._threads = ThreadPoolExecutor(BACKGROUND_TASKS, thread_name_prefix="replica-store")
        self._tasks: list[asyncio.Task[None]] = []
        self.logs: dict[TopicPartition, PartitionLog] = dict(loaded.found.logs)
        self._recovery_points: Mapping[TopicPartition, int] = {
            tp: log.recovery_point for tp, log in self.logs.items()
        }

    @property
    def root(self) -> Path:
        """The data directory."""
        return self._directory.path

    @property
    def trash_bytes(self) -> int:
        """Bytes of deleted logs, as of the last look at the trash."""
        return self._trash.size_bytes

    def start(self) -> None:
        """Begin the background tasks."""
        self._tasks = [
            asyncio.create_task(self._run(self._write_states()), name="state writer"),
            asyncio.create_task(self._run(self._write_checkpoints()), name="checkpoint writer"),
            asyncio.create_task(self._run(self._clean_trash()), name="trash cleaner"),
        ]

    async def _run(self, task: Coroutine[None, None, None]) -> None:
        try:
            await task
        except StorageError as error:
            self._on_failure(error)
            raise

    async def _in_thread(
        self,
        call: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Result:
        """Run a blocking call on a thread of this store; StorageError for an OSError."""

        def run() -> Result:
            try:
                return call(*args, **kwargs)
            except OSError as error:
                raise disk_failed(self.root, call.__name__, error) from error

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

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
                self._checkpoint_wake.set()
            case PersistState():
                self._promise(effect)
            case TruncateTo():
                self._truncate(effect)
            case RestartLogAt():
                self._log_starts.lower(effect.tp, effect.offset)
                self.logs[effect.tp].restart_at(effect.offset)
                self._lower_recovery_point(effect.tp)
            case PersistLogStart():
                self.logs[effect.tp].begin_at(effect.offset)
                self._log_starts.begin(effect.tp, effect.offset)
                self._checkpoint_wake.set()
            case DeleteSegmentsBelow():
                self._delete_segments(effect.tp, effect.offset)
            case WriteEpochCheckpoint():
                self._epochs[effect.tp] = effect.epochs
                self._checkpoint_wake.set()
            case CreateReplica():
                self._create(effect)
            case DeleteReplica():
                self._delete(effect.tp)

    def _create(self, effect: CreateReplica) -> None:
        """Take the log that was made with the replica's state, or change the settings of a log."""
        if effect.tp not in self.logs:
            if effect.tp not in self._made:
                raise InvariantViolation(
                    "a replica's folder is made with its state", partition=str(effect.tp)
                )
            self._log_starts.lower(effect.tp, 0)
            self.logs[effect.tp] = self._made.pop(effect.tp)
        self.logs[effect.tp].apply_settings(effect.settings)

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
        """Forget a replica: first in the state file, then move its folder to the trash.

        In the other order, a kill in between would look like a lost log.
        """
        log = self.logs.pop(tp, None) or self._made.pop(tp, None)
        if log is not None:
            log.release()
        self._epochs.pop(tp, None)
        self._persisted.pop(tp, None)
        self._deleted.add(tp)
        self._state_dirty = True
        self._state_wake.set()

    def _promise(self, effect: PersistState) -> None:
        self._controller_epoch = max(self._controller_epoch, effect.controller_epoch)
        for tp, partition in effect.partitions:
            self._persisted[tp] = partition
            if tp not in self.logs:
                self._wanted[tp] = PartitionMetadataFile(tp=tp, topic_name=partition.topic_name)
        self._tokens.append(effect.token)
        self._state_dirty = True
        self._state_wake.set()

    def delete_below_start(self, tp: TopicPartition) -> None:
        """Delete segments that were closed after the log began above them."""
        self._delete_segments(tp, self._log_starts.on_disk(tp))

    def _delete_segments(self, tp: TopicPartition, offset: int) -> None:
        log = self.logs[tp]
        files = log.set_aside_below(min(offset, log.log_start_offset))
        self._set_aside.add(files, delay_ms=log.settings.file_delete_delay_ms)

    def _lower_recovery_point(self, tp: TopicPartition) -> None:
        """Write the checkpoint if it lies above the truncated log, before new records come.

        An unclean start does not check records below the checkpoint.
        """
        if self._recovery_points.get(tp, 0) > self.logs[tp].recovery_point:
            self._recovery_points = {other: log.recovery_point for other, log in self.logs.items()}
            RecoveryPointCheckpoint(self.root).write(self._recovery_points)

    # --- the state task -------------------------------------------------------------------

    async def _write_states(self) -> None:
        while not self._stopping:
            await self._state_wake.wait()
            self._state_wake.clear()
            await self._write_state()

    async def _write_state(self) -> None:
        """Write the state file, then bring the folders in line with it."""
        if not self._state_dirty:
            return
        self._state_dirty = False
        persisted, epoch = dict(self._persisted), self._controller_epoch
        deleted, self._deleted = self._deleted, set()
        wanted, self._wanted = self._wanted, {}
        tokens, self._tokens = self._tokens, []
        kept = {tp: state for tp, state in persisted.items() if tp not in deleted}
        await self._in_thread(self._write_state_file, epoch, kept)
        if deleted:
            await self._in_thread(self._move_to_trash, sorted(deleted))
            self._trash_wake.set()
        if len(kept) < len(persisted):
            # A replica was deleted and is made again: the state file forgot it in between.
            await self._in_thread(self._write_state_file, epoch, persisted)
        if wanted:
            self._made |= await self._in_thread(self._make_logs, wanted)
        for token in tokens:
            self._on_persisted(token)

    def _write_state_file(
        self, epoch: ControllerEpoch, partitions: Mapping[TopicPartition, PersistedPartition]
    ) -> None:
        self._directory.write_state(BrokerState(controller_epoch=epoch, partitions=partitions))

    def _move_to_trash(self, deleted: list[TopicPartition]) -> None:
        """Move folders to the trash, also of replicas that no start could load."""
        folders = [folder_of(self.root, tp) for tp in deleted]
        self._trash.put(folders, now_ms=self._wall_time_us() // 1000)

    def _make_logs(
        self, wanted: Mapping[TopicPartition, PartitionMetadataFile]
    ) -> dict[TopicPartition, PartitionLog]:
        made = {
            tp: PartitionLog.create(
                self.root, metadata, TopicSettings(), environment=self._environment
            )
            for tp, metadata in sorted(wanted.items())
        }
        sync_folder(self.root)
        return made

    # --- the checkpoint task --------------------------------------------------------------

    async def _write_checkpoints(self) -> None:
        while not self._stopping:
            await self._checkpoint_wake.wait()
            self._checkpoint_wake.clear()
            while await self._write_checkpoint():
                pass

    async def _write_checkpoint(self) -> bool:
        """Write one checkpoint file; False if none is due. Those of all partitions come first."""
        if self._log_starts.is_due:
            starts = {tp: log.log_start_offset for tp, log in self.logs.items()}
            await self._log_starts.write(starts, self._in_thread)
        elif self._high_watermarks is not None:
            marks, self._high_watermarks = self._high_watermarks, None
            await self._in_thread(HighWatermarkCheckpoint(self.root).write, marks)
        elif self._recovery_points_due:
            self._recovery_points_due = False
            self._recovery_points = {tp: log.recovery_point for tp, log in self.logs.items()}
            await self._in_thread(RecoveryPointCheckpoint(self.root).write, self._recovery_points)
        elif self._epochs:
            # For people and for comparison: epochs come from batches (ADR 0011).
            tp, epochs = self._epochs.popitem()
            if (log := self.logs.get(tp)) is not None:
                await self._in_thread(_write_epochs, log.folder, epochs)
        else:
            return False
        return True

    # --- the trash task -------------------------------------------------------------------

    async def _clean_trash(self) -> None:
        interval_seconds = self._config.trash_check_interval_ms / 1000
        while not self._stopping:
            async with self._trash_lock:
                removed = await self._in_thread(
                    self._trash.clean,
                    now_ms=self._wall_time_us() // 1000,
                    stopping=lambda: self._stopping,
                )
            for log in removed:
                _log.info(
                    "deleted log removed from the trash",
                    extra=fields(partition=str(log.tp), deleted_at_ms=log.deleted_at_ms),
                )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._trash_wake.wait(), interval_seconds)
            self._trash_wake.clear()

    async def restore_from_trash(self, tp: TopicPartition) -> PartitionLog:
        """Bring the newest deleted log of a partition back and load it, every byte checked.

        Raises:  ProtocolError UNKNOWN_TOPIC_OR_PARTITION if the trash has none,
                 TOPIC_ALREADY_EXISTS if the partition has a log
        """
        if tp in self.logs or tp in self._wanted or tp in self._made:
            raise ProtocolError(
                ErrorCode.TOPIC_ALREADY_EXISTS, problem="has a log", partition=str(tp)
            )
        async with self._trash_lock:
            folder = await self._in_thread(self._trash.restore, tp)
        log = self.logs[tp] = await self._in_thread(
            PartitionLog.open,
            folder,
            TopicSettings(),
            clean=False,
            recovery_point=0,
            environment=self._environment,
        )
        return log

    async def stop(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Bring everything to disk and close; StorageError means this stop is not a clean one.

        `stop` never cancels a task in the middle of a file: the tasks end by themselves.
        """
        self._stopping = True
        for wake in (self._state_wake, self._checkpoint_wake, self._trash_wake):
            wake.set()
        await asyncio.gather(*self._tasks)
        await self._set_aside.close()
        await self._write_state()
        self._high_watermarks = high_watermarks
        await self._in_thread(self._flush_logs)
        self._recovery_points_due = True
        while await self._write_checkpoint():
            pass
        await self._in_thread(self._close_logs)
        self._threads.shutdown()

    def _flush_logs(self) -> None:
        for tp in sorted(self.logs):
            self.logs[tp].flush()

    def _close_logs(self) -> None:
        for log in self.logs.values():
            log.close()


def _write_epochs(folder: Path, epochs: tuple[EpochStart, ...]) -> None:
    """Write the epochs of a replica, unless its folder has gone to the trash meanwhile."""
    try:
        EpochCheckpoint(folder).write(epochs)
    except LogDirectoryFailed:
        if folder.exists():
            raise


def _held(records: RecordsHandle, kind: type[Checked]) -> Checked:
    """Return the checked batches in a handle, which came with the event."""
    if isinstance(records, kind):
        return records
    raise InvariantViolation("what is appended came with the event", records=type(records))

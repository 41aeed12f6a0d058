"""The replicas of this broker on disk: their logs, their checkpoints, the state file, the trash.

Performs the disk effects of the core in their order. Records are written on the event loop,
because a write to the page cache is shorter than a hand-over to a thread. fsyncs, and what creates,
renames or removes more than the files of one segment, run on the threads of background tasks:
- the state task writes the state file, moves deleted logs to the trash and makes the folders of
  new replicas, in this order, and then reports the tokens. All changes that queued meanwhile share
  the next round.
- the checkpoint task writes high watermarks, recovery points, log starts and epochs.
- the flush task brings logs to disk, at each roll and from time to time; syncs of their own follow
  appends where a topic wants that, see `LogSyncs`.
- the rebuild task makes the producer states of logs anew that were cut.
- the files of deleted segments wait for their removal, see `SetAsideFiles`.
- the indexes that sealed segments lack are made anew, see `MissingIndexes`.
- the trash task removes what lay in the trash for too long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

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
    CheckpointMalformed,
    ErrorCode,
    InvariantViolation,
    LogDirectoryFull,
    ProtocolError,
    StorageError,
)
from strandline.log.files import sync_folder
from strandline.log.partition_folder import PartitionMetadataFile
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import ClientBatch, FetchedBatches
from strandline.log.recovery import hosted_partition, state_in_trash
from strandline.log.reserve import give_up_reserve
from strandline.log_fields import fields
from strandline.model import (
    HostedPartition,
    TopicPartition,
    TopicSettings,
    TrashedReplica,
)

from .accepted_states import AcceptedStates
from .loaded_store import LoadedStore
from .log_flusher import LogFlusher
from .missing_indexes import MissingIndexes
from .set_aside_files import SetAsideFiles
from .store_checkpoints import StoreCheckpoints
from .store_threads import StoreThreads
from .trash_keeper import TrashKeeper

Checked = TypeVar("Checked", ClientBatch, FetchedBatches)
SPACE_RETRY_SECONDS: Final = 1.0
"""Pause between tries to write a small file on a full volume."""
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

    on_log_start_persisted gets each log start that the checkpoint holds, on_log_flushed how far a
    log is on disk, on_trash_changed what the trash holds, after each change of it.
    """

    def __init__(
        self,
        loaded: LoadedStore,
        *,
        config: StorageConfig,
        wall_time_us: Callable[[], int],
        on_persisted: Callable[[int], None],
        on_log_start_persisted: Callable[[TopicPartition, int], None],
        on_log_flushed: Callable[[TopicPartition, int], None],
        on_trash_changed: Callable[[tuple[TrashedReplica, ...]], None],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._directory, self._environment = loaded.directory, loaded.environment
        self._on_persisted, self._on_failure = on_persisted, on_failure
        self._accepted = AcceptedStates(loaded.state)
        self._tokens: list[int] = []
        self._wanted: dict[TopicPartition, PartitionMetadataFile] = {}
        """New partitions whose folders are made once the state file knows them."""
        self._made: dict[TopicPartition, PartitionLog] = {}
        """Logs that are on disk and wait for their `CreateReplica`."""
        self._making: frozenset[TopicPartition] = frozenset()
        """Partitions whose folders are being made."""
        self._restoring: dict[TopicPartition, asyncio.Event] = {}
        """Partitions whose logs are coming back from the trash, each until its end."""
        self._state_wake = asyncio.Event()
        self._stopping = False
        self._threads = StoreThreads(loaded.directory.path)
        self._trash = TrashKeeper(
            loaded.directory.path,
            config,
            self._threads,
            wall_time_us,
            trashed=loaded.trashed,
            on_change=on_trash_changed,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self.logs: dict[TopicPartition, PartitionLog] = dict(loaded.found.logs)
        self._checkpoints = StoreCheckpoints(
            loaded.directory.path,
            self.logs,
            self._threads,
            log_starts=loaded.found.log_starts,
            on_log_start_persisted=on_log_start_persisted,
            make_space=self._make_space,
        )
        self._set_aside = SetAsideFiles(on_failure)
        self.indexes = MissingIndexes(self.logs, self._threads, on_failure)
        self._flusher = LogFlusher(
            self.logs,
            self._threads,
            interval_ms=config.flush_checkpoint_interval_ms,
            on_flush=loaded.environment.on_flush,
            on_flushed=self._checkpoints.on_flushed,
            on_log_flushed=on_log_flushed,
            on_failure=on_failure,
        )

    @property
    def root(self) -> Path:
        """The data directory."""
        return self._directory.path

    @property
    def trash_bytes(self) -> int:
        """Bytes of deleted logs, as of the last look at the trash."""
        return self._trash.size_bytes

    def change_trash_limits(self, config: StorageConfig) -> None:
        """Keep deleted logs for another time or size."""
        self._trash.change_limits(config)

    def fail(self, error: StorageError) -> None:
        """Report an error that a reader of the logs met: it fails the directory like any other."""
        self._on_failure(error)

    def start(self) -> None:
        """Begin the background tasks."""
        self._tasks = [
            asyncio.create_task(self._run(self._write_states()), name="state writer"),
            asyncio.create_task(self._run(self._checkpoints.run()), name="checkpoint writer"),
            asyncio.create_task(
                self._run(self._flusher.flush_from_time_to_time()), name="log flusher"
            ),
            asyncio.create_task(
                self._run(self._flusher.rebuild_producers()), name="producer rebuilder"
            ),
            asyncio.create_task(self._run(self._trash.run()), name="trash cleaner"),
        ]
        for task in self._tasks:
            task.add_done_callback(_raise_unexpected)

    async def _run(self, task: Coroutine[None, None, None]) -> None:
        try:
            await task
        except StorageError as error:
            self._on_failure(error)
            raise

    def perform(self, effect: DiskEffect) -> None:
        """Perform one disk effect; StorageError means it counts as not done."""
        match effect:
            case AppendAsLeader():
                self._log_to_append(effect.tp).append_as_leader(
                    _held(effect.records, ClientBatch),
                    base_offset=effect.base_offset,
                    leader_epoch=effect.leader_epoch,
                )
                self._flusher.after_append(effect.tp)
            case AppendAsFollower():
                self._log_to_append(effect.tp).append_as_follower(
                    _held(effect.records, FetchedBatches), batch_count=effect.batch_count
                )
                self._flusher.after_append(effect.tp)
            case WriteHighWatermarkCheckpoint():
                self._checkpoints.set_high_watermarks(dict(effect.high_watermarks))
            case PersistState():
                self._promise(effect)
            case TruncateTo():
                self._truncate(effect)
            case RestartLogAt():
                self.logs[effect.tp].restart_at(effect.offset)
                self._set_aside.add(self.logs[effect.tp].take_set_aside(), delay_ms=0)
                self._checkpoints.on_restarted(effect.tp)
            case PersistLogStart():
                self.logs[effect.tp].begin_at(effect.offset)
                self._checkpoints.begin_log_at(effect.tp, effect.offset)
            case DeleteSegmentsBelow():
                self._delete_segments(effect.tp, effect.offset)
            case WriteEpochCheckpoint():
                self._checkpoints.set_epochs(effect.tp, effect.epochs)
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
            self.logs[effect.tp] = self._made.pop(effect.tp)
        log = self.logs[effect.tp]
        log.apply_settings(effect.settings)
        if log.recovery_point < log.log_end_offset:
            self._log_to_append(effect.tp)  # what waited for the disk may count from now on
        self._flusher.after_settings(effect.tp)

    def _log_to_append(self, tp: TopicPartition) -> PartitionLog:
        """Return a log; before the first append that counts without an fsync, the mark goes."""
        log = self.logs[tp]
        if self._directory.has_flushed_mark and not log.flushes_every_append:
            self._directory.remove_flushed_mark()
        return log

    def _truncate(self, effect: TruncateTo) -> None:
        log = self.logs[effect.tp]
        if effect.offset >= log.log_end_offset:
            return
        end = log.truncate_to(effect.offset)
        self._set_aside.add(log.take_set_aside(), delay_ms=0)
        if end < effect.offset:
            raise InvariantViolation(
                "a truncation ends between batches",
                partition=str(effect.tp),
                offset=effect.offset,
                log_end_offset=end,
            )
        self._checkpoints.on_truncated(effect.tp, end)
        self._flusher.after_cut(effect.tp)

    def _delete(self, tp: TopicPartition) -> None:
        """Forget a replica: first in the state file, then move its folder to the trash.

        In the other order, a kill in between would look like a lost log.
        """
        log = self.logs.pop(tp, None) or self._made.pop(tp, None)
        if log is not None:
            log.release()
        self._checkpoints.forget(tp)
        self._trash.announce(tp, self._accepted.forget(tp))
        self._state_wake.set()

    def _promise(self, effect: PersistState) -> None:
        self._accepted.promise(effect)
        for tp, partition in effect.partitions:
            if tp not in self.logs:
                self._wanted[tp] = PartitionMetadataFile(tp=tp, topic_name=partition.topic_name)
        self._tokens.append(effect.token)
        self._state_wake.set()

    def after_check(self, tp: TopicPartition) -> bool:
        """Have segments flushed that a check closed, and those below the log start deleted.

        Returns: whether some were deleted: then more may be left
        """
        self._flusher.after_roll(tp)
        return self._delete_segments(tp, self._checkpoints.log_start_on_disk(tp))

    def _delete_segments(self, tp: TopicPartition, offset: int) -> bool:
        """Delete segments below an offset; those that are too many at once go at the next check."""
        log = self.logs[tp]
        files = log.set_aside_below(min(offset, log.log_start_offset))
        self._set_aside.add(files, delay_ms=log.settings.file_delete_delay_ms)
        return bool(files)

    def after_cuts(self, fetch: Callable[[], None]) -> None:
        """Send a fetch once the cuts of logs are on disk; see `StoreCheckpoints.after_cuts`."""
        self._checkpoints.after_cuts(fetch)

    async def _make_space(self, error: LogDirectoryFull) -> None:
        """Give the reserve up, or else wait: a small file is replaced whole or stays as it was."""
        _log.warning("no space for a small file", extra=fields(cause=str(error)))
        if not await self._threads.run(give_up_reserve, self.root):
            await asyncio.sleep(SPACE_RETRY_SECONDS)

    # --- the state task -------------------------------------------------------------------

    async def _write_states(self) -> None:
        while not self._stopping:
            await self._state_wake.wait()
            self._state_wake.clear()
            await self._write_state()

    async def _write_state(self) -> None:
        """Write what changed to the state file, then bring the folders in line with it."""
        if not (self._accepted.are_due or self._tokens):
            return
        steps = self._accepted.take()
        wanted, self._wanted = self._wanted, {}
        self._making = frozenset(wanted)
        tokens, self._tokens = self._tokens, []
        if self._checkpoints.wait_for_cuts:
            await self._once_there_is_space(self._checkpoints.write_recovery_points)
        if self._checkpoints.know_any(wanted):
            # A log of that name was deleted: what checkpoints say of it is not true of the new one.
            await self._once_there_is_space(partial(self._checkpoints.write_without, wanted))
        for change, deleted in steps:
            write = partial(self._threads.run, self._directory.change_state, change)
            await self._once_there_is_space(write)
            if deleted:
                await self._trash.put(deleted)
        for tp in self._making & self._restoring.keys():
            await self._restoring[tp].wait()
        if wanted:
            self._made |= await self._threads.run(self._make_logs, wanted)
            self._making = frozenset()
        for token in tokens:
            self._on_persisted(token)

    async def _write_state_whole(self) -> None:
        """Leave a state file that earlier versions read, unless there is no space for another."""
        if self._directory.has_state_journal:
            with suppress(LogDirectoryFull):
                await self._threads.run(self._directory.write_state, self._accepted.whole())

    async def _once_there_is_space(self, write: Callable[[], Awaitable[None]]) -> None:
        """Write a small file, once there is space for it; what the core asked for waits."""
        while True:
            try:
                return await write()
            except LogDirectoryFull as error:
                if self._stopping:
                    raise
                await self._make_space(error)

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

    # --- the trash -----------------------------------------------------------------------

    async def restore_from_trash(
        self, tp: TopicPartition, *, on_restored: Callable[[HostedPartition], None]
    ) -> None:
        """Bring the newest deleted log of a partition back, every byte checked, then fsynced.

        on_restored is called once the log is among `logs`, and before the trash is told to lack it.
        A replica that was promised meanwhile is made, and the log goes back into the trash.

        Raises:  ProtocolError UNKNOWN_TOPIC_OR_PARTITION if the trash has none,
                 TOPIC_ALREADY_EXISTS if the partition has a log or gets one,
                 KAFKA_STORAGE_ERROR if the log cannot be opened
        """
        if self._accepted.is_forgotten(tp) or tp in self._restoring or self._has_log(tp):
            raise _has_a_log(tp)
        self._restoring[tp] = asyncio.Event()
        try:
            folder = await self._trash.restore(tp)
            await self._take_restored(tp, folder, on_restored)
        finally:
            self._restoring.pop(tp).set()
            await self._trash.settle([tp])

    async def _take_restored(
        self, tp: TopicPartition, folder: Path, on_restored: Callable[[HostedPartition], None]
    ) -> None:
        try:
            log, accepted = await self._threads.run(self._open_whole, folder)
        except CheckpointMalformed as error:
            await self._trash.put([tp])
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, problem=str(error)) from error
        if self._has_log(tp):
            log.release()
            await self._trash.put([tp])
            raise _has_a_log(tp)
        if log.validation.problem:
            _log.warning(
                "restored log loaded with a finding",
                extra=fields(partition=str(tp), finding=log.validation.problem),
            )
        self.logs[tp] = log
        on_restored(hosted_partition(log, accepted))

    def _has_log(self, tp: TopicPartition) -> bool:
        """Tell whether a partition has a log, or was promised one."""
        return any(tp in each for each in (self.logs, self._made, self._wanted, self._making))

    def _open_whole(self, folder: Path) -> tuple[PartitionLog, PersistedPartition | None]:
        log = PartitionLog.open(
            folder,
            TopicSettings(),
            clean=False,
            recovery_point=0,
            environment=self._environment,
        )
        log.flush()
        return log, state_in_trash(folder, log)

    async def stop(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Bring everything to disk and close; StorageError means this stop is not a clean one.

        `stop` never cancels a task in the middle of a file: the tasks end by themselves.
        """
        self._stopping = True
        self._flusher.stop()
        self._trash.stop()
        self._checkpoints.stop()
        self._state_wake.set()
        await asyncio.gather(*self._tasks)
        await self._flusher.close()
        await self._write_state()
        await self._write_state_whole()
        self._checkpoints.set_high_watermarks(high_watermarks)
        await self._flusher.flush(sorted(self.logs))
        self._checkpoints.on_flushed()
        await self._checkpoints.write_all()
        await self._set_aside.close()
        await self.indexes.close()
        await self._threads.run(self._close_logs)
        self._threads.close()

    def _close_logs(self) -> None:
        for log in self.logs.values():
            log.close()


def _raise_unexpected(task: asyncio.Task[None]) -> None:
    """Hand an error to the event loop, whose handler ends the process; a StorageError is told."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, StorageError):
        raise error


def _has_a_log(tp: TopicPartition) -> ProtocolError:
    return ProtocolError(ErrorCode.TOPIC_ALREADY_EXISTS, problem="has a log", partition=str(tp))


def _held(records: RecordsHandle, kind: type[Checked]) -> Checked:
    """Return the checked batches in a handle, which came with the event."""
    if isinstance(records, kind):
        return records
    raise InvariantViolation("what is appended came with the event", records=type(records))

"""Load every log of a data directory at start.

This happens once, before the broker registers: a partition is not served before its log is loaded.
Loading reports unknown folders and keeps them. It deletes only folders of unfinished creations, and
the batches that `log_validation` cuts. It does not look into the trash.

A start may die at any moment before it registers, and must take no evidence from the next one. So
a loss is told to the caller, who writes it down, before the load removes its traces: it cuts a
log, or lowers a checkpoint to the logs' ends. Every start fsyncs its logs: the start before may
have died of an error that it could not tell.

Epochs come from the batches, which every load walks. Loading reports an epoch checkpoint that
differs: an empty or stale file must never pass for "no epochs", which would bring truncation by
high watermark back. An epoch without a batch, from an election after which nothing was written,
does not survive a restart, as in Kafka. The last epoch of a log whose batches are all deleted does:
the log start checkpoint holds it.

Source: Kafka LogManager.loadLogs, LogLoader.load, KIP-101.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TypeVar

from strandline.core.effects import PersistedPartition
from strandline.errors import CheckpointMalformed
from strandline.model import (
    NO_EPOCH,
    EpochStart,
    HostedPartition,
    PartitionEpoch,
    TopicPartition,
    TopicSettings,
)
from strandline.start_decision import clamped_checkpoint, holds_less_than_before

from .checkpoint import (
    FIRST_START,
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    LogStartCheckpoint,
    RecoveryPointCheckpoint,
)
from .files import disk_failed, sync_folder
from .log_segments import LogEnvironment
from .partition_folder import (
    NEW_SUFFIX,
    UNREADABLE_SUFFIX,
    PartitionMetadataFile,
    left_accepted,
    parse_folder_name,
    read_metadata,
    write_metadata,
)
from .partition_log import EPOCH_MAX, PartitionLog
from .trash import TRASH_FOLDER

Hint = TypeVar("Hint", int, EpochStart)


@dataclass(slots=True, kw_only=True)
class LoadedLogs:
    """The logs of a data directory, and the findings of their load.

    lost names partitions that hold less than this broker once had: a hole or a changed byte
    in the log, an end below the checkpointed high watermark, or no folder at all. If any
    partition is lost, this start is not clean, even if marker or boot id say so.
    """

    before_loss: Callable[[], None] = lambda: None
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    hosted: list[HostedPartition] = field(default_factory=list)
    log_starts: dict[TopicPartition, EpochStart] = field(default_factory=dict)
    lost: list[TopicPartition] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add_lost(self, tp: TopicPartition) -> None:
        """Note a loss, here and where a later start finds it."""
        self.before_loss()
        if tp not in self.lost:
            self.lost.append(tp)


def load_logs(
    root: Path,
    *,
    clean: bool,
    persisted: Mapping[TopicPartition, PersistedPartition],
    environment: LogEnvironment,
    before_loss: Callable[[], None],
    on_remaining: Callable[[int], None] = lambda _: None,
) -> LoadedLogs:
    """Open every log of a data directory, with default settings until the controller sends some.

    Shape:   persisted is the state file's content
    Calls:   before_loss for each loss, before its traces are removed; on_remaining with the number
             of folders that are not loaded yet, and 0 when all is on disk
    Raises:  LogDirectoryFailed if reading or writing fails
    """
    loaded = LoadedLogs(before_loss=before_loss)
    high_watermarks = _read_hint(HighWatermarkCheckpoint(root).read, loaded)
    recovery_points = _read_hint(RecoveryPointCheckpoint(root).read, loaded)
    loaded.log_starts = _read_hint(LogStartCheckpoint(root).read, loaded)
    folders = _folders(root, loaded)
    for number, folder in enumerate(folders):
        on_remaining(len(folders) - number)
        tp = parse_folder_name(folder.name)
        if tp is None:
            loaded.warnings.append(f"{folder}: not the folder of a partition")
            continue
        state = persisted.get(tp)
        is_whole = _repair_metadata(folder, tp, state, loaded)
        try:
            log = PartitionLog.open(
                folder,
                TopicSettings(),
                clean=clean and is_whole,
                recovery_point=recovery_points.get(tp, 0) if is_whole else 0,
                log_start=loaded.log_starts.get(tp, FIRST_START),
                environment=environment,
                epoch_max=EPOCH_MAX if state is None else state.leader_epoch,
                before_loss=before_loss,
            )
        except CheckpointMalformed:
            _set_aside(folder, tp, loaded)
            continue
        loaded.logs[tp] = log
        _add_hosted(loaded, log, state, high_watermarks.get(tp, 0))
    _report_missing(loaded, persisted, high_watermarks, recovery_points)
    _fsync(loaded.logs, recovery_points, environment)
    _lower_checkpoints(root, loaded.logs, high_watermarks, recovery_points)
    on_remaining(0)
    return loaded


def _repair_metadata(
    folder: Path, tp: TopicPartition, state: PersistedPartition | None, loaded: LoadedLogs
) -> bool:
    """Write a partition.metadata that cannot be read anew, from folder name and state file.

    Returns: False if it was not as it was written: then every byte of the log is in doubt
    """
    try:
        read_metadata(folder)
    except CheckpointMalformed as error:
        loaded.warnings.append(str(error))
        if state is not None:
            try:
                write_metadata(folder, PartitionMetadataFile(tp=tp, topic_name=state.topic_name))
            except OSError as failure:
                loaded.warnings.append(f"{folder}: {failure.strerror}")
        return False
    return True


def _set_aside(folder: Path, tp: TopicPartition, loaded: LoadedLogs) -> None:
    """Keep the folder of a log that cannot be opened for people, and count the log as lost.

    The broker then holds no such replica; it takes it over again, empty, when the controller asks.
    """
    loaded.add_lost(tp)
    kept = next(
        path
        for number in count(1)
        if not (path := folder.with_name(f"{folder.name}{UNREADABLE_SUFFIX}.{number}")).exists()
    )
    try:
        folder.rename(kept)
        sync_folder(folder.parent)
    except OSError as error:
        raise disk_failed(folder, "set aside", error) from error
    loaded.warnings.append(f"{folder}: cannot be opened, kept as {kept.name}")


def _fsync(
    logs: Mapping[TopicPartition, PartitionLog],
    recovery_points: Mapping[TopicPartition, int],
    environment: LogEnvironment,
) -> None:
    """Bring to disk what earlier processes left in the page cache, several logs at a time."""
    unproven = [log for tp, log in logs.items() if recovery_points.get(tp, 0) < log.log_end_offset]
    with ThreadPoolExecutor(environment.limits.fsyncs_at_once_max) as threads:
        for done in [threads.submit(log.flush) for log in unproven]:
            done.result()


def _lower_checkpoints(
    root: Path,
    logs: Mapping[TopicPartition, PartitionLog],
    high_watermarks: Mapping[TopicPartition, int],
    recovery_points: Mapping[TopicPartition, int],
) -> None:
    """Let the checkpoints say what these logs hold, and what of them was fsynced.

    A recovery point above the end would let the recovery of records that are appended there later
    skip their CRCs.
    """
    ends = {tp: log.log_end_offset for tp, log in logs.items()}
    lowered = clamped_checkpoint(high_watermarks, ends)
    if lowered != high_watermarks:
        HighWatermarkCheckpoint(root).write(lowered)
    points = {tp: log.recovery_point for tp, log in logs.items()}
    if points != recovery_points:
        RecoveryPointCheckpoint(root).write(points)


def _read_hint(
    read: Callable[[], dict[TopicPartition, Hint]], loaded: LoadedLogs
) -> dict[TopicPartition, Hint]:
    """Read what are only hints: without them, a start checks more and shows less."""
    try:
        return read()
    except CheckpointMalformed as error:
        loaded.warnings.append(str(error))
        return {}


def _folders(root: Path, loaded: LoadedLogs) -> list[Path]:
    """List the folders to load, in order, and remove those of creations cut short."""
    folders = []
    try:
        for path in sorted(root.iterdir()):
            if path.is_symlink() or not path.is_dir() or path.name == TRASH_FOLDER:
                continue
            unfinished = path.name.removesuffix(NEW_SUFFIX)
            if unfinished != path.name and parse_folder_name(unfinished) is not None:
                shutil.rmtree(path)
                loaded.warnings.append(f"{path}: unfinished, removed")
            else:
                folders.append(path)
    except OSError as error:
        raise disk_failed(root, "list", error) from error
    return folders


def _add_hosted(
    loaded: LoadedLogs,
    log: PartitionLog,
    state: PersistedPartition | None,
    high_watermark: int,
) -> None:
    """Add a partition and its findings."""
    end, found = log.log_end_offset, log.validation
    if found.problem:
        loaded.warnings.append(
            f"{log.folder}: cut at offset {found.cut_at_offset}: {found.problem}"
        )
    if found.damaged or holds_less_than_before(
        log_end_offset=end, high_watermark=high_watermark, recovery_point=0
    ):
        loaded.add_lost(log.tp)
    if state is None:
        loaded.warnings.append(f"{log.folder}: the state file does not know it")
    _compare_epochs(loaded, log)
    loaded.hosted.append(hosted_partition(log, state, high_watermark))


def state_in_trash(folder: Path, log: PartitionLog) -> PersistedPartition | None:
    """Return what was accepted for a log before it was deleted, but for the ISR.

    Without it a topic that comes back would use leader epochs again, and clients that know them
    take what is newer for old; and the last leader among its logs is not known (ADR 0037).
    """
    accepted = left_accepted(folder, topic_name=log.topic_name)
    if accepted is None:
        return None
    newest = log.epochs[-1].leader_epoch if log.epochs else NO_EPOCH
    return replace(accepted, leader_epoch=max(newest, accepted.leader_epoch))


def hosted_partition(
    log: PartitionLog, state: PersistedPartition | None = None, high_watermark: int = 0
) -> HostedPartition:
    """Return what the core is told of a log on disk; its high watermark is limited to the log.

    Without a state, no state of the partition was accepted.
    """
    start, end = log.log_start_offset, log.log_end_offset
    if state is None:
        state = PersistedPartition(
            topic_name=log.topic_name,
            leader_epoch=log.epochs[-1].leader_epoch if log.epochs else NO_EPOCH,
            partition_epoch=PartitionEpoch(-1),
            isr=(),
        )
    return HostedPartition(
        tp=log.tp,
        topic_name=log.topic_name,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=state.isr,
        log_start_offset=start,
        log_end_offset=end,
        high_watermark=min(max(high_watermark, start), end),
        epochs=log.epochs,
        term=state.term,
    )


def _compare_epochs(loaded: LoadedLogs, log: PartitionLog) -> None:
    """Report an epoch checkpoint that differs from the batches; the batches are right."""
    try:
        stored = EpochCheckpoint(log.folder).read()
    except CheckpointMalformed as error:
        loaded.warnings.append(f"{error}; epochs rebuilt from the batches")
        return
    end = log.log_end_offset
    known, found = ([e for e in epochs if e.start_offset < end] for epochs in (stored, log.epochs))
    if known != found:
        loaded.warnings.append(
            f"{log.folder}: epoch checkpoint differs; epochs rebuilt from the batches"
        )


def _report_missing(
    loaded: LoadedLogs,
    persisted: Mapping[TopicPartition, PersistedPartition],
    high_watermarks: Mapping[TopicPartition, int],
    recovery_points: Mapping[TopicPartition, int],
) -> None:
    """Report partitions of the state file that have no log."""
    for tp in sorted(persisted):
        if tp in loaded.logs:
            continue
        if holds_less_than_before(
            log_end_offset=None,
            high_watermark=high_watermarks.get(tp, 0),
            recovery_point=recovery_points.get(tp, 0),
        ):
            loaded.add_lost(tp)
        loaded.warnings.append(f"{tp}: in the state file, but there is no log of it")

"""Load every log of a data directory at start.

This happens once, before the broker registers: a partition is not served before its log is loaded.
Loading reports unknown folders and keeps them. It deletes only folders of unfinished creations, and
the batches that `log_validation` cuts. It does not look into the trash.

Epochs come from the batches, which every load walks. Loading reports an epoch checkpoint that
differs: an empty or stale file must never pass for "no epochs", which would bring truncation by
high watermark back. An epoch without a batch, from an election after which nothing was written,
does not survive a restart, as in Kafka.

Source: Kafka LogManager.loadLogs, LogLoader.load, KIP-101.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from strandline.core.effects import PersistedPartition
from strandline.errors import CheckpointMalformed
from strandline.model import (
    NO_EPOCH,
    HostedPartition,
    PartitionEpoch,
    TopicPartition,
    TopicSettings,
)

from .checkpoint import (
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    LogStartCheckpoint,
    OffsetCheckpoint,
    RecoveryPointCheckpoint,
)
from .files import disk_failed
from .log_segments import LogEnvironment
from .partition_folder import NEW_SUFFIX, parse_folder_name
from .partition_log import EPOCH_MAX, PartitionLog
from .trash import TRASH_FOLDER


@dataclass(slots=True, kw_only=True)
class LoadedLogs:
    """The logs of a data directory, and the findings of their load.

    lost names partitions that hold less than this broker once had: a hole or a changed byte
    in the log, an end below the checkpointed high watermark, or no folder at all. If any
    partition is lost, this start is not clean, even if marker or boot id say so.
    """

    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    hosted: list[HostedPartition] = field(default_factory=list)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    lost: list[TopicPartition] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def load_logs(
    root: Path,
    *,
    clean: bool,
    persisted: Mapping[TopicPartition, PersistedPartition],
    environment: LogEnvironment,
) -> LoadedLogs:
    """Open every log of a data directory, with default settings until the controller sends some.

    Shape:   persisted is the state file's content
    Raises:  LogDirectoryFailed if reading or writing fails
    """
    loaded = LoadedLogs()
    high_watermarks = _read_hint(HighWatermarkCheckpoint(root), loaded)
    recovery_points = _read_hint(RecoveryPointCheckpoint(root), loaded)
    loaded.log_starts = _read_hint(LogStartCheckpoint(root), loaded)
    for folder in _folders(root, loaded):
        tp = parse_folder_name(folder.name)
        if tp is None:
            loaded.warnings.append(f"{folder}: not the folder of a partition")
            continue
        state = persisted.get(tp)
        try:
            log = PartitionLog.open(
                folder,
                TopicSettings(),
                clean=clean,
                recovery_point=recovery_points.get(tp, 0),
                log_start_offset=loaded.log_starts.get(tp, 0),
                environment=environment,
                epoch_max=EPOCH_MAX if state is None else state.leader_epoch,
            )
        except CheckpointMalformed as error:
            loaded.warnings.append(str(error))
            continue
        loaded.logs[tp] = log
        _add_hosted(loaded, log, state, high_watermarks.get(tp))
    _report_missing(loaded, persisted, (high_watermarks, recovery_points))
    return loaded


def _read_hint(checkpoint: OffsetCheckpoint, loaded: LoadedLogs) -> dict[TopicPartition, int]:
    """Read offsets that are only hints: without them, a start checks more and shows less."""
    try:
        return checkpoint.read()
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
    high_watermark: int | None,
) -> None:
    """Add a partition and its findings; its high watermark is limited to the log."""
    start, end, found = log.log_start_offset, log.log_end_offset, log.validation
    if found.problem:
        loaded.warnings.append(
            f"{log.folder}: cut at offset {found.cut_at_offset}: {found.problem}"
        )
    if found.damaged or (high_watermark is not None and high_watermark > end):
        loaded.lost.append(log.tp)
    if state is None:
        loaded.warnings.append(f"{log.folder}: the state file does not know it")
        state = PersistedPartition(
            topic_name=log.topic_name,
            leader_epoch=log.epochs[-1].leader_epoch if log.epochs else NO_EPOCH,
            partition_epoch=PartitionEpoch(-1),
            isr=(),
        )
    _compare_epochs(loaded, log)
    loaded.hosted.append(
        HostedPartition(
            tp=log.tp,
            topic_name=log.topic_name,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=state.isr,
            log_start_offset=start,
            log_end_offset=end,
            high_watermark=min(max(high_watermark or 0, start), end),
            epochs=log.epochs,
        )
    )


def _compare_epochs(loaded: LoadedLogs, log: PartitionLog) -> None:
    """Report an epoch checkpoint that differs from the batches; the batches are right."""
    try:
        stored = EpochCheckpoint(log.folder).read()
    except CheckpointMalformed as error:
        loaded.warnings.append(f"{error}; epochs rebuilt from the batches")
        return
    if tuple(entry for entry in stored if entry.start_offset < log.log_end_offset) != log.epochs:
        loaded.warnings.append(
            f"{log.folder}: epoch checkpoint differs; epochs rebuilt from the batches"
        )


def _report_missing(
    loaded: LoadedLogs,
    persisted: Mapping[TopicPartition, PersistedPartition],
    checkpoints: tuple[Mapping[TopicPartition, int], ...],
) -> None:
    """Report partitions of the state file that have no log.

    The state file is written before a folder is made, so a missing folder is a lost log only if
    a checkpoint has an offset above 0 for it.
    """
    for tp in sorted(persisted):
        if tp in loaded.logs:
            continue
        if any(offsets.get(tp, 0) > 0 for offsets in checkpoints):
            loaded.lost.append(tp)
        loaded.warnings.append(f"{tp}: in the state file, but there is no log of it")

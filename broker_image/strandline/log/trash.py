"""The trash of a data directory: deleted logs, kept for a while (ADR 0024).

`<data dir>/trash/<topicId>-<partition>.<ms>` is the folder of a log, whole, deleted at that time
since 1970; partition.metadata inside it holds the topic's name. The suffix `.removing` marks a
folder whose files are being removed: it is no log any more.

A log comes here and leaves here by one rename, so a crash leaves it in one of both places, whole.
Every function blocks on the disk; one thread calls `clean`, and `clean` stops between two steps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from strandline.errors import CheckpointMalformed, ErrorCode, ProtocolError
from strandline.model import TopicPartition, TrashedReplica

from .files import sync_folder
from .partition_folder import folder_of, parse_folder_name, read_metadata

TRASH_FOLDER = "trash"
REMOVING_SUFFIX = ".removing"
REMOVAL_STEP_BYTES = 64 << 20
"""A file gives up this many bytes at a time: the removal of a big file in one call would hold the
file system's journal, and with it the writes of other logs."""
VOLUME_SHARE = 4
"""Without a bound in bytes, the trash takes at most this part of the volume: one in four."""
TRASHED_TOLD_MAX = 4_000
"""A broker tells the controller of the logs deleted last, about 100 bytes each, in each report."""

_DELETED = re.compile(r"(.+)\.([0-9]{1,15})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashLimits:
    """How long and how much a trash keeps; retention_bytes below 0 means one in VOLUME_SHARE."""

    retention_ms: int
    retention_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedLog:
    """A log in the trash."""

    tp: TopicPartition
    deleted_at_ms: int
    folder: Path


class Trash:
    """The deleted logs of one data directory."""

    def __init__(self, root: Path, limits: TrashLimits) -> None:
        self._root = root
        self._limits = limits
        self.folder = root / TRASH_FOLDER
        self.size_bytes = 0
        """Bytes kept, as of the last `clean`."""

    def change_limits(self, limits: TrashLimits) -> None:
        """Keep for another time or size; a `clean` in another thread reads them for each log."""
        self._limits = limits

    def put(self, folders: list[Path], *, now_ms: int) -> None:
        """Move the folders of logs here, durably on return; a missing folder is passed over."""
        self.folder.mkdir(exist_ok=True)
        for folder in folders:
            target, deleted_at_ms = self._target(folder, now_ms), now_ms
            while target.exists():
                deleted_at_ms += 1
                target = self._target(folder, deleted_at_ms)
            if folder.exists():
                folder.rename(target)
        self._sync()

    def _target(self, folder: Path, deleted_at_ms: int) -> Path:
        return self.folder / f"{folder.name}.{deleted_at_ms}"

    def _sync(self) -> None:
        """Make renames between both folders durable, the target's side first."""
        sync_folder(self.folder)
        sync_folder(self._root)

    def deleted_logs(self) -> list[DeletedLog]:
        """Return the logs in the trash, the one deleted first at the beginning."""
        return _deleted_logs(self.folder)

    def restore(self, tp: TopicPartition) -> Path:
        """Move the newest deleted log of a partition back; return its folder, durable.

        Raises:  ProtocolError UNKNOWN_TOPIC_OR_PARTITION if the trash has none,
                 TOPIC_ALREADY_EXISTS if the partition has a folder
        """
        found = [log for log in self.deleted_logs() if log.tp == tp]
        if not found:
            raise ProtocolError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, problem="not in the trash", partition=str(tp)
            )
        folder = folder_of(self._root, tp)
        if folder.exists():
            raise ProtocolError(
                ErrorCode.TOPIC_ALREADY_EXISTS, problem="has a log", partition=str(tp)
            )
        found[-1].folder.rename(folder)
        self._sync()
        return folder

    def clean(self, *, now_ms: int, stopping: Callable[[], bool]) -> list[DeletedLog]:
        """Remove logs kept too long, and the oldest while all are too big; return the removed.

        Also ends removals that a kill cut short. The time is the wall clock's: a clock that was
        wrong at a deletion keeps that log longer or shorter, within the bound in bytes.
        """
        for path in _folders(self.folder):
            if path.name.endswith(REMOVING_SUFFIX):
                _remove_by_steps(path, stopping)
        logs = self.deleted_logs()
        sizes = [_size_bytes(log.folder) for log in logs]
        self.size_bytes = sum(sizes)
        removed = []
        for log, size_bytes in zip(logs, sizes, strict=True):
            expired = now_ms - log.deleted_at_ms > self._limits.retention_ms
            if stopping() or not (expired or self.size_bytes > self._size_max_bytes()):
                break
            removing = log.folder.with_name(log.folder.name + REMOVING_SUFFIX)
            log.folder.rename(removing)
            sync_folder(self.folder)
            _remove_by_steps(removing, stopping)
            self.size_bytes -= size_bytes
            removed.append(log)
        return removed

    def _size_max_bytes(self) -> int:
        if self._limits.retention_bytes >= 0:
            return self._limits.retention_bytes
        volume = os.statvfs(self._root)
        return volume.f_blocks * volume.f_frsize // VOLUME_SHARE


def trashed_replicas(root: Path, *, logs_max: int = TRASHED_TOLD_MAX) -> tuple[TrashedReplica, ...]:
    """Return the newest deleted log of each partition, of those deleted last, by partition.

    The topic's name is empty if the metadata file cannot be read.
    """
    newest = {log.tp: log for log in _deleted_logs(root / TRASH_FOLDER)}
    latest = sorted(newest.values(), key=lambda log: log.deleted_at_ms)[-logs_max:]
    return tuple(
        TrashedReplica(tp=log.tp, topic_name=_topic_name(log), deleted_at_ms=log.deleted_at_ms)
        for log in sorted(latest, key=lambda log: log.tp)
    )


def _deleted_logs(folder: Path) -> list[DeletedLog]:
    found = []
    for path in _folders(folder):
        match = _DELETED.fullmatch(path.name)
        tp = parse_folder_name(match[1]) if match else None
        if match and tp is not None:
            found.append(DeletedLog(tp=tp, deleted_at_ms=int(match[2]), folder=path))
    return sorted(found, key=lambda log: (log.deleted_at_ms, log.tp))


def _folders(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _topic_name(log: DeletedLog) -> str:
    try:
        return read_metadata(log.folder, tp=log.tp).topic_name
    except CheckpointMalformed:
        return ""


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _remove_by_steps(folder: Path, stopping: Callable[[], bool]) -> None:
    """Remove a folder of files, the files from their ends on; the next clean goes on if stopped."""
    for path in folder.iterdir():
        size_bytes = path.stat().st_size
        while size_bytes > REMOVAL_STEP_BYTES:
            if stopping():
                return
            size_bytes -= REMOVAL_STEP_BYTES
            os.truncate(path, size_bytes)
        path.unlink()
    folder.rmdir()

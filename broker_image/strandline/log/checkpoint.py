"""Kafka's text checkpoints: high watermarks, recovery points, leader epochs.

One format for all: a line with the version, a line with the number of entries, one entry a line.
A crash leaves the old file or the new one, see `replace_file`.

High watermarks and recovery points are hints: their loss costs time and no record. The batches of
the log hold the leader epochs too, and are right if the checkpoint differs. Kafka syncs the epochs
because it restores them from there (KAFKA-16541); here a take-over changes one such file for each
partition, no start needs it, and only a failed machine leaves a damaged one, of which a load tells.

Source: Kafka CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from strandline.errors import CheckpointMalformed
from strandline.model import NO_EPOCH, EpochStart, LeaderEpoch, TopicPartition

from .files import disk_failed, replace_file
from .partition_folder import parse_folder_name

CHECKPOINT_VERSION = 0


def write_checkpoint(path: Path, entries: Iterable[str], *, durable: bool = True) -> None:
    """Replace a checkpoint; LogDirectoryFailed if that fails."""
    lines = list(entries)
    content = "\n".join([str(CHECKPOINT_VERSION), str(len(lines)), *lines, ""])
    try:
        replace_file(path, content.encode("ascii"), durable=durable)
    except OSError as error:
        raise disk_failed(path.parent, f"write {path.name}", error) from error


def read_checkpoint(path: Path) -> list[str]:
    """Read the entries of a checkpoint; a missing, empty or version-only file has none.

    Raises:  CheckpointMalformed unless it is exactly what `write_checkpoint` writes;
             LogDirectoryFailed
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise disk_failed(path.parent, f"read {path.name}", error) from error
    if not content:
        return []
    try:
        lines = content.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise CheckpointMalformed(f"{path}: not ASCII") from error
    if lines.pop() != "":
        raise CheckpointMalformed(f"{path}: last line is cut")
    if lines[0] != str(CHECKPOINT_VERSION):
        raise CheckpointMalformed(f"{path}: version is not {CHECKPOINT_VERSION}")
    if len(lines) == 1:
        return []
    if _number(path, lines[1]) != len(lines) - 2:
        raise CheckpointMalformed(f"{path}: {lines[1]} entries announced, {len(lines) - 2} found")
    return lines[2:]


FIRST_START = EpochStart(leader_epoch=NO_EPOCH, start_offset=0)
"""Where a log begins that the log start checkpoint does not name."""


class OffsetCheckpoint:
    """An offset per partition of a data directory; a line is `<topicId>-<partition> <offset>`."""

    file_name: ClassVar[str]

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / self.file_name

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace all offsets."""
        write_checkpoint(self._path, (f"{tp} {offset}" for tp, offset in sorted(offsets.items())))

    def read(self) -> dict[TopicPartition, int]:
        """Return all offsets; CheckpointMalformed also if a partition is named twice."""
        offsets: dict[TopicPartition, int] = {}
        for line in read_checkpoint(self._path):
            name, _, offset = line.partition(" ")
            tp = parse_folder_name(name)
            if tp is None or tp in offsets:
                raise CheckpointMalformed(f"{self._path}: no new partition in line {line!r}")
            offsets[tp] = _number(self._path, offset)
        return offsets


class HighWatermarkCheckpoint(OffsetCheckpoint):
    """The high watermark of every replica, leader or follower."""

    file_name = "replication-offset-checkpoint"


class RecoveryPointCheckpoint(OffsetCheckpoint):
    """The offset of every log below which everything was fsynced."""

    file_name = "recovery-point-offset-checkpoint"


class LogStartCheckpoint:
    """Where every log begins that does not begin at 0; a line is `<partition> <offset> <epoch>`.

    The offset may lie within the first segment, or above it until that segment is deleted. The
    leader epoch there outlives the last segment, so that a log without records can be compared
    with others; it is -1 if it is not known.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "log-start-offset-checkpoint"

    def write(self, starts: Mapping[TopicPartition, EpochStart]) -> None:
        """Replace all log starts."""
        write_checkpoint(
            self._path,
            (f"{tp} {at.start_offset} {at.leader_epoch}" for tp, at in sorted(starts.items())),
        )

    def read(self) -> dict[TopicPartition, EpochStart]:
        """Return all log starts; CheckpointMalformed also if a partition is named twice."""
        starts: dict[TopicPartition, EpochStart] = {}
        for line in read_checkpoint(self._path):
            name, offset, epoch = ([*line.split(" "), "", ""])[:3]
            tp = parse_folder_name(name)
            if tp is None or tp in starts:
                raise CheckpointMalformed(f"{self._path}: no new partition in line {line!r}")
            starts[tp] = EpochStart(
                leader_epoch=NO_EPOCH
                if epoch == str(NO_EPOCH)
                else LeaderEpoch(_number(self._path, epoch)),
                start_offset=_number(self._path, offset),
            )
        return starts


class EpochCheckpoint:
    """The leader epochs of one partition; a line is `<epoch> <start offset>`, both ascending."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "leader-epoch-checkpoint"

    def write(self, epochs: Iterable[EpochStart]) -> None:
        """Replace all epochs, without an fsync."""
        entries = (f"{each.leader_epoch} {each.start_offset}" for each in epochs)
        write_checkpoint(self._path, entries, durable=False)

    def read(self) -> tuple[EpochStart, ...]:
        """Return all epochs; CheckpointMalformed also if epochs or offsets do not ascend."""
        epochs: list[EpochStart] = []
        for line in read_checkpoint(self._path):
            epoch, _, offset = line.partition(" ")
            entry = EpochStart(
                leader_epoch=LeaderEpoch(_number(self._path, epoch)),
                start_offset=_number(self._path, offset),
            )
            if epochs and (
                entry.leader_epoch <= epochs[-1].leader_epoch
                or entry.start_offset <= epochs[-1].start_offset
            ):
                raise CheckpointMalformed(f"{self._path}: line {line!r} does not ascend")
            epochs.append(entry)
        return tuple(epochs)


def _number(path: Path, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise CheckpointMalformed(f"{path}: {text!r} is not a number")
    return int(text)

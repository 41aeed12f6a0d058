"""The folder of a partition: its name, and the partition.metadata file inside it.

A topic id comes from the network: a folder name is made only from a uuid and a number, so no name
can lead out of the data directory.

`<topicId>-<partition>`           a log
`<topicId>-<partition>.new`       a log being made; never holds records
`<topicId>-<partition>.unreadable.<n>`  a log that a start could not open, kept for people
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from strandline.core.effects import PersistedPartition
from strandline.errors import CheckpointMalformed, ErrorCode, ProtocolError
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    LeaderTerm,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)

from .files import replace_file

METADATA_FILE = "partition.metadata"
METADATA_VERSION = 0
NEW_SUFFIX = ".new"
UNREADABLE_SUFFIX = ".unreadable"
ACCEPTED_FILE = "accepted-state"
PARTITION_MAX = (1 << 31) - 1
METADATA_SIZE_MAX_BYTES = 4096
ACCEPTED_SIZE_MAX_BYTES = 128
NUMBER_MAX = (1 << 31) - 1
"""The highest epoch and the highest broker id."""

_TOPIC_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FOLDER = re.compile(rf"({_TOPIC_ID.pattern})-(0|[1-9][0-9]{{0,9}})")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NUMBER = rb"(-1|[0-9]{1,10})"
_ACCEPTED = re.compile(rb" ".join([_NUMBER] * 5) + rb"\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadataFile:
    """Content of partition.metadata: the partition whose log the folder holds."""

    tp: TopicPartition
    topic_name: str


def folder_of(root: Path, tp: TopicPartition) -> Path:
    """Return the folder of a partition, directly below the data directory.

    Raises:  ProtocolError(INVALID_REQUEST) if the id is not a uuid or the number not a partition
    """
    name = f"{tp.topic_id}-{tp.partition}"
    if parse_folder_name(name) != tp:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, problem="not a partition", name=name)
    folder = root / name
    if folder.is_symlink() or folder.resolve().parent != root.resolve():
        raise ProtocolError(ErrorCode.INVALID_REQUEST, problem="leads elsewhere", name=name)
    return folder


def parse_folder_name(name: str) -> TopicPartition | None:
    """Return the partition of a folder name, None if the name is not one of ours."""
    match = _FOLDER.fullmatch(name)
    if match is None or int(match[3]) > PARTITION_MAX:
        return None
    return TopicPartition(topic_id=TopicId(match[1]), partition=int(match[3]))


def write_metadata(folder: Path, metadata: PartitionMetadataFile) -> None:
    """Write partition.metadata durably; ProtocolError(INVALID_TOPIC_EXCEPTION) for a bad name."""
    if _TOPIC_NAME.fullmatch(metadata.topic_name) is None:
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, topic_name=metadata.topic_name)
    lines = (
        f"version: {METADATA_VERSION}",
        f"topic_id: {metadata.tp.topic_id}",
        f"topic_name: {metadata.topic_name}",
        f"partition: {metadata.tp.partition}",
        "",
    )
    replace_file(folder / METADATA_FILE, "\n".join(lines).encode())


def read_metadata(folder: Path, *, tp: TopicPartition | None = None) -> PartitionMetadataFile:
    """Read the partition.metadata file; it must describe tp, by default that of the folder's name.

    Raises:  CheckpointMalformed if it is not what `write_metadata` writes, or cannot be read
    """
    path = folder / METADATA_FILE
    try:
        with path.open("rb") as file:
            text = file.read(METADATA_SIZE_MAX_BYTES).decode("ascii", errors="replace")
    except OSError as error:
        raise CheckpointMalformed(f"{path}: {error.strerror}") from error
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    found = parse_folder_name(f"{fields.get('topic_id')}-{fields.get('partition')}")
    topic_name = fields.get("topic_name", "")
    if (
        fields.get("version") != str(METADATA_VERSION)
        or found is None
        or found != (tp or parse_folder_name(folder.name))
        or _TOPIC_NAME.fullmatch(topic_name) is None
    ):
        raise CheckpointMalformed(f"{path}: does not describe the folder it lies in")
    return PartitionMetadataFile(tp=found, topic_name=topic_name)


def leave_accepted(folder: Path, accepted: PersistedPartition) -> None:
    """Leave what was accepted last, but for the ISR, beside a log that goes to the trash.

    Not durable, and a log that comes back without it knows its records alone: a deletion of many
    logs shall not wait for a flush of each.
    """
    term = accepted.term
    numbers = (accepted.leader_epoch, accepted.partition_epoch, term.leader_epoch)
    line = b"%d %d %d %d %d\n" % (*numbers, term.led_by, term.led_as)
    (folder / ACCEPTED_FILE).write_bytes(line)


def left_accepted(folder: Path, *, topic_name: str) -> PersistedPartition | None:
    """Return what `leave_accepted` left, None if there is nothing of the kind."""
    try:
        with (folder / ACCEPTED_FILE).open("rb") as file:
            match = _ACCEPTED.fullmatch(file.read(ACCEPTED_SIZE_MAX_BYTES))
    except OSError:
        return None
    numbers = () if match is None else tuple(map(int, match.groups()))
    if not numbers or max(numbers) > NUMBER_MAX:
        return None
    leader_epoch, partition_epoch, led_in, led_by, led_as = numbers
    return PersistedPartition(
        topic_name=topic_name,
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        isr=(),
        term=LeaderTerm(
            leader_epoch=LeaderEpoch(led_in), led_by=BrokerId(led_by), led_as=BrokerEpoch(led_as)
        ),
    )

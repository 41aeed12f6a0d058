"""The state file: what this broker accepted, as a whole, and behind it a journal of changes.

    strandline-state 1 <checksum of the second line>
    <the whole state as JSON>
    <length> <checksum> <one change as JSON>
    ...

A change is one line at the end of the file and one fdatasync, whatever else the broker hosts. The
file is written whole, beside the old one, if the journal has grown beyond its bound, at the first
change of a process, and after an append that failed; so an append always follows what this process
wrote. The journal of a process that was killed may end in a part of a line: nobody was told of that
change, and the reader leaves it out. Any other damage is an error. A file without a journal is the
file of earlier versions; they refuse one with a journal, for it has another checksum (ADR 0068).

Source: Kafka's log recovery cuts a torn tail in the same way (LogSegment.recover).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Final

from strandline.core.effects import PersistedPartition
from strandline.errors import CheckpointMalformed
from strandline.model import (
    NO_TERM,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    LeaderTerm,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)

from .files import replace_file, sync_data, write_all

STATE_HEADER: Final = "strandline-state 1"
STATE_JOURNAL_BYTES: Final = 1 << 20
"""The file is written whole if the journal would grow beyond this, or beyond the whole state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """Content of the state file: what this broker accepted."""

    controller_epoch: ControllerEpoch = ControllerEpoch(0)
    partitions: Mapping[TopicPartition, PersistedPartition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """Partitions that the file forgets, others whose states it takes, and the whole with them."""

    removed: Collection[TopicPartition] = ()
    changed: Mapping[TopicPartition, PersistedPartition]
    whole: BrokerState


class StateFile:
    """The writer of one state file; one thread at a time uses it. OSError: the change is not done.

    After an error the file holds what it held before, or that and the change.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end: int | None = None
        """Where the next change is appended; None: the file must be written whole."""
        self._journal_begins = 0

    @property
    def has_journal(self) -> bool:
        """Whether this process has appended something since it wrote the file whole."""
        return self._end is not None and self._end > self._journal_begins

    def write(self, state: BrokerState) -> None:
        """Write the file whole, without a journal."""
        body = _json(_state_body(state))
        content = f"{STATE_HEADER} {zlib.crc32(body):08x}\n".encode() + body
        self._end = None
        replace_file(self._path, content)
        self._end = self._journal_begins = len(content)

    def append(self, change: StateChange) -> None:
        """Make a change durable: at the end of the file, or by writing the file whole."""
        end = self._end
        if end is None:
            return self.write(change.whole)
        body = _json(_change_body(change))
        record = b"%d %08x %b\n" % (len(body), zlib.crc32(body), body)
        if end == self._journal_begins:
            record = b"\n" + record
        journal_bytes = end + len(record) - self._journal_begins
        if journal_bytes > max(STATE_JOURNAL_BYTES, self._journal_begins):
            return self.write(change.whole)
        self._end = None
        fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            write_all(fd, [record], end)
            sync_data(fd)
        finally:
            os.close(fd)
        self._end = end + len(record)
        return None


def state_from(content: bytes, path: Path) -> BrokerState:
    """Read a state file; CheckpointMalformed unless it is what `StateFile` writes."""
    header, _, rest = content.partition(b"\n")
    body, _, journal = rest.partition(b"\n")
    if header != f"{STATE_HEADER} {zlib.crc32(body):08x}".encode():
        raise CheckpointMalformed(f"{path}: version or checksum does not match")
    try:
        value = json.loads(body)
        partitions, epoch = _partitions_from(value, path), _integer(value["controllerEpoch"])
        for line in _changes_in(journal, path):
            value = json.loads(line)
            for item in value["removed"]:
                partitions.pop(_tp_from(item), None)
            partitions |= _partitions_from(value, path)
            epoch = _integer(value["controllerEpoch"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointMalformed(f"{path}: not the promised form: {error}") from error
    return BrokerState(controller_epoch=ControllerEpoch(epoch), partitions=partitions)


def _changes_in(journal: bytes, path: Path) -> Iterator[bytes]:
    """Yield the changes of a journal, without a last one that was not written to its end."""
    lines = journal.split(b"\n")
    for number, line in enumerate(lines, start=1):
        length, _, rest = line.partition(b" ")
        checksum, _, body = rest.partition(b" ")
        is_last = number == len(lines)
        is_whole = length == b"%d" % len(body) and checksum == b"%08x" % zlib.crc32(body)
        if is_whole and not is_last:
            yield body
        elif is_whole or (is_last and _is_torn(length, body)):
            return  # what an append wrote that did not come to its end
        elif b"\0" in line and not any(lines[number:]):
            return  # the file had grown, and the disk had not the bytes yet
        else:
            raise CheckpointMalformed(f"{path}: change {number} of the journal is damaged")


def _is_torn(length: bytes, body: bytes) -> bool:
    """Tell whether a line without an end is shorter than its first number says."""
    return not length.isdigit() or len(body) < int(length)


def _state_body(state: BrokerState) -> dict[str, Any]:
    return {
        "controllerEpoch": state.controller_epoch,
        "partitions": [
            {
                "topicId": tp.topic_id,
                "partition": tp.partition,
                "topicName": partition.topic_name,
                "leaderEpoch": partition.leader_epoch,
                "partitionEpoch": partition.partition_epoch,
                "isr": [[entry.broker_id, entry.broker_epoch] for entry in partition.isr],
                "term": list(astuple(partition.term)),
            }
            for tp, partition in sorted(state.partitions.items())
        ],
    }


def _change_body(change: StateChange) -> dict[str, Any]:
    changed = BrokerState(controller_epoch=change.whole.controller_epoch, partitions=change.changed)
    removed = [{"topicId": tp.topic_id, "partition": tp.partition} for tp in change.removed]
    return {**_state_body(changed), "removed": removed}


def _json(value: object) -> bytes:
    """Return a value as one line."""
    return json.dumps(value, separators=(",", ":")).encode()


def _partitions_from(value: dict[str, Any], path: Path) -> dict[TopicPartition, PersistedPartition]:
    entries = [_partition_from(item) for item in value["partitions"]]
    partitions = dict(entries)
    if len(partitions) != len(entries):
        raise CheckpointMalformed(f"{path}: a partition is named twice")
    return partitions


def _tp_from(item: dict[str, Any]) -> TopicPartition:
    return TopicPartition(
        topic_id=TopicId(_text(item["topicId"])), partition=_integer(item["partition"])
    )


def _partition_from(item: dict[str, Any]) -> tuple[TopicPartition, PersistedPartition]:
    return _tp_from(item), PersistedPartition(
        topic_name=_text(item["topicName"]),
        leader_epoch=LeaderEpoch(_integer(item["leaderEpoch"], minimum=-1)),
        partition_epoch=PartitionEpoch(_integer(item["partitionEpoch"], minimum=-1)),
        isr=tuple(
            IsrEntry(
                broker_id=BrokerId(_integer(broker_id)), broker_epoch=BrokerEpoch(_integer(epoch))
            )
            for broker_id, epoch in item["isr"]
        ),
        term=_term_from(item.get("term")),
    )


def _term_from(value: Any) -> LeaderTerm:
    """Read the last leadership; files of before it was kept have none."""
    if value is None:
        return NO_TERM
    leader_epoch, led_by, led_as = value
    return LeaderTerm(
        leader_epoch=LeaderEpoch(_integer(leader_epoch, minimum=-1)),
        led_by=BrokerId(_integer(led_by, minimum=-1)),
        led_as=BrokerEpoch(_integer(led_as, minimum=-1)),
    )


def _integer(value: object, *, minimum: int = 0) -> int:
    if type(value) is int and value >= minimum:
        return value
    raise ValueError(f"{value!r} is not an integer of at least {minimum}")


def _text(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError(f"{value!r} is not a text")

"""What clients did and what the logs hold, as lines of JSON.

A client writes a `sent` line before it hands a record to its library and at most one outcome
line after it. A consumer writes a `read` line for each record in the order it got them. A scan
of a replica's log writes a `start` line, then one `record` line per record. Whole files may be
concatenated in any order. A killed client may leave its last line cut: such a line is ignored if it
is the very last.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum

from strandline.dump_log.scanned import Scanned
from strandline.errors import StrandlineError
from strandline.model import BrokerId, LeaderEpoch

LINE_MAX_BYTES = 1 << 20
"""No writer of ours writes a longer line: it counts as cut."""


class SendOutcome(Enum):
    """How a send ended; a record whose send is UNKNOWN may or may not be in the log."""

    ACKED = "acked"
    FAILED = "failed"
    UNKNOWN = "unknown"


class MalformedHistory(StrandlineError):
    """A line does not have the form that this module writes; names the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record that a client handed to its library; values are unique over all clients.

    sequence counts one producer's sends to one partition from 0; sent_ms and ended_ms are times
    of the client's monotonic clock; offset is the acknowledged one, -1 unless ACKED.
    """

    producer: str
    partition: int
    sequence: int
    value: str
    sent_ms: float
    ended_ms: float | None = None
    outcome: SendOutcome = SendOutcome.UNKNOWN
    offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A record that a consumer got; each named consumer reads a partition once, ascending."""

    consumer: str
    partition: int
    offset: int
    value: str


@dataclass(slots=True, kw_only=True)
class History:
    """Everything that `judge` compares.

    Shape:   sends by value; starts, where logs begin, by (partition, broker); scans likewise,
             ascending by offset; reads by (partition, consumer), in the order of the consumer
    """

    sends: dict[str, Sent] = field(default_factory=dict)
    starts: dict[tuple[int, BrokerId], int] = field(default_factory=dict)
    scans: dict[tuple[int, BrokerId], list[Scanned]] = field(default_factory=dict)
    reads: dict[tuple[int, str], list[Read]] = field(default_factory=dict)


def sent_line(send: Sent) -> str:
    """Return the line a client writes before it sends."""
    return json.dumps(
        ["sent", send.producer, send.partition, send.sequence, send.value, send.sent_ms]
    )


def outcome_line(value: str, outcome: SendOutcome, *, ended_ms: float, offset: int = -1) -> str:
    """Return the line a client writes when it knows how a send ended."""
    return json.dumps([outcome.value, value, ended_ms, offset])


def read_line(read: Read) -> str:
    """Return the line a consumer writes for a record it got."""
    return json.dumps(["read", read.consumer, read.partition, read.offset, read.value])


def read_history(lines: Iterable[str]) -> History:
    """Return the history that the lines tell.

    Raises:  MalformedHistory for a malformed line unless it is the last and cut, for a value
             that was sent twice, and for an outcome before its send
    """
    history = History()
    cut: tuple[int, str] | None = None
    for number, line in enumerate(lines, start=1):
        if cut is not None:
            raise MalformedHistory(f"line {cut[0]} is malformed: {cut[1]}")
        if not line.endswith("\n") or len(line) > LINE_MAX_BYTES:
            cut = (number, line[:80])
            continue
        try:
            _take(history, json.loads(line))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise MalformedHistory(f"line {number} is malformed: {error!r}: {line[:80]}") from error
    for records in history.scans.values():
        records.sort(key=lambda record: record.offset)
    return history


def _take(history: History, fields: list[object]) -> None:
    match fields:
        case ["sent", str(producer), int(partition), int(sequence), str(value), time_ms]:
            if value in history.sends:
                raise ValueError(f"value {value} was sent twice")
            history.sends[value] = Sent(
                producer=producer,
                partition=partition,
                sequence=sequence,
                value=value,
                sent_ms=_number(time_ms),
            )
        case ["read", str(consumer), int(partition), int(offset), str(value)]:
            history.reads.setdefault((partition, consumer), []).append(
                Read(consumer=consumer, partition=partition, offset=offset, value=value)
            )
        case ["start", int(broker), int(partition), int(offset)]:
            key = (partition, BrokerId(broker))
            history.starts[key] = offset
            history.scans.setdefault(key, [])
        case ["record", int(broker), int(partition), int(offset), int(epoch), str(value), int(crc)]:
            key = (partition, BrokerId(broker))
            history.scans.setdefault(key, []).append(
                Scanned(
                    broker=BrokerId(broker),
                    partition=partition,
                    offset=offset,
                    leader_epoch=LeaderEpoch(epoch),
                    value=value,
                    checksum=crc,
                )
            )
        case [str(word), str(value), time_ms, int(offset)]:
            send = history.sends[value]
            history.sends[value] = replace(
                send, ended_ms=_number(time_ms), outcome=SendOutcome(word), offset=offset
            )
        case _:
            raise ValueError("no such kind of line")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no time")
    return float(value)

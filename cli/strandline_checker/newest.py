"""Judge the newest part of a history, and of one whose clients still run.

A history that is cut begins in the middle: outcomes whose sends were cut are left out, and logs are
compared from the first acknowledged record that is left to the last one. A producer's records lie
in the order of its sends, so every record between these two was sent by a line that is left, or by
somebody else. What others wrote is compared between replicas, and nobody knows its outcome.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from strandline.dump_log.scanned import Scanned
from strandline.model import BrokerId

from .history import History, Read, SendOutcome, Sent, read_history
from .judge import HistoryVerdict, judge

Record = TypeVar("Record", Scanned, Read)


def judge_newest(
    history_lines: Iterable[str],
    scan_lines: Iterable[str],
    replicas: Mapping[int, frozenset[BrokerId]],
) -> HistoryVerdict:
    """Return the verdict on the part of a history that is left, as `judge` does on a whole one.

    The load may still run: records after the last acknowledgement of the lines are left out.
    Shape:   replicas holds, by partition, the brokers in sync before and after the scan
    Raises:  MalformedHistory
    """
    history = read_history(_with_sends(history_lines))
    scanned = read_history(_whole(scan_lines))
    ours = tuple({f"{each.producer}-" for each in history.sends.values()})
    bounds = _bounds(history)
    scans = {
        key: _within(records, bounds[key[0]], ours)
        for key, records in scanned.scans.items()
        if key[0] in bounds
    }
    theirs = {
        each.value: _sent_by_others(each)
        for each in chain.from_iterable(scans.values())
        if not each.value.startswith(ours)
    }
    newest = History(
        sends=history.sends | theirs,
        starts={key: max(bounds[key[0]][0], _start(scanned, key)) for key in scans},
        scans=scans,
        reads={
            key: _within(reads, bounds[key[0]], ours)
            for key, reads in history.reads.items()
            if key[0] in bounds
        },
    )
    judged = judge(newest, replicas={n: each for n, each in replicas.items() if n in bounds})
    outcomes = [each.outcome for each in history.sends.values()]
    unknown = outcomes.count(SendOutcome.UNKNOWN)
    return replace(judged, sent=len(outcomes), unknown=unknown)


def _start(scanned: History, key: tuple[int, BrokerId]) -> int:
    """Return where a log begins; a scan that was cut has no line that says so."""
    records = scanned.scans[key]
    return scanned.starts.get(key, records[0].offset if records else 0)


def _within(records: list[Record], bounds: tuple[int, int], ours: tuple[str, ...]) -> list[Record]:
    """Return the records from the first offset to the last, those of others under new names."""
    first, last = bounds
    return [
        each if each.value.startswith(ours) else replace(each, value=_of_others(each))
        for each in records
        if first <= each.offset <= last
    ]


def _of_others(record: Scanned | Read) -> str:
    """Return a name for a record of somebody else, whose values need not be unique."""
    return f"somebody's record in {record.partition} at {record.offset}"


def _sent_by_others(record: Scanned) -> Sent:
    return Sent(
        producer="", partition=record.partition, sequence=0, value=record.value, sent_ms=0.0
    )


def _whole(lines: Iterable[str]) -> Iterator[str]:
    return (line for line in lines if line.endswith("\n"))


def _with_sends(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines but outcomes whose sends are not there, and what was just being written."""
    sent: set[str] = set()
    for line in _whole(lines):
        fields = json.loads(line)
        if fields[0] == "sent":
            sent.add(fields[4])
        elif fields[0] != "read" and fields[1] not in sent:
            continue
        yield line


def _bounds(history: History) -> dict[int, tuple[int, int]]:
    """Return the first and the last acknowledged offset of each partition that has any."""
    found: dict[int, tuple[int, int]] = {}
    for send in history.sends.values():
        if send.outcome is SendOutcome.ACKED:
            first, last = found.get(send.partition, (send.offset, send.offset))
            found[send.partition] = min(first, send.offset), max(last, send.offset)
    return found

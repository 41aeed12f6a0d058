"""Judge a history against the final scan of every replica's log.

The caller scans when load has stopped and every ISR is full, so every replica must hold the
same committed log. A read record that no log holds is an anomaly; a read never proves that a log
holds a record. A send without an answer is unknown: its record may or may not be in the log.

Source: the anomaly classes of Jepsen's Kafka workload, reduced to what a full scan decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from strandline.dump_log.scanned import Scanned
from strandline.model import BrokerId

from .history import History, Read, SendOutcome, Sent

KINDS = (
    *("lost", "duplicated", "out_of_order", "moved"),
    *("diverged", "phantom", "unscanned", "misread"),
)
"""The kinds of anomalies; a verdict has a count by each of these names."""
FINDINGS_LISTED_MAX = 20
"""A verdict counts all findings and lists at most this many of each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One anomaly: kind is a constant word, detail says where."""

    kind: str
    partition: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryVerdict:
    """Counts over the whole history; `findings` lists at most FINDINGS_LISTED_MAX of each kind.

    gaps_ms is by partition, see `longest_gaps`.
    """

    sent: int
    acked: int
    failed: int
    unknown: int
    lost: int
    duplicated: int
    out_of_order: int
    moved: int
    diverged: int
    phantom: int
    unscanned: int
    read: int
    misread: int
    gaps_ms: dict[int, float]
    findings: tuple[Finding, ...]

    @property
    def is_valid(self) -> bool:
        """True if nothing acknowledged was lost, moved or doubled, and the replicas agree."""
        harmed = self.lost + self.duplicated + self.out_of_order + self.moved + self.misread
        return harmed + self.diverged + self.phantom + self.unscanned == 0


def judge(history: History, *, replicas: dict[int, frozenset[BrokerId]]) -> HistoryVerdict:
    """Return the verdict; replicas names the brokers that hold each partition.

    lost: an acknowledged record is missing from the log of a replica that begins at or below it.
    moved: a record lies at another offset than the acknowledged one.
    duplicated: one value lies at two offsets of a partition (the producers are idempotent).
    out_of_order: two acknowledged records of one producer lie in the wrong order.
    diverged: two replicas hold different records at one offset.
    phantom: a log holds a record that no client sent, or whose send failed.
    unscanned: the history lacks the log of a replica of a partition with acknowledged records.
    misread: a consumer got a record that no log holds at that offset, or skipped or repeated an
    offset.
    """
    by_kind: dict[str, list[Finding]] = defaultdict(list)
    for partition, brokers in sorted(replicas.items()):
        sends = [send for send in history.sends.values() if send.partition == partition]
        scans = {broker: history.scans.get((partition, broker)) for broker in sorted(brokers)}
        starts = {broker: history.starts.get((partition, broker), 0) for broker in sorted(brokers)}
        for kind, detail in _judge_partition(sends, scans, starts):
            by_kind[kind].append(Finding(kind=kind, partition=partition, detail=detail))
    for (partition, _), reads in sorted(history.reads.items()):
        for detail in _judge_reads(partition, reads, history):
            by_kind["misread"].append(Finding(kind="misread", partition=partition, detail=detail))
    outcomes = [send.outcome for send in history.sends.values()]
    return HistoryVerdict(
        sent=len(outcomes),
        acked=outcomes.count(SendOutcome.ACKED),
        failed=outcomes.count(SendOutcome.FAILED),
        unknown=outcomes.count(SendOutcome.UNKNOWN),
        **{kind: len(by_kind[kind]) for kind in KINDS},
        read=sum(len(reads) for reads in history.reads.values()),
        gaps_ms=longest_gaps(history.sends.values()),
        findings=tuple(
            finding for found in by_kind.values() for finding in found[:FINDINGS_LISTED_MAX]
        ),
    )


def _judge_partition(
    sends: list[Sent], scans: dict[BrokerId, list[Scanned] | None], starts: dict[BrokerId, int]
) -> Iterator[tuple[str, str]]:
    """Yield the kind and the detail of each finding."""
    acked = [send for send in sends if send.outcome is SendOutcome.ACKED]
    by_value = {send.value: send for send in sends}
    reference: dict[int, Scanned] = {}
    for broker, scan in scans.items():
        if scan is None:
            if acked:
                yield "unscanned", f"no log of broker {broker} was read"
            continue
        offsets: dict[str, int] = {}
        for record in scan:
            first = reference.setdefault(record.offset, record)
            if _identity(first) != _identity(record):
                one = f"broker {first.broker} has {first.value} of epoch {first.leader_epoch}"
                other = f"{broker} has {record.value} of {record.leader_epoch}"
                yield "diverged", f"offset {record.offset}: {one}, {other}"
            if record.value in offsets:
                where = f"{offsets[record.value]} and {record.offset} on {broker}"
                yield "duplicated", f"{record.value} at {where}"
            offsets.setdefault(record.value, record.offset)
            send = by_value.get(record.value)
            if send is None or send.outcome is SendOutcome.FAILED:
                yield "phantom", f"{record.value} at {record.offset} on broker {broker}"
        kept = [send for send in acked if send.offset >= starts[broker]]
        yield from _judge_acked(kept, offsets, broker)


def _judge_acked(
    acked: list[Sent], offsets: dict[str, int], broker: BrokerId
) -> Iterator[tuple[str, str]]:
    highest: dict[str, tuple[int, str]] = {}
    for send in sorted(acked, key=lambda send: (send.producer, send.sequence)):
        offset = offsets.get(send.value)
        if offset is None:
            yield "lost", f"{send.value}, acknowledged at {send.offset}, is not on broker {broker}"
            continue
        if offset != send.offset:
            where = f"acknowledged at {send.offset}, lies at {offset} on {broker}"
            yield "moved", f"{send.value}: {where}"
        before = highest.get(send.producer)
        if before is not None and offset < before[0]:
            sent = f"was sent after {before[1]} at {before[0]}"
            yield "out_of_order", f"{send.value} at {offset} {sent}"
        highest[send.producer] = max(before or (offset, send.value), (offset, send.value))


def _judge_reads(partition: int, reads: list[Read], history: History) -> Iterator[str]:
    starts = (start for (scanned, _), start in history.starts.items() if scanned == partition)
    deleted_below = max(starts, default=0)
    logged = {
        (record.offset, record.value)
        for (scanned, _), records in history.scans.items()
        if scanned == partition
        for record in records
    }
    expected: int | None = None
    for read in reads:
        where = f"{read.consumer} got {read.value} at {read.offset}"
        if read.offset >= deleted_below and (read.offset, read.value) not in logged:
            yield f"{where}, which is in no log"
        elif expected is not None and not expected <= read.offset <= max(expected, deleted_below):
            yield f"{where}, where {expected} must follow"
        expected = read.offset + 1


def _identity(record: Scanned) -> tuple[object, ...]:
    return (record.value, record.leader_epoch, record.checksum)


def longest_gaps(sends: Iterable[Sent]) -> dict[int, float]:
    """Return the longest time in ms without an acknowledgement, per partition.

    The gaps are those from the first send to the first acknowledgement, between two
    acknowledgements, and from the last acknowledgement to the last send.
    """
    times: dict[int, list[float]] = defaultdict(list)
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for send in sends:
        partition = send.partition
        first[partition] = min(first.get(partition, send.sent_ms), send.sent_ms)
        last[partition] = max(last.get(partition, send.sent_ms), send.sent_ms)
        if send.outcome is SendOutcome.ACKED and send.ended_ms is not None:
            times[partition].append(send.ended_ms)
    gaps: dict[int, float] = {}
    for partition, start in sorted(first.items()):
        edges = [start, *sorted(times[partition])]
        edges.append(max(edges[-1], last[partition]))
        gaps[partition] = max(after - before for before, after in pairwise(edges))
    return gaps

"""The judge finds each kind of planted fault, and passes a clean history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline.dump_log.scanned import Scanned, scanned_line
from strandline.model import BrokerId, LeaderEpoch
from strandline_checker.history import (
    History,
    MalformedHistory,
    Read,
    SendOutcome,
    Sent,
    outcome_line,
    read_history,
    read_line,
    sent_line,
)
from strandline_checker.judge import HistoryVerdict, judge, longest_gaps

REPLICAS = {0: frozenset({BrokerId(0), BrokerId(1)})}


def clean(count: int = 6) -> History:
    history = History()
    for number in range(count):
        value = f"v{number}"
        history.sends[value] = Sent(
            producer="p",
            partition=0,
            sequence=number,
            value=value,
            sent_ms=number * 10.0,
            ended_ms=number * 10.0 + 3,
            outcome=SendOutcome.ACKED,
            offset=number,
        )
    for broker in (BrokerId(0), BrokerId(1)):
        history.scans[(0, broker)] = [
            Scanned(
                broker=broker,
                partition=0,
                offset=number,
                leader_epoch=LeaderEpoch(1),
                value=f"v{number}",
                checksum=number,
            )
            for number in range(count)
        ]
    return history


def verdict_on(history: History) -> HistoryVerdict:
    return judge(history, replicas=REPLICAS)


def counts(verdict: HistoryVerdict) -> dict[str, int]:
    kinds = ["lost", "duplicated", "out_of_order", "moved", "diverged", "phantom"]
    kinds += ["unscanned", "misread"]
    return {kind: getattr(verdict, kind) for kind in kinds if getattr(verdict, kind)}


def test_a_clean_history_keeps_the_promise() -> None:
    verdict = verdict_on(clean())
    assert counts(verdict) == {}
    assert verdict.is_valid
    assert (verdict.sent, verdict.acked) == (6, 6)


def test_an_acked_record_missing_on_one_replica_is_lost() -> None:
    history = clean()
    del history.scans[(0, BrokerId(1))][5]
    assert counts(verdict_on(history)) == {"lost": 1}


def test_a_record_of_unknown_outcome_may_be_there_or_not() -> None:
    history = clean()
    history.sends["v5"] = replace(history.sends["v5"], outcome=SendOutcome.UNKNOWN, offset=-1)
    assert verdict_on(history).is_valid
    for broker in (BrokerId(0), BrokerId(1)):
        del history.scans[(0, broker)][5]
    verdict = verdict_on(history)
    assert verdict.is_valid
    assert verdict.unknown == 1


def test_a_refused_record_in_the_log_is_a_phantom() -> None:
    history = clean()
    history.sends["v5"] = replace(history.sends["v5"], outcome=SendOutcome.FAILED, offset=-1)
    assert counts(verdict_on(history)) == {"phantom": 2}


def test_a_record_that_no_producer_sent_is_a_phantom() -> None:
    history = clean()
    del history.sends["v5"]
    assert counts(verdict_on(history)) == {"phantom": 2}


def test_a_value_at_two_offsets_is_a_duplicate() -> None:
    history = clean()
    for broker in (BrokerId(0), BrokerId(1)):
        scan = history.scans[(0, broker)]
        scan.append(replace(scan[2], offset=6))
    assert counts(verdict_on(history)) == {"duplicated": 2}


def test_a_record_at_another_offset_than_acknowledged_moved() -> None:
    history = clean()
    history.sends["v5"] = replace(history.sends["v5"], offset=9)
    assert counts(verdict_on(history)) == {"moved": 2}


def test_two_records_of_a_producer_in_the_wrong_order_are_found() -> None:
    history = clean()
    for value, offset in (("v3", 4), ("v4", 3)):
        history.sends[value] = replace(history.sends[value], offset=offset)
    for broker in (BrokerId(0), BrokerId(1)):
        scan = history.scans[(0, broker)]
        scan[3], scan[4] = replace(scan[4], offset=3), replace(scan[3], offset=4)
    assert counts(verdict_on(history)) == {"out_of_order": 2}


@pytest.mark.parametrize(
    "change", [{"value": "v0"}, {"leader_epoch": LeaderEpoch(2)}, {"checksum": 99}]
)
def test_replicas_that_differ_at_an_offset_diverged(change: dict[str, Any]) -> None:
    history = clean()
    scan = history.scans[(0, BrokerId(1))]
    scan[5] = replace(scan[5], **change)
    assert verdict_on(history).diverged == 1


def test_a_replica_without_a_scan_is_a_finding() -> None:
    history = clean()
    del history.scans[(0, BrokerId(1))]
    verdict = verdict_on(history)
    assert counts(verdict) == {"unscanned": 1}
    assert not verdict.is_valid


def test_the_longest_gap_counts_the_time_without_acknowledgement() -> None:
    history = clean()
    history.sends["v2"] = replace(history.sends["v2"], outcome=SendOutcome.UNKNOWN, ended_ms=None)
    assert longest_gaps(history.sends.values()) == {0: 20.0}


def test_a_history_reads_back_from_its_lines() -> None:
    history = clean()
    lines = [sent_line(send) for send in history.sends.values()]
    lines += [
        outcome_line(send.value, send.outcome, ended_ms=send.sent_ms + 3, offset=send.offset)
        for send in history.sends.values()
    ]
    lines += [scanned_line(record) for scan in history.scans.values() for record in scan]
    assert read_history(line + "\n" for line in lines) == history


def test_a_cut_last_line_is_taken_for_the_end_of_the_file() -> None:
    line = sent_line(clean().sends["v0"])
    assert len(read_history([line + "\n", line[:10]]).sends) == 1


@pytest.mark.parametrize(
    "lines",
    [
        ["not json\n"],
        ['["acked", "never sent", 1, 2]\n'],
        ['["lost in thought", "v", 1, 2]\n'],
        ['["sent", "p", 0, 0, "v", true]\n'],
        ['["sent", "p", 0, 0, "v", 1]\n', '["sent", "p", 0, 1, "v", 1]\n'],
        ['["sent", "p", 0, 0, "v", 1', '["sent", "p", 0, 1, "w", 1]\n'],
    ],
)
def test_a_malformed_line_is_named(lines: list[str]) -> None:
    with pytest.raises(MalformedHistory, match="line "):
        read_history(lines)


# --- reads --------------------------------------------------------------------------------


def reading(*found: tuple[int, str]) -> History:
    history = clean()
    history.reads[0, "c"] = [
        Read(consumer="c", partition=0, offset=offset, value=value) for offset, value in found
    ]
    return history


def test_a_consumer_may_stop_and_begin_anywhere_in_the_log() -> None:
    verdict = verdict_on(reading((2, "v2"), (3, "v3")))
    assert verdict.is_valid
    assert verdict.read == 2


@pytest.mark.parametrize(
    "found",
    [
        ((0, "v0"), (1, "v2")),  # another record than the log holds there
        ((5, "v5"), (6, "v6")),  # above the end of every log: it was never committed
        ((0, "v0"), (2, "v2")),  # one skipped
        ((1, "v1"), (1, "v1")),  # one read twice
    ],
)
def test_a_read_that_differs_from_the_log_is_found(found: tuple[tuple[int, str], ...]) -> None:
    verdict = verdict_on(reading(*found))
    assert counts(verdict) == {"misread": 1}
    assert not verdict.is_valid


def test_reads_come_back_from_the_file_with_their_partition() -> None:
    read = Read(consumer="c", partition=1, offset=0, value="v0")
    history = read_history([read_line(read) + "\n"])
    assert history.reads == {(1, "c"): [read]}
    mixed = clean()
    mixed.reads = history.reads
    assert counts(verdict_on(mixed)) == {"misread": 1}


def begun_at(offset: int, *brokers: int) -> History:
    """Return a clean history whose logs on these brokers begin later, at an offset."""
    history = clean()
    for broker in map(BrokerId, brokers):
        history.starts[(0, broker)] = offset
        kept = [each for each in history.scans[(0, broker)] if each.offset >= offset]
        history.scans[(0, broker)] = kept
    return history


def test_records_below_the_start_of_a_log_are_deleted_and_not_lost() -> None:
    assert counts(verdict_on(begun_at(4, 0, 1))) == {}
    assert counts(verdict_on(begun_at(6, 0, 1))) == {}


def test_a_record_below_the_start_of_one_log_may_not_lack_on_another() -> None:
    history = begun_at(4, 1)
    assert counts(verdict_on(history)) == {}
    del history.scans[(0, BrokerId(0))][2]
    assert counts(verdict_on(history)) == {"lost": 1}
    del history.scans[(0, BrokerId(1))][0]
    assert counts(verdict_on(history)) == {"lost": 2}


def test_a_consumer_may_have_read_what_is_deleted_and_go_on_at_the_log_start() -> None:
    history = begun_at(4, 0, 1)

    def read_of(*offsets: int) -> dict[str, int]:
        history.reads[(0, "c")] = [
            Read(consumer="c", partition=0, offset=offset, value=f"v{offset}") for offset in offsets
        ]
        return counts(verdict_on(history))

    assert read_of(0, 1, 4, 5) == {}
    assert read_of(0, 1, 5) == {"misread": 1}
    assert read_of(0, 1, 1) == {"misread": 1}

"""The newest part of a history: what is kept of it, and how it is judged against logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strandline.dump_log.scanned import Scanned, scanned_line, start_line
from strandline.model import BrokerId, LeaderEpoch
from strandline_checker.history import Read, SendOutcome, Sent, outcome_line, read_line, sent_line
from strandline_checker.judge import HistoryVerdict
from strandline_checker.newest import judge_newest
from strandline_cli.load_history import NewestHistory

REPLICAS = {0: frozenset({BrokerId(0), BrokerId(1)})}
OURS = "load1"


def value(sequence: int) -> str:
    return f"{OURS}-0-{sequence}"


def sent(sequence: int) -> str:
    each = Sent(
        producer=OURS, partition=0, sequence=sequence, value=value(sequence), sent_ms=sequence
    )
    return sent_line(each) + "\n"


def acked(sequence: int, offset: int) -> str:
    return outcome_line(value(sequence), SendOutcome.ACKED, ended_ms=1, offset=offset) + "\n"


def read(offset: int, text: str) -> str:
    return read_line(Read(consumer="r", partition=0, offset=offset, value=text)) + "\n"


def log(broker: int, records: dict[int, str], start: int | None = 0) -> list[str]:
    """Return the scan of a log; without a start it was cut there."""
    first = [] if start is None else [start_line(BrokerId(broker), 0, start) + "\n"]
    return first + [
        scanned_line(
            Scanned(
                broker=BrokerId(broker),
                partition=0,
                offset=offset,
                leader_epoch=LeaderEpoch(1),
                value=text,
                checksum=offset,
            )
        )
        + "\n"
        for offset, text in records.items()
    ]


def verdict(history: list[str], *logs: list[str]) -> HistoryVerdict:
    return judge_newest(history, [line for each in logs for line in each], REPLICAS)


# A history that begins in the middle: the sends of 0 and 1 were cut, and 5 is on its way.
CUT = [
    *(acked(0, 10), acked(1, 11)),
    *(sent(number) for number in (2, 3, 4)),
    *(acked(number, number + 10) for number in (2, 3, 4)),
    sent(5),
]
WHOLE_LOG = {number + 10: value(number) for number in range(6)}


# --- what is kept -------------------------------------------------------------------------


def test_the_newest_lines_are_kept_in_files_that_are_never_renamed(tmp_path: Path) -> None:
    history = NewestHistory(tmp_path / "h", lines=10)
    for number in range(23):
        history.write(f"{number}\n")
    history.close()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["h.000004", "h.000005"]
    kept = "".join(path.read_text() for path in sorted(tmp_path.iterdir()))
    assert kept.split() == [str(number) for number in range(15, 23)]


# --- how it is judged ---------------------------------------------------------------------


def test_a_cut_history_is_judged_from_its_first_acknowledgement_to_its_last() -> None:
    found = verdict(CUT, log(0, WHOLE_LOG), log(1, WHOLE_LOG))
    assert found.is_valid, found.findings
    assert (found.sent, found.acked, found.unknown) == (4, 3, 1)


def test_a_line_that_is_being_written_is_left_out() -> None:
    logs = (log(0, WHOLE_LOG), log(1, WHOLE_LOG))
    assert verdict([*CUT, '["acked", "loa'], *logs, ['["record", 1, 0, 2']).is_valid


@pytest.mark.parametrize("kind", ["lost", "moved", "diverged"])
def test_what_is_amiss_on_one_replica_is_found(kind: str) -> None:
    other = dict(WHOLE_LOG)
    if kind == "lost":
        del other[14]
    else:
        other[13], other[14] = other[14], other[13]
    found = verdict(CUT, log(0, WHOLE_LOG), log(1, other))
    assert getattr(found, kind) > 0, found


def test_a_replica_that_was_not_read_is_unscanned() -> None:
    assert verdict(CUT, log(0, WHOLE_LOG)).unscanned == 1


def test_a_log_that_was_cut_counts_from_where_it_begins() -> None:
    newest = {offset: text for offset, text in WHOLE_LOG.items() if offset >= 13}
    assert verdict(CUT, log(0, newest, start=None), log(1, newest, start=13)).is_valid
    assert verdict(CUT, log(0, newest, start=12), log(1, WHOLE_LOG)).lost == 1


def test_records_of_others_are_no_phantoms_but_must_be_the_same_everywhere() -> None:
    shared = {12: value(2), 13: "hello", 14: value(3), 15: "hello", 16: value(4)}
    history = [
        *(sent(number) for number in (2, 3, 4)),
        *(acked(2, 12), acked(3, 14), acked(4, 16)),
        *(read(offset, text) for offset, text in shared.items()),
    ]
    found = verdict(history, log(0, shared), log(1, shared))
    assert found.is_valid, found.findings
    assert (found.sent, found.read) == (3, 5)
    changed = [
        json.dumps([*json.loads(line)[:-1], 99]) + "\n" if '"hello"' in line else line
        for line in log(1, shared)
    ]
    assert verdict(history, log(0, shared), changed).diverged == 2


def test_a_record_of_ours_that_was_refused_is_a_phantom() -> None:
    refused = outcome_line(value(3), SendOutcome.FAILED, ended_ms=1) + "\n"
    history = [*(sent(n) for n in (2, 3, 4)), acked(2, 12), refused, acked(4, 14)]
    assert verdict(history, log(0, WHOLE_LOG), log(1, WHOLE_LOG)).phantom == 2

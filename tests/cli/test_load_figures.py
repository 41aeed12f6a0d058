"""What a load keeps of what it saw: gaps, latencies, a time line, and records that are compared."""

from __future__ import annotations

import json
import random

import pytest

from strandline_cli import load_figures
from strandline_cli.load_figures import (
    COLUMNS_MAX,
    POD_REPLACED,
    Figures,
    Latencies,
    LoadTimeline,
    ReadBack,
    records_sent_again,
)

WALL_MS = 1_800_000_000_000
STARTED_MS = 500.0
NEXT_MS = 77_000.0
"""The clock of the process after, when it begins."""


@pytest.fixture
def figures() -> Figures:
    return Figures(started_ms=STARTED_MS, started_wall_ms=WALL_MS)


def gap(figures: Figures, now_ms: float, partition: int = 0) -> tuple[int, int]:
    """Return the longest gap that a summary tells, and how long after the start it began."""
    found = figures.summary(now_ms)["gaps"][str(partition)]
    return found["ms"], found["from_ms"] - WALL_MS


# --- gaps ---------------------------------------------------------------------------------


def test_a_gap_is_told_with_the_time_at_which_it_began(figures: Figures) -> None:
    for sent_ms, acked_ms in ((600, 610), (700, 4_700), (4_800, 4_810)):
        figures.on_sent(0, sent_ms)
        figures.on_acked(0, sent_ms, acked_ms)
    assert gap(figures, 4_900) == (4_700 - 610, 610 - STARTED_MS)


def test_a_gap_begins_with_the_first_send_and_goes_on_while_a_send_waits(figures: Figures) -> None:
    figures.on_sent(0, 600)
    assert gap(figures, 900) == (300, 100)
    assert gap(figures, 2_600) == (2_000, 100)
    figures.on_acked(0, 600, 2_700)
    assert gap(figures, 9_000) == (2_100, 100)


def test_a_load_that_sends_nothing_more_has_no_gap(figures: Figures) -> None:
    figures.on_sent(0, 600)
    figures.on_acked(0, 600, 610)
    assert gap(figures, 60_000) == (10, 100)


def replaced(figures: Figures, after_ms: int) -> Figures:
    """Return the figures as another process goes on with them so long after the start."""
    state = json.loads(json.dumps(figures.state()))
    return Figures.going_on(state, now_ms=NEXT_MS, wall_ms=WALL_MS + after_ms)


def test_figures_go_on_in_another_process_whose_clock_is_another(figures: Figures) -> None:
    for sent_ms, acked_ms in ((600, 610), (700, 4_700)):
        figures.on_sent(0, sent_ms)
        figures.on_acked(0, sent_ms, acked_ms)
    figures.on_retries(7)
    before = figures.summary(5_500)
    after = replaced(figures, 60_000)
    assert after.summary(NEXT_MS)["gaps"] == before["gaps"]
    after.on_sent(0, NEXT_MS + 10)
    after.on_acked(0, NEXT_MS + 10, NEXT_MS + 20)
    after.on_retries(2)
    now = after.summary(NEXT_MS + 1_000)
    assert (now["sent"], now["outstanding"], now["retried"]) == (3, 0, 9)
    assert now["started_wall_ms"] == before["started_wall_ms"]
    assert now["seconds"] == 61.0
    assert now["latency_ms"]["max"] == 4_000
    acked = now["timeline"]["acked"]
    assert (sum(acked), acked[60], len(acked)) == (3, 1, 62)


def test_the_time_between_two_processes_is_no_gap(figures: Figures) -> None:
    figures.on_sent(0, 600)
    figures.on_acked(0, 600, 610)
    after = replaced(figures, 60_000)
    after.on_sent(0, NEXT_MS + 10)
    after.on_acked(0, NEXT_MS + 10, NEXT_MS + 60)
    assert gap(after, NEXT_MS + 70) == (50, 60_010)


def test_what_waited_when_a_process_ended_has_no_outcome(figures: Figures) -> None:
    for _ in range(3):
        figures.on_sent(0, 600)
    figures.on_acked(0, 600, 610)
    twice = replaced(replaced(figures, 1_000), 2_000).summary(NEXT_MS)
    assert (twice["sent"], twice["outstanding"]) == (3, 0)
    assert twice["errors"] == {POD_REPLACED: 2}


def test_partitions_have_gaps_of_their_own(figures: Figures) -> None:
    for partition in (0, 1):
        figures.on_sent(partition, 600)
    figures.on_acked(1, 600, 650)
    assert (gap(figures, 1_600, 0)[0], gap(figures, 1_600, 1)[0]) == (1_000, 50)


def test_a_send_that_failed_waits_no_more_and_its_error_is_counted(figures: Figures) -> None:
    figures.on_sent(0, 600)
    figures.on_not_acked(0, "_MSG_TIMED_OUT")
    summary = figures.summary(9_000)
    assert (summary["outstanding"], summary["errors"]) == (0, {"_MSG_TIMED_OUT": 1})


# --- latencies and time line --------------------------------------------------------------


def test_a_percentile_is_exact_to_a_twentieth() -> None:
    drawn = random.Random(7)
    times = sorted(drawn.lognormvariate(2, 1.5) for _ in range(20_000))
    latencies = Latencies()
    for each in times:
        latencies.add(each)
    for share in (0.5, 0.9, 0.99, 0.999):
        exact = times[int(share * len(times)) - 1]
        assert exact <= latencies.percentile(share) <= exact * 1.06
    assert latencies.percentile(1) == latencies.longest_ms == times[-1]
    assert Latencies().percentile(0.5) == 0


def test_a_time_line_of_any_length_has_a_bounded_number_of_columns_and_loses_no_count() -> None:
    timeline = LoadTimeline()
    for second in range(100_000):
        timeline.add(second * 1_000, 3)
    assert len(timeline.acked) <= COLUMNS_MAX
    assert sum(timeline.acked) == 300_000
    assert len(timeline.acked) * timeline.width_ms >= 100_000_000


# --- records read back --------------------------------------------------------------------


@pytest.fixture
def read_back() -> ReadBack:
    return ReadBack(name="load1-", next_offset={0: 10})


def never() -> int:
    raise AssertionError("no offset was skipped")


def test_a_record_may_be_read_before_or_after_its_acknowledgement(read_back: ReadBack) -> None:
    read_back.on_ack(0, 10, "load1-a")
    read_back.on_read(0, 10, "load1-a", never)
    read_back.on_read(0, 11, "load1-b", never)
    read_back.on_ack(0, 11, "load1-b")
    assert (read_back.checked, read_back.not_there) == (2, 0)


def test_another_record_at_an_acknowledged_offset_is_told(read_back: ReadBack) -> None:
    read_back.on_ack(0, 10, "load1-a")
    read_back.on_read(0, 10, "load1-b", never)
    read_back.on_read(0, 11, "somebody's", never)
    read_back.on_ack(0, 11, "load1-c")
    assert (read_back.checked, read_back.not_there) == (0, 2)
    assert read_back.examples == [
        "partition 0, offset 10: load1-b, not load1-a",
        "partition 0, offset 11: nothing of ours, not load1-c",
    ]


def test_acknowledged_offsets_that_are_skipped_are_not_there_unless_they_were_deleted(
    read_back: ReadBack,
) -> None:
    for offset in (10, 11, 12):
        read_back.on_ack(0, offset, f"load1-{offset}")
    read_back.on_read(0, 13, "load1-13", lambda: 12)
    assert (read_back.deleted, read_back.not_there) == (2, 1)


def test_a_record_that_is_read_again_is_counted_and_not_compared(read_back: ReadBack) -> None:
    read_back.on_read(0, 10, "load1-a", never)
    read_back.on_read(0, 10, "load1-b", never)
    assert (read_back.again, read_back.not_there) == (1, 0)


def test_what_waits_too_long_is_counted_and_never_called_lost(
    read_back: ReadBack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_figures, "WAITING_MAX", 2)
    for offset in (10, 11, 12):
        read_back.on_ack(0, offset, f"load1-{offset}")
    assert read_back.unchecked == 1
    for offset in (10, 11, 12, 13, 14, 15, 16):
        read_back.on_read(0, offset, f"load1-{offset}", never)
    for offset in (13, 14, 15, 16):
        read_back.on_ack(0, offset, f"load1-{offset}")
    assert read_back.not_there == 0
    assert read_back.unchecked == 3
    assert read_back.checked == 4


def test_what_waits_is_bounded_for_all_partitions_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_figures, "WAITING_MAX", 10)
    read_back = ReadBack(name="load1-", next_offset=dict.fromkeys(range(5), 0))
    for partition in range(5):
        for offset in range(3):
            read_back.on_ack(partition, offset, "load1-a")
    assert read_back.unchecked == 5


@pytest.mark.parametrize(
    ("partitions", "again"),
    [
        ({"0": (10, 10), "1": (10, 12)}, 2),
        ({"-1": (30, 0), "0": (30, 35)}, 5),
        ({"0": (20, 15)}, -5),
        ({}, 0),
    ],
    ids=["sent twice", "waited for metadata", "waits to be sent", "no partition"],
)
def test_records_sent_again_are_those_transmitted_beyond_their_first_time(
    partitions: dict[str, tuple[int, int]], again: int
) -> None:
    counted = {
        number: {"msgs": msgs, "txmsgs": sent} for number, (msgs, sent) in partitions.items()
    }
    assert records_sent_again({"topics": {"orders": {"partitions": counted}}}) == again

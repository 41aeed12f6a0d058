"""The tables of the analyses against known histories, within the errors that the tables state."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from strandline import names
from strandline_analysis import catalogue
from strandline_analysis.catalogue import Table
from strandline_analysis.remote_read import Series
from tests.analysis.timeline import INTERVAL_MS, PartitionTimeline, bits_of, scraped
from tests.analysis.xor_encoder import encode

pytestmark = pytest.mark.processes

Row = dict[str, Any]
LENGTH_MS = 60_000
RUNS_GAP_MS = 2500
HISTORIES = 60


class Tables:
    """Runs an analysis over series that a test made."""

    def __init__(self, spark: Any, start_ms: int, length: int = LENGTH_MS) -> None:
        self._spark = spark
        self.start_ms = start_ms
        self.end_ms = start_ms + length

    def samples(self, series: Sequence[Series], *, gap_ms: float) -> Any:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        from strandline_analysis import columns, schema

        samples = columns.decoded(series, start_ms=self.start_ms, end_ms=self.end_ms)
        rows = columns.runs(samples, gap_ms=gap_ms)
        batch = columns.record_batch(rows, to_arrow_schema(schema.SAMPLES, timezone="UTC"))
        return self._spark.createDataFrame(pa.Table.from_batches([batch]), schema.SAMPLES)

    def isr(self, series: Sequence[Series], *, gap_ms: float = RUNS_GAP_MS) -> list[Row]:
        from strandline_analysis.tables.isr_intervals import isr_intervals

        return self._run(isr_intervals, catalogue.ISR_INTERVALS, series, gap_ms)

    def elections(self, series: Sequence[Series], *, gap_ms: float = RUNS_GAP_MS) -> list[Row]:
        from strandline_analysis.tables.elections import elections

        return self._run(elections, catalogue.ELECTIONS, series, gap_ms)

    def _run(
        self, analysis: Any, table: Table, series: Sequence[Series], gap_ms: float
    ) -> list[Row]:
        from strandline_analysis.schema import struct

        frame = analysis(
            self.samples(series, gap_ms=gap_ms),
            interval_ms=INTERVAL_MS,
            start_ms=self.start_ms,
            end_ms=self.end_ms,
        )
        assert frame.schema.fieldNames() == list(table.names)
        assert [f.dataType for f in frame.schema] == [f.dataType for f in struct(table)]
        rows: list[Row] = frame.toArrow().to_pylist()
        times = "start_ms" if "start_ms" in table.names else "t_first_new_ms"
        return sorted(rows, key=lambda row: (row["partition"], row.get("replica", 0), row[times]))


def history(partition: int) -> PartitionTimeline:
    """Return the history of a partition, one case for each number."""
    timeline = PartitionTimeline(partition=partition)
    match partition:
        case 101:  # SHRINK_EXPAND
            timeline.change_isr(10_450, {0, 1})
            timeline.change_isr(25_100, {0, 1, 2})
        case 102:  # TWO_AT_ONCE
            timeline.change_isr(10_200, {0, 1})
            timeline.change_isr(10_700, {0})
        case 104:  # STALE
            timeline.hide(19_500, 0)
            timeline.show(30_500, 0)
        case 105:  # KILLED
            timeline.kill(20_400, 0)
            timeline.elect(20_800, 1, {1, 2})
        case 106:  # MOVED
            timeline.elect(20_800, 1, {0, 1, 2})
        case 107:  # UNCLEAN
            timeline.change_isr(5_500, {0, 1})
            timeline.kill(20_400, 0)
            timeline.elect(24_800, 2, {2})
        case 108:  # UNSEEN
            timeline.kill(20_400, 0)
            timeline.elect(20_450, 1, {1, 2})
            timeline.elect(20_500, 2, {1, 2})
        case 109:  # ZOMBIE
            timeline.elect(10_000, 1, {1, 2})
        case 110:  # LATE
            timeline.hide(0, 1)
            timeline.elect(20_800, 1, {1, 2})
            timeline.show(25_000, 1)
            timeline.change_isr(40_100, {0, 1, 2})
        case _:  # GAP: only scrapes are lost
            pass
    return timeline


SHRINK_EXPAND, TWO_AT_ONCE, GAP, STALE, KILLED, MOVED, UNCLEAN, UNSEEN = range(101, 109)
ZOMBIE, LATE = 109, 110
LOST = frozenset({(0, 5), *((0, number) for number in range(20, 26))})
"""Lost scrapes of partition GAP as (broker, scrape): one, and later six in a row."""
START_MS = PartitionTimeline().start_ms


def series_of(partition: int) -> list[Series]:
    """Return the series that scrapes of one partition give."""
    found = scraped(
        history(partition), length=LENGTH_MS, lost=LOST if partition == GAP else frozenset()
    )
    if partition == ZOMBIE:
        # The old leader still exports itself as leader.
        found = [each for each in found if each.labels["pod"] != "default-0"]
        untouched = scraped(PartitionTimeline(partition=partition), length=30_000)
        found += [each for each in untouched if each.labels["pod"] == "default-0"]
    return found


@pytest.fixture(scope="module")
def histories() -> list[PartitionTimeline]:
    return [random_history(seed) for seed in range(HISTORIES)]


@pytest.fixture(scope="module")
def series(histories: list[PartitionTimeline]) -> list[Series]:
    """Return the series of all partitions in one value, because each query takes seconds."""
    named = [each for number in range(SHRINK_EXPAND, LATE + 1) for each in series_of(number)]
    return named + [each for one in histories for each in scraped(one, length=LENGTH_MS)]


@pytest.fixture(scope="module")
def tables(spark: Any) -> Tables:
    return Tables(spark, START_MS)


@pytest.fixture(scope="module")
def intervals(tables: Tables, series: list[Series]) -> list[Row]:
    return tables.isr(series)


@pytest.fixture(scope="module")
def elections(tables: Tables, series: list[Series]) -> list[Row]:
    return tables.elections(series)


def replica_of(rows: list[Row], partition: int, replica: int) -> list[tuple[Any, ...]]:
    """Return (state, start and end after the range's start, reasons) of one replica."""
    return [
        (
            row["in_isr"],
            row["start_ms"] - START_MS,
            row["end_ms"] - START_MS,
            row["start_reason"],
            row["end_reason"],
        )
        for row in rows
        if (row["partition"], row["replica"]) == (partition, replica)
    ]


def only(rows: list[Row], partition: int) -> Row:
    """Return the one row of a partition."""
    (row,) = [row for row in rows if row["partition"] == partition]
    return row


def test_a_shrink_and_an_expand_are_found_exactly(intervals: list[Row]) -> None:
    assert replica_of(intervals, SHRINK_EXPAND, 2) == [
        (True, 0, 10_450, "range", "change"),
        (False, 10_450, 25_100, "change", "change"),
        (True, 25_100, LENGTH_MS, "change", "range"),
    ]
    out = next(
        row for row in intervals if row["partition"] == SHRINK_EXPAND and row["in_isr"] is False
    )
    assert (out["start_err_ms"], out["end_err_ms"], out["sample_count"]) == (0, 0, 15)
    assert replica_of(intervals, SHRINK_EXPAND, 0) == [(True, 0, LENGTH_MS, "range", "range")]


def test_two_changes_between_scrapes_are_found_within_an_interval(intervals: list[Row]) -> None:
    left = [r for r in intervals if r["partition"] == TWO_AT_ONCE and r["in_isr"] is False]
    assert [(r["replica"], r["start_ms"] - START_MS, r["start_err_ms"]) for r in left] == [
        (1, 11_000, INTERVAL_MS),
        (2, 11_000, INTERVAL_MS),
    ]


def test_state_is_unknown_in_a_gap_and_one_lost_scrape_is_none(intervals: list[Row]) -> None:
    assert replica_of(intervals, GAP, 1) == [
        (True, 0, 20_000, "range", "gap"),
        (None, 20_000, 26_000, "gap", "gap"),
        (True, 26_000, LENGTH_MS, "gap", "range"),
    ]


def test_state_is_unknown_after_a_stale_marker(intervals: list[Row]) -> None:
    assert replica_of(intervals, STALE, 1) == [
        (True, 0, 20_000, "range", "stale"),
        (None, 20_000, 31_000, "stale", "stale"),
        (True, 31_000, LENGTH_MS, "stale", "range"),
    ]


def test_an_interval_goes_on_across_a_change_of_leader(
    intervals: list[Row], elections: list[Row]
) -> None:
    assert replica_of(intervals, KILLED, 2) == [(True, 0, LENGTH_MS, "range", "range")]
    assert replica_of(intervals, KILLED, 0) == [
        (True, 0, 20_800, "range", "leader_change"),
        (False, 20_800, LENGTH_MS, "leader_change", "range"),
    ]
    assert only(elections, KILLED) == {
        "topic": "orders",
        "partition": KILLED,
        "epoch": 2,
        "old_leader": 0,
        "new_leader": 1,
        "t_last_old_ms": START_MS + 20_000,
        "t_first_new_ms": START_MS + 20_800,
        "t_first_new_err_ms": 0,
        "no_leader_low_ms": 0,
        "no_leader_high_ms": 800,
        "kind": "broker_failure",
        "cause": "stale",
        "observed": True,
    }


def test_the_first_scrape_of_a_new_leader_ends_a_gap_if_it_comes_late(
    intervals: list[Row],
) -> None:
    assert replica_of(intervals, LATE, 0) == [
        (True, 0, 21_000, "range", "stale"),
        (None, 21_000, 25_300, "stale", "gap"),
        (False, 25_300, 40_100, "gap", "change"),
        (True, 40_100, LENGTH_MS, "change", "range"),
    ]


def test_a_moved_leader_that_lives_on_was_controlled(elections: list[Row]) -> None:
    election = only(elections, MOVED)
    assert (election["kind"], election["cause"]) == ("controlled", "alive")
    assert election["no_leader_low_ms"] == 0


def test_a_leader_from_outside_the_isr_was_unclean(elections: list[Row]) -> None:
    election = only(elections, UNCLEAN)
    assert election["kind"] == "unclean"
    assert (election["no_leader_low_ms"], election["no_leader_high_ms"]) == (3_800, 4_800)


def test_an_epoch_without_an_observed_leader_is_an_election_all_the_same(
    elections: list[Row],
) -> None:
    seen = {row["epoch"]: row for row in elections if row["partition"] == UNSEEN}
    assert seen.keys() == {2, 3}
    assert [seen[2][key] for key in ("observed", "old_leader", "new_leader")] == [False, 0, None]
    assert [seen[3][key] for key in ("observed", "old_leader", "new_leader")] == [True, None, 2]
    assert seen[2]["kind"] is None
    assert seen[3]["no_leader_low_ms"] == 0


def test_metrics_of_a_zombie_leader_are_not_counted(
    intervals: list[Row], elections: list[Row]
) -> None:
    assert replica_of(intervals, ZOMBIE, 0) == [
        (True, 0, 10_000, "range", "leader_change"),
        (False, 10_000, LENGTH_MS, "leader_change", "range"),
    ]
    # It may have been cut off from the others since any of its scrapes before.
    election = only(elections, ZOMBIE)
    assert (election["no_leader_low_ms"], election["no_leader_high_ms"]) == (0, 2_500)


def test_no_series_gives_no_rows(tables: Tables) -> None:
    assert tables.isr([]) == []
    assert tables.elections([]) == []


def counted(kind: str, at: int) -> Series:
    """Return the controller's counter of one kind of election, which rises after a moment."""
    labels = {
        "__name__": names.LEADER_ELECTIONS_TOTAL.name,
        "pod": "default-2",
        "instance": "10.0.0.2:8080",
        "kind": kind,
    }
    samples = [(START_MS + t, bits_of(float(t > at))) for t in range(700, 60_000, 1000)]
    return Series(labels, [encode(samples)])


def test_the_controllers_counter_tells_the_kind(tables: Tables) -> None:
    series = []
    for partition, kind in enumerate(("controlled_shutdown", "offline", "unclean", "new")):
        at = 10_400 + 10_000 * partition
        timeline = PartitionTimeline(partition=partition)
        timeline.kill(at, 0)
        timeline.elect(at + 400, 1, {1, 2})
        series += [*scraped(timeline, length=LENGTH_MS), counted(kind, at + 400)]
    assert [row["kind"] for row in tables.elections(series)] == [
        "controlled",
        "broker_failure",
        "unclean",
        "broker_failure",
    ]


def test_a_preferred_leader_of_another_partition_does_not_hide_why_a_broker_went(
    tables: Tables,
) -> None:
    timeline = PartitionTimeline()
    timeline.kill(10_400, 0)
    timeline.elect(10_800, 1, {1, 2})
    both = [counted(kind, 10_800) for kind in ("controlled_shutdown", "preferred")]
    (row,) = tables.elections([*scraped(timeline, length=LENGTH_MS), *both])
    assert (row["cause"], row["kind"]) == ("stale", "controlled")


def random_history(seed: int) -> PartitionTimeline:
    """Return a minute of kills, elections, shrinks, expands and failing scrapes."""
    chance = random.Random(seed)
    history = PartitionTimeline(partition=seed)
    at = 0
    while (at := at + chance.randrange(20, 9_000)) < LENGTH_MS - 1000:
        now = history.now
        live = [broker for broker in range(3) if broker not in now.dead]
        match chance.choice(["kill", "revive", "move", "shrink", "expand", "hide", "show"]):
            case "kill" if len(live) > 1:
                broker = chance.choice(live)
                history.kill(at, broker)
                if broker == now.leader:
                    at += chance.randrange(50, 4_000)
                    leader = chance.choice([other for other in live if other != broker])
                    history.elect(at, leader, set(now.isr) - {broker} | {leader})
            case "revive" if now.dead:
                history.revive(at, min(now.dead))
            case "move":
                leader = chance.choice(live)
                history.elect(at, leader, set(now.isr) | {leader})
            case "shrink" if len(now.isr) > 1:
                leaver = chance.choice(sorted(now.isr - {now.leader}))
                history.change_isr(at, set(now.isr - {leaver}))
            case "expand":
                history.change_isr(at, set(now.isr) | set(live))
            case "hide":
                history.hide(at, chance.choice(live))
            case "show" if now.unscraped:
                history.show(at, min(now.unscraped))
    return history


def test_isr_intervals_of_random_histories_are_true_within_their_bounds(
    histories: list[PartitionTimeline], intervals: list[Row]
) -> None:
    known = total = 0
    by_replica: dict[tuple[int, int], list[Row]] = {}
    for row in intervals:
        if row["partition"] < HISTORIES:
            by_replica.setdefault((row["partition"], row["replica"]), []).append(row)
    assert len(by_replica) == 3 * HISTORIES
    for (partition, replica), rows in by_replica.items():
        assert rows[0]["start_ms"] == START_MS
        assert rows[-1]["end_ms"] == START_MS + LENGTH_MS
        for before, after in itertools.pairwise(rows):
            assert before["end_ms"] == after["start_ms"]
            assert before["in_isr"] != after["in_isr"]
        for row in rows:
            total += row["end_ms"] - row["start_ms"]
            if row["in_isr"] is None:
                continue
            known += row["end_ms"] - row["start_ms"]
            offences = [
                state.at_ms - START_MS
                for state in sure_states(histories[partition], row)
                if (replica in state.isr) != row["in_isr"]
            ]
            assert not offences, (partition, row, offences)
    assert known > 0.6 * total


def sure_states(history: PartitionTimeline, row: Row) -> list[Any]:
    """Return the states longer than a scrape interval, within the time that a row is sure of."""
    first, end = row["start_ms"], row["end_ms"] - row["end_err_ms"]
    ends = [*(state.at_ms for state in history.states[1:]), row["end_ms"]]
    return [
        state
        for state, until in zip(history.states, ends, strict=True)
        if min(until, end) - max(state.at_ms, first) > INTERVAL_MS
    ]


def test_elections_of_random_histories_are_true_within_their_bounds(
    histories: list[PartitionTimeline], elections: list[Row]
) -> None:
    found = 0
    for one in histories:
        leaders = {state.epoch: state for state in reversed(one.states)}
        of_partition = [row for row in elections if row["partition"] == one.partition]
        epochs = [row["epoch"] for row in of_partition]
        assert len(set(epochs)) == len(epochs)
        assert set(epochs) <= leaders.keys() - {1}
        for row in of_partition:
            if not row["observed"]:
                continue
            found += 1
            truth = leaders[row["epoch"]]
            before = leaders[row["epoch"] - 1]
            assert row["new_leader"] == truth.leader
            assert row["old_leader"] in {before.leader, None}
            begun = row["t_first_new_ms"]
            assert begun - row["t_first_new_err_ms"] <= truth.since_ms <= begun
            lost_ms = one.deaths.get(row["epoch"] - 1, truth.since_ms)
            if row["old_leader"] is not None:
                gap = truth.since_ms - lost_ms
                assert gap <= row["no_leader_high_ms"], row
                # A leader whose scrapes fail counts as dead, even if it lives.
                hidden = any(
                    before.leader in state.unscraped
                    for state in one.between(row["t_last_old_ms"], truth.since_ms)
                )
                assert hidden or row["no_leader_low_ms"] <= gap, row
    assert found > HISTORIES


def test_runs_and_the_samples_they_were_made_of_give_the_same_tables(
    tables: Tables, series: list[Series], intervals: list[Row], elections: list[Row]
) -> None:
    def few(row: Row) -> bool:
        return int(row["partition"]) < 5

    samples = [each for each in series if int(each.labels["partition"]) < 5]
    assert tables.isr(samples, gap_ms=0) == list(filter(few, intervals))
    assert tables.elections(samples, gap_ms=0) == list(filter(few, elections))

"""What lost scrapes may change in a table, and what never, for every table.

The tables are those of the plain references, which are a second where Spark takes minutes, and
equal Spark's over histories of the same kind (`test_agreement.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import pytest

from bench.histories import scores
from strandline_analysis import catalogue
from tests.analysis.agreement import Row, given_of, over
from tests.analysis.drawn_controllers import drawn_controllers
from tests.analysis.generated import History
from tests.analysis.lost_scrapes import NEAR_INTERVALS, Moment, without_some
from tests.analysis.reference import (
    churn,
    coverage,
    elections,
    incidents,
    isr_intervals,
    isr_sizes,
    risk,
    slo,
    throughput,
    watermarks,
    whatif,
)
from tests.analysis.reference.controllers import controller_elections
from tests.analysis.reference.holding import Range

SEED = 1_000
HISTORIES = 16
PARTITION = ("topic", "partition")
STALL_MS = 2_000
CONTROLLERS_MS = 300_000
Reference = Callable[[History, Range], Iterable[Row]]
SAME: dict[str, Reference] = {
    "coverage": coverage.coverage,
    "restarts": coverage.restarts,
    "elections": elections.elections,
    "zombie_leaders": elections.zombie_leaders,
}
"""Tables of leaders, processes and silence, of which nothing is lost: a lost scrape is no gap."""
STATES: dict[str, tuple[Reference, tuple[str, ...], str]] = {
    "isr_intervals": (isr_intervals.isr_intervals, (*PARTITION, "replica"), "in_isr"),
    "isr_size_intervals": (isr_sizes.isr_size_intervals, PARTITION, "isr_size"),
}
EPISODES = ("ur_episodes", "umi_episodes", "at_min_isr")
FALLS: dict[str, tuple[Reference, tuple[str, ...], Callable[[Row], int]]] = {
    "truncations": (
        throughput.truncations,
        (*PARTITION, "broker"),
        lambda row: int(row["records_low"]),
    ),
    "hw_regressions": (
        watermarks.hw_regressions,
        PARTITION,
        lambda row: int(row["hw_from"] - row["hw_to"]),
    ),
}
LAGS: dict[str, tuple[Reference, tuple[str, ...]]] = {
    "hw_lag": (watermarks.hw_lag, (*PARTITION, "minute_ms")),
    "follower_lag": (watermarks.follower_lag, (*PARTITION, "replica", "minute_ms")),
}
COUNTS: dict[str, tuple[Reference, tuple[str, ...], tuple[str, ...]]] = {
    "replication_throughput": (
        throughput.replication_throughput,
        ("broker", "topic", "flow"),
        ("bytes", "records"),
    ),
    "missed_edges": (
        churn.missed_edges,
        (*PARTITION, "broker"),
        ("seen_shrinks", "counted_shrinks", "seen_expands", "counted_expands"),
    ),
    "flapping": (churn.flapping, (*PARTITION, "replica"), ("cycles",)),
}


@cache
def pairs() -> list[tuple[History, History, set[Moment]]]:
    """Return drawn histories, what is left of each, and which scrapes that lacks."""
    drawn = given_of(SEED, histories=HISTORIES)
    found = [
        (whole, *without_some(whole, drawn.of, seed=number))
        for number, whole in enumerate(drawn.histories)
    ]
    assert sum(len(lost) for _, _, lost in found) > 100
    return found


def sides(
    some: Sequence[tuple[History, History, set[Moment]]],
) -> tuple[list[History], list[History]]:
    """Return the histories with all scrapes, and with those that are left."""
    return [whole for whole, _, _ in some], [left for _, left, _ in some]


def over_all() -> Range:
    return given_of(SEED, histories=HISTORIES).of


def both(
    reference: Callable[..., Iterable[Row]], **asked: Any
) -> list[tuple[list[Row], list[Row]]]:
    """Return by history the rows of a table with all scrapes, and with those that are left."""
    of = over_all()
    made = [
        (list(reference(whole, of, **asked)), list(reference(left, of, **asked)))
        for whole, left, _ in pairs()
    ]
    assert any(rows for rows, _ in made)
    return made


def test_every_table_has_a_statement() -> None:
    by_itself = {
        *("hw_stalls", "isr_churn", "failover_quantiles", "controller_elections", "data_at_risk"),
        *("incidents", "incident_curves", "lagtime_whatif", "slo"),
    }
    stated = {*SAME, *STATES, *EPISODES, *FALLS, *LAGS, *COUNTS, *by_itself}
    assert stated == set(catalogue.TABLES)


@pytest.mark.parametrize("name", SAME)
def test_who_led_or_was_silent_stays_the_same_to_the_millisecond(name: str) -> None:
    for whole, left in both(SAME[name]):
        assert left == whole


def test_failovers_and_controllers_stay_the_same_to_the_millisecond() -> None:
    of = over_all()
    whole, left = sides(pairs())
    found = list(elections.failover_quantiles(left, of))
    assert found == list(elections.failover_quantiles(whole, of))
    of = over(CONTROLLERS_MS)
    drawn = drawn_controllers(SEED, length=CONTROLLERS_MS)
    fewer, lost = without_some(drawn, of, seed=SEED)
    assert len(lost) > 20
    assert list(controller_elections(fewer, of)) == list(controller_elections(drawn, of))


@pytest.mark.parametrize("name", STATES)
def test_states_that_two_scrapes_saw_stay_and_knowledge_does(name: str) -> None:
    reference, key, value = STATES[name]
    for whole, left in both(reference):
        seen = [row for row in known(whole, value) if lasts(row)]
        score = scores.states(
            known(left, value), seen, key=key, value=value, interval_ms=over_all().interval_ms
        )
        # It says nothing else, but within the errors that it states.
        assert score.wrong_ms == 0
        assert sum(map(length, known(left, value))) == sum(map(length, known(whole, value)))


def known(rows: Sequence[Row], value: str) -> list[Row]:
    return [row for row in rows if row[value] is not None]


def length(row: Row) -> int:
    return int(row["end_ms"] - row["start_ms"])


def lasts(row: Row) -> bool:
    """Tell whether a state lasted so long that a scrape that is left must show it."""
    return length(row) >= NEAR_INTERVALS * over_all().interval_ms


@pytest.mark.parametrize("name", EPISODES)
def test_no_episode_begins_in_a_time_that_two_scrapes_saw_to_be_good(name: str) -> None:
    reference = partial(isr_sizes.episodes, table=name, merge_gap_ms=0)
    sizes = both(isr_sizes.isr_size_intervals)
    for (_, left), (whole, _) in zip(both(reference), sizes, strict=True):
        for good in whole:
            told = (good["isr_size"], good["replicas"], good["min_isr"])
            if isr_sizes.is_bad(name, told) is False and lasts(good):
                assert not [row for row in left if within(row, good)]


def within(row: Row, other: Row) -> bool:
    """Tell whether two times overlap by more than the first one's error."""
    until = min(row["end_ms"] - row["end_err_ms"], other["end_ms"])
    return bool(until > max(row["start_ms"], other["start_ms"]))


@pytest.mark.parametrize("name", FALLS)
def test_a_fall_is_one_that_was_there_and_no_deeper(name: str) -> None:
    reference, key, depth = FALLS[name]
    for whole, left in both(reference):
        for row in left:
            parts = [
                other
                for other in whole
                if all(other[column] == row[column] for column in key)
                and row["at_ms"] - row["at_err_ms"] < other["at_ms"] <= row["at_ms"]
            ]
            assert parts
            assert depth(row) <= sum(map(depth, parts))


@pytest.mark.parametrize("name", LAGS)
def test_a_lag_is_no_greater_and_of_fewer_samples(name: str) -> None:
    reference, key = LAGS[name]
    for (whole, left), (_, _, lost) in zip(both(reference), pairs(), strict=True):
        before = {tuple(row[column] for column in key): row for row in whole}
        for row in left:
            other = before[tuple(row[column] for column in key)]
            assert row["lag_max"] <= other["lag_max"]
            assert (row.get("behind_max_ms") or 0) <= (other.get("behind_max_ms") or 0)
            fewer = other["sample_count"] - row["sample_count"]
            assert 0 <= fewer <= len(lost)


@pytest.mark.parametrize("name", COUNTS)
def test_what_is_counted_never_grows(name: str) -> None:
    reference, key, counted = COUNTS[name]
    for whole, left in both(reference):
        before, now = (summed(rows, key, counted) for rows in (whole, left))
        assert all(now[each] <= before[each] for each in now)


def summed(
    rows: Iterable[Row], key: Sequence[str], counted: Sequence[str]
) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        for name in counted:
            found[(*(row[column] for column in key), name)] += row[name] or 0
    return found


def test_no_leader_sees_more_changes_of_isrs() -> None:
    of = over_all()
    whole, left = (list(churn.isr_churn(given, of)) for given in sides(pairs()))
    # A change that is seen later may be in another window, or be seen by another leader.
    for key, counted in (
        (("broker",), ("shrinks", "expands")),
        ((), ("observed_shrinks", "observed_expands")),
    ):
        before, now = (summed(rows, key, counted) for rows in (whole, left))
        assert before
        assert all(now[each] <= before[each] for each in now)


def test_a_stall_whose_first_and_last_scrape_are_left_is_still_one() -> None:
    stalls = both(partial(watermarks.hw_stalls, stall_ms=STALL_MS))
    for (whole, left), (_, _, lost) in zip(stalls, pairs(), strict=True):
        moments = {at for _, at in lost}
        for row in whole:
            first, last = seen = row["start_ms"], row["start_ms"] + row["duration_low_ms"]
            if moments & set(seen) or row["leo_end"] <= row["leo_start"]:
                continue
            assert [
                other
                for other in left
                if other["hw"] == row["hw"]
                and other["start_ms"] <= first
                and last <= other["start_ms"] + other["duration_low_ms"]
            ]


def test_data_at_risk_was_and_its_bounds_agree() -> None:
    sizes = both(isr_sizes.isr_size_intervals)
    for (before, left), (whole, _) in zip(both(risk.data_at_risk), sizes, strict=True):
        for row in left:
            assert not [
                size
                for size in whole
                if (size["isr_size"] or 0) > 1 and lasts(size) and within(row, size)
            ]
            for other in before:
                if other["hw_end"] == row["hw_end"] and within(other, row):
                    # Both hold the true time.
                    assert other["exposed_low_ms"] <= row["exposed_high_ms"]
                    assert row["exposed_low_ms"] <= other["exposed_high_ms"]


def test_slo_knows_as_much_and_availability_stays() -> None:
    of = over_all()
    asked = both(partial(slo.slo, target=0.99))
    for (whole, left), (_, _, lost) in zip(asked, pairs(), strict=True):
        assert len(left) == len(whole)
        for before, now in zip(whole, left, strict=True):
            same = ("partitions", "total_ms", "known_ms", "availability", "failover_p99_ms")
            assert [now[name] for name in same] == [before[name] for name in same]
            # Each lost scrape moves edges by the time between those around it at most.
            moved = NEAR_INTERVALS * of.interval_ms * len(lost)
            for name in ("ur_ratio", "produce_availability"):
                if before[name] is not None:
                    assert abs(now[name] - before[name]) * now["known_ms"] <= moved


def test_the_replay_of_lag_times_keeps_its_bounds() -> None:
    of = over_all()
    whole, left = (
        list(whatif.lagtime_whatif(given, of, lag_time_max_ms=3_000)) for given in sides(pairs())
    )
    assert len(whole) == len(left) > 1
    for before, now in zip(whole, left, strict=True):
        for low in [name for name in now if "_low" in name]:
            high = low.replace("_low", "_high")
            assert now[low] <= before[high]
            assert before[low] <= now[high]


def test_incidents_are_at_the_same_times_and_curves_lack_what_is_lost() -> None:
    of = over_all()
    near_ms = int(NEAR_INTERVALS * of.interval_ms)
    for first in range(0, HISTORIES, 2):
        some = pairs()[first : first + 2]
        whole, left = sides(some)
        before, now = (list(incidents.incidents(given, of)) for given in (whole, left))
        # Which broker is at the root may hang on a single episode.
        for row in now:
            assert [
                other
                for other in before
                if other["start_ms"] <= row["end_ms"] + near_ms
                and row["start_ms"] <= other["end_ms"] + near_ms
            ]
        lost = {moment for each in some for moment in each[2]}
        curves, fewer = (list(incidents.incident_curves(h, of, before)) for h in (whole, left))
        assert fewer == [row for row in curves if (pod_of(row), row["at_ms"]) not in lost]
        assert len(fewer) > 0


def pod_of(row: Row) -> str:
    """Return the pod of a drawn topic's leader."""
    return f"c{row['topic'].removeprefix('drawn-')}-{row['leader']}"

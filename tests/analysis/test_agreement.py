"""Every table that Spark makes equals a plain Python reference, over drawn histories.

It also equals the same definition as SQL on DuckDB.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from strandline_analysis import catalogue
from tests.analysis.agreement import (
    LENGTH_MS,
    Given,
    Row,
    assert_same,
    given_of,
    made,
    over,
)
from tests.analysis.drawn_controllers import drawn_controllers
from tests.analysis.duckdb_oracle import Oracle
from tests.analysis.reference import churn as churn_reference
from tests.analysis.reference import controllers as controllers_reference
from tests.analysis.reference import coverage as coverage_reference
from tests.analysis.reference import elections as elections_reference
from tests.analysis.reference import incidents as incidents_reference
from tests.analysis.reference import isr_intervals as isr_reference
from tests.analysis.reference import isr_sizes as sizes_reference
from tests.analysis.reference import risk as risk_reference
from tests.analysis.reference import slo as slo_reference
from tests.analysis.reference import throughput as throughput_reference
from tests.analysis.reference import watermarks as watermarks_reference
from tests.analysis.reference import whatif as whatif_reference

pytestmark = pytest.mark.processes

drawn_once = settings(
    # Many histories at once rather than many runs of Spark, of which each takes seconds.
    max_examples=1,
    deadline=None,
    # The same histories in each run: what a run finds must be of its own change.
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
seeds = st.integers(0, 1_000_000)
LAG_MS = 3_000
"""A setting that is in none of the lists."""
CONTROLLERS_MS = 1_200_000
"""So long that a hundred controllers follow each other."""


@pytest.fixture(autouse=True)
def small(planned_small: None) -> None:
    """Plan every query for few rows."""


@pytest.fixture(scope="module")
def empty(packages: str) -> Oracle:
    """Return the oracle of no samples."""
    return Oracle([], over())


def agreed(
    spark: Any,
    drawn: Given,
    name: str,
    reference: Any,
    *,
    without: frozenset[str] = frozenset(),
    **asked: Any,
) -> list[Row]:
    """Assert that Spark, the reference and DuckDB make the same table, and return its rows."""
    found = drawn.made(spark, name, **asked)
    assert found
    assert_same(found, drawn.rows(reference, **asked), without=without)
    assert_same(found, drawn.oracle.table(name, **asked), without=without)
    return found


@pytest.mark.parametrize("name", catalogue.TABLES)
def test_the_second_oracle_has_every_table(empty: Oracle, name: str) -> None:
    of_samples = {"sample_count"} if name == "isr_intervals" else set()
    assert set(empty.columns(name)) == set(catalogue.TABLES[name].names) - of_samples


@drawn_once
@given(seed=seeds)
def test_isr_intervals(spark: Any, seed: int) -> None:
    about = frozenset({"sample_count"})
    agreed(spark, given_of(seed), "isr_intervals", isr_reference.isr_intervals, without=about)


@drawn_once
@given(seed=seeds)
def test_coverage_and_restarts(spark: Any, seed: int) -> None:
    agreed(spark, given_of(seed), "coverage", coverage_reference.coverage)
    agreed(spark, given_of(seed), "restarts", coverage_reference.restarts)


@drawn_once
@given(seed=seeds)
def test_isr_size_intervals(spark: Any, seed: int) -> None:
    agreed(spark, given_of(seed), "isr_size_intervals", sizes_reference.isr_size_intervals)


@drawn_once
@given(seed=seeds)
def test_episodes(spark: Any, seed: int) -> None:
    for name, merge_gap_ms in (("ur_episodes", 3000), ("umi_episodes", 0), ("at_min_isr", 3000)):
        reference = partial(sizes_reference.episodes, table=name)
        agreed(spark, given_of(seed), name, reference, merge_gap_ms=merge_gap_ms)


@drawn_once
@given(seed=seeds)
def test_elections_and_zombie_leaders(spark: Any, seed: int) -> None:
    drawn = given_of(seed)
    elections = agreed(spark, drawn, "elections", elections_reference.elections)
    agreed(spark, drawn, "zombie_leaders", elections_reference.zombie_leaders)
    of_table = drawn.spark_table(spark, "elections", elections)
    found = drawn.made(spark, "failover_quantiles", elections=of_table)
    assert len(found) > 1
    assert_same(found, elections_reference.failover_quantiles(drawn.histories, drawn.of))
    assert_same(found, drawn.oracle.table("failover_quantiles"))


@drawn_once
@given(seed=seeds)
def test_controller_elections(spark: Any, seed: int) -> None:
    from strandline_analysis.tables.elections import controller_elections

    history, of = drawn_controllers(seed, length=CONTROLLERS_MS), over(CONTROLLERS_MS)
    table = catalogue.CONTROLLER_ELECTIONS
    found = made(spark, controller_elections, table, [history], of=of)
    assert {row["new_controller"] for row in found} >= {None, 0, 1, 2, 3}
    assert_same(found, controllers_reference.controller_elections(history, of))
    assert_same(found, Oracle([history], of).table("controller_elections"))


@drawn_once
@given(seed=seeds)
def test_throughput_and_truncations(spark: Any, seed: int) -> None:
    agreed(spark, given_of(seed), "truncations", throughput_reference.truncations)
    # Replication is counted by broker alone, so that clusters would be added up.
    one = given_of(seed, histories=1, length=3 * LENGTH_MS, busy=1.0)
    throughput = throughput_reference.replication_throughput
    agreed(spark, one, "replication_throughput", throughput)


@drawn_once
@given(seed=seeds)
def test_churn_and_flapping(spark: Any, seed: int) -> None:
    drawn = given_of(seed)
    found = drawn.made(spark, "isr_churn")
    assert_same(found, churn_reference.isr_churn(drawn.histories, drawn.of))
    assert_same(found, drawn.oracle.table("isr_churn"))
    agreed(spark, drawn, "flapping", churn_reference.flapping)
    agreed(spark, drawn, "missed_edges", churn_reference.missed_edges)


@drawn_once
@given(seed=seeds)
def test_lags_stalls_and_regressions(spark: Any, seed: int) -> None:
    drawn = given_of(seed)
    agreed(spark, drawn, "hw_lag", watermarks_reference.hw_lag)
    agreed(spark, drawn, "follower_lag", watermarks_reference.follower_lag)
    agreed(spark, drawn, "hw_regressions", watermarks_reference.hw_regressions)
    agreed(spark, drawn, "hw_stalls", watermarks_reference.hw_stalls, stall_ms=2000)


@drawn_once
@given(seed=seeds)
def test_data_at_risk(spark: Any, seed: int) -> None:
    found = agreed(spark, given_of(seed), "data_at_risk", risk_reference.data_at_risk)
    assert {row["bytes"] is None for row in found} == {True, False}
    assert max(row["lost"] for row in found) > 0


@drawn_once
@given(seed=seeds)
def test_incidents(spark: Any, seed: int) -> None:
    # Few partitions, for a long time, so that not all is one incident.
    drawn = given_of(seed, histories=2, length=5 * LENGTH_MS, busy=0.1)
    found = drawn.made(spark, "incidents")
    assert len(found) > 1
    expected = list(incidents_reference.incidents(drawn.histories, drawn.of))
    assert_same(found, expected)
    asked = {"merge_gap_ms": incidents_reference.NEAR_MS, "stall_ms": watermarks_reference.STALL_MS}
    assert_same(found, drawn.oracle.table("incidents", **asked))
    of_table = drawn.spark_table(spark, "incidents", found)
    curves = drawn.made(spark, "incident_curves", incidents=of_table)
    assert curves
    whole = incidents_reference.incident_curves(drawn.histories, drawn.of, expected)
    assert_same(curves, whole)
    assert_same(curves, drawn.oracle.table("incident_curves", **asked))


@drawn_once
@given(seed=seeds)
def test_lagtime_whatif(spark: Any, seed: int) -> None:
    drawn = given_of(seed)
    found = drawn.made(spark, "lagtime_whatif", lag_time_max_ms=LAG_MS)
    assert max(row["shrinks_high"] for row in found) > 0
    whatif = partial(whatif_reference.lagtime_whatif, lag_time_max_ms=LAG_MS)
    assert_same(found, whatif(drawn.histories, drawn.of))
    assert_same(found, drawn.oracle.table("lagtime_whatif", lag_time_max_ms=LAG_MS))


@drawn_once
@given(seed=seeds, target=st.sampled_from([0.9, 0.999]))
def test_slo(spark: Any, seed: int, target: float) -> None:
    # Midnight lies within the range.
    found = agreed(spark, given_of(seed), "slo", slo_reference.slo, target=target)
    assert len({row["day_ms"] for row in found}) == 2

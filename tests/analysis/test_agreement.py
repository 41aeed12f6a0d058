"""Every table that Spark makes equals a plain Python reference, over drawn histories.

Those that windows of SQL can tell also equal the same SQL on DuckDB.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from strandline_analysis import catalogue
from tests.analysis import duckdb_oracle
from tests.analysis.agreement import LENGTH_MS, assert_same, histories, made, over
from tests.analysis.generated import drawn, shifted
from tests.analysis.reference import churn as churn_reference
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
from tests.analysis.reference.holding import Range

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


@pytest.fixture(autouse=True)
def small(planned_small: None) -> None:
    """Plan every query for few rows."""


@drawn_once
@given(seed=seeds)
def test_isr_intervals(spark: Any, seed: int) -> None:
    from strandline_analysis.tables.isr_intervals import isr_intervals

    given_ = histories(seed)
    found = made(spark, isr_intervals, catalogue.ISR_INTERVALS, given_, of=over())
    expected = [row for each in given_ for row in isr_reference.isr_intervals(each, over())]
    assert_same(found, expected, without={"sample_count"})
    oracle = duckdb_oracle.table_of("isr_intervals", given_, over())
    assert_same(found, oracle, without={"sample_count"})


@drawn_once
@given(seed=seeds)
def test_coverage_and_restarts(spark: Any, seed: int) -> None:
    from strandline_analysis.tables.coverage import coverage, restarts

    given_ = histories(seed)
    found = made(spark, coverage, catalogue.COVERAGE, given_, of=over())
    expected = [row for each in given_ for row in coverage_reference.coverage(each, over())]
    assert_same(found, expected)
    assert_same(found, duckdb_oracle.table_of("coverage", given_, over()))
    found = made(spark, restarts, catalogue.RESTARTS, given_, of=over())
    expected = [row for each in given_ for row in coverage_reference.restarts(each, over())]
    assert_same(found, expected)
    assert_same(found, duckdb_oracle.table_of("restarts", given_, over()))


@drawn_once
@given(seed=seeds)
def test_isr_size_intervals(spark: Any, seed: int) -> None:
    from strandline_analysis.tables.isr_sizes import isr_size_intervals

    given_ = histories(seed)
    found = made(spark, isr_size_intervals, catalogue.ISR_SIZE_INTERVALS, given_, of=over())
    expected = [row for each in given_ for row in sizes_reference.isr_size_intervals(each, over())]
    assert_same(found, expected)
    assert_same(found, duckdb_oracle.table_of("isr_size_intervals", given_, over()))


@drawn_once
@given(seed=seeds)
def test_episodes(spark: Any, seed: int) -> None:
    from strandline_analysis.tables import isr_sizes

    given_ = histories(seed)
    for name, merge_gap_ms in (("ur_episodes", 3000), ("umi_episodes", 0), ("at_min_isr", 3000)):
        analysis = partial(getattr(isr_sizes, name), merge_gap_ms=merge_gap_ms)
        found = made(spark, analysis, catalogue.TABLES[name], given_, of=over())
        expected = [
            row
            for each in given_
            for row in sizes_reference.episodes(each, over(), table=name, merge_gap_ms=merge_gap_ms)
        ]
        assert_same(found, expected)
        oracle = duckdb_oracle.table_of(name, given_, over(), merge_gap_ms=merge_gap_ms)
        assert_same(found, oracle)


@drawn_once
@given(seed=seeds)
def test_elections_and_zombie_leaders(spark: Any, seed: int) -> None:
    from strandline_analysis.tables.elections import elections, zombie_leaders

    given_ = histories(seed)
    found = made(spark, elections, catalogue.ELECTIONS, given_, of=over())
    expected = [row for each in given_ for row in elections_reference.elections(each, over())]
    assert_same(found, expected)
    assert_same(found, duckdb_oracle.table_of("elections", given_, over()))
    found = made(spark, zombie_leaders, catalogue.ZOMBIE_LEADERS, given_, of=over())
    expected = [row for each in given_ for row in elections_reference.zombie_leaders(each, over())]
    assert_same(found, expected)


@drawn_once
@given(seed=seeds)
def test_failover_quantiles(spark: Any, seed: int) -> None:
    from strandline_analysis.tables.elections import failover_quantiles

    given_ = histories(seed)
    found = made(spark, failover_quantiles, catalogue.FAILOVER_QUANTILES, given_, of=over())
    assert_same(found, elections_reference.failover_quantiles(given_, over()))


@drawn_once
@given(seed=seeds)
def test_throughput_and_truncations(spark: Any, seed: int) -> None:
    from strandline_analysis.tables.throughput import replication_throughput, truncations

    given_ = histories(seed)
    found = made(spark, truncations, catalogue.TRUNCATIONS, given_, of=over())
    expected = [row for each in given_ for row in throughput_reference.truncations(each, over())]
    assert_same(found, expected)
    # Replication is counted by broker alone, so that clusters would be added up.
    given_ = [drawn(seed, length=3 * LENGTH_MS)]
    of = over(3 * LENGTH_MS)
    found = made(spark, replication_throughput, catalogue.REPLICATION_THROUGHPUT, given_, of=of)
    assert_same(found, throughput_reference.replication_throughput(given_[0], of))
    assert_same(found, duckdb_oracle.table_of("replication_throughput", given_, of))


@drawn_once
@given(seed=seeds)
def test_churn_and_flapping(spark: Any, seed: int) -> None:
    from strandline_analysis.tables import churn

    given_ = histories(seed)
    found = made(spark, churn.isr_churn, catalogue.ISR_CHURN, given_, of=over())
    assert_same(found, churn_reference.isr_churn(given_, over()))
    assert_same(found, duckdb_oracle.table_of("isr_churn", given_, over()))
    found = made(spark, churn.flapping, catalogue.FLAPPING, given_, of=over())
    expected = [row for each in given_ for row in churn_reference.flapping(each, over())]
    assert_same(found, expected)
    found = made(spark, churn.missed_edges, catalogue.MISSED_EDGES, given_, of=over())
    expected = [row for each in given_ for row in churn_reference.missed_edges(each, over())]
    assert_same(found, expected)


@drawn_once
@given(seed=seeds)
def test_lags_stalls_and_regressions(spark: Any, seed: int) -> None:
    from strandline_analysis.tables import watermarks

    given_ = histories(seed)
    for name in ("hw_lag", "follower_lag", "hw_regressions"):
        analysis = getattr(watermarks, name)
        found = made(spark, analysis, catalogue.TABLES[name], given_, of=over(), gap_ms=0)
        function = getattr(watermarks_reference, name)
        assert_same(found, [row for each in given_ for row in function(each, over())])
    analysis = partial(watermarks.hw_stalls, stall_ms=2000)
    found = made(spark, analysis, catalogue.HW_STALLS, given_, of=over(), gap_ms=0)
    expected = [
        row
        for each in given_
        for row in watermarks_reference.hw_stalls(each, over(), stall_ms=2000)
    ]
    assert_same(found, expected)


@drawn_once
@given(seed=seeds)
def test_data_at_risk(spark: Any, seed: int) -> None:
    from strandline_analysis.tables.risk import data_at_risk

    given_ = histories(seed, busy=2.0)
    found = made(spark, data_at_risk, catalogue.DATA_AT_RISK, given_, of=over(), gap_ms=0)
    expected = [row for each in given_ for row in risk_reference.data_at_risk(each, over())]
    assert_same(found, expected)


@drawn_once
@given(seed=seeds)
def test_incidents(spark: Any, seed: int) -> None:
    from strandline_analysis.tables.incidents import incidents

    # Few partitions for each row, so that not all is one incident.
    given_ = histories(seed, busy=0.3)[:12]
    found = made(spark, incidents, catalogue.INCIDENTS, given_, of=over(), gap_ms=0)
    assert found
    expected = incidents_reference.incidents(given_, over())
    assert_same(found, expected)


@drawn_once
@given(seed=seeds)
def test_lagtime_whatif(spark: Any, seed: int) -> None:
    from strandline_analysis.tables.whatif import lagtime_whatif

    given_ = histories(seed)
    analysis = partial(lagtime_whatif, lag_time_max_ms=LAG_MS)
    found = made(spark, analysis, catalogue.LAGTIME_WHATIF, given_, of=over(), gap_ms=0)
    assert max(row["shrinks_high"] for row in found) > 0
    assert_same(found, whatif_reference.lagtime_whatif(given_, over(), lag_time_max_ms=LAG_MS))


@drawn_once
@given(seed=seeds, target=st.sampled_from([0.9, 0.999]))
def test_slo(spark: Any, seed: int, target: float) -> None:
    from strandline_analysis.tables.slo import DAY_MS, slo

    # Midnight lies within the range.
    of = over()
    by = DAY_MS - of.start_ms % DAY_MS - LENGTH_MS // 2
    of = Range(start_ms=of.start_ms + by, end_ms=of.end_ms + by, interval_ms=of.interval_ms)
    given_ = [shifted(each, by) for each in histories(seed)]
    found = made(spark, partial(slo, target=target), catalogue.SLO, given_, of=of, gap_ms=0)
    expected = [row for each in given_ for row in slo_reference.slo(each, of, target=target)]
    assert_same(found, expected)
    oracle = duckdb_oracle.table_of("slo", given_, of, target=target)
    assert_same(found, oracle, without={"durability_risk"})

"""The analyses: each is a function from a DataFrame of samples to one table of the catalogue.

They work in any Spark session; `ANALYSES` lists them by table. Samples are read with the data
source of `read`, or from a lake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from strandline.names import Metric

from . import (
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """How one table is made."""

    make: Callable[..., DataFrame]
    """Called with samples, and by name interval_ms, start_ms and end_ms."""
    metrics: tuple[Metric, ...]
    """What the samples must hold."""
    plain: bool = False
    """True if it needs single samples, read with gap_ms 0, not runs."""
    made_of: tuple[str, ...] = ()
    """Tables, made before, that `make` also takes by their names."""
    of_lag_time: bool = False
    """True if `make` also takes lag_time_max_ms, the replica.lag.time.max.ms that was in force."""


ANALYSES: Final[Mapping[str, Analysis]] = {
    "isr_intervals": Analysis(make=isr_intervals.isr_intervals, metrics=isr_intervals.METRICS),
    "isr_size_intervals": Analysis(make=isr_sizes.isr_size_intervals, metrics=isr_sizes.METRICS),
    "ur_episodes": Analysis(make=isr_sizes.ur_episodes, metrics=isr_sizes.METRICS),
    "umi_episodes": Analysis(make=isr_sizes.umi_episodes, metrics=isr_sizes.METRICS),
    "at_min_isr": Analysis(make=isr_sizes.at_min_isr, metrics=isr_sizes.METRICS),
    "isr_churn": Analysis(make=churn.isr_churn, metrics=churn.METRICS),
    "flapping": Analysis(make=churn.flapping, metrics=churn.METRICS),
    "missed_edges": Analysis(make=churn.missed_edges, metrics=churn.METRICS),
    "elections": Analysis(make=elections.elections, metrics=elections.METRICS),
    "failover_quantiles": Analysis(
        make=elections.failover_quantiles, metrics=elections.METRICS, made_of=("elections",)
    ),
    "controller_elections": Analysis(
        make=elections.controller_elections, metrics=elections.CONTROLLER_METRICS
    ),
    "zombie_leaders": Analysis(make=elections.zombie_leaders, metrics=elections.METRICS),
    "replication_throughput": Analysis(
        make=throughput.replication_throughput, metrics=throughput.METRICS
    ),
    "truncations": Analysis(
        make=throughput.truncations, metrics=throughput.TRUNCATION_METRICS, plain=True
    ),
    "coverage": Analysis(make=coverage.coverage, metrics=coverage.METRICS),
    "restarts": Analysis(make=coverage.restarts, metrics=coverage.METRICS),
    **{
        table.__name__: Analysis(make=table, metrics=watermarks.METRICS, plain=True)
        for table in (
            watermarks.hw_lag,
            watermarks.follower_lag,
            watermarks.hw_stalls,
            watermarks.hw_regressions,
        )
    },
    "incidents": Analysis(make=incidents.incidents, metrics=incidents.METRICS, plain=True),
    "incident_curves": Analysis(
        make=incidents.incident_curves,
        metrics=incidents.CURVE_METRICS,
        plain=True,
        made_of=("incidents",),
    ),
    "lagtime_whatif": Analysis(
        make=whatif.lagtime_whatif, metrics=whatif.METRICS, plain=True, of_lag_time=True
    ),
    "data_at_risk": Analysis(make=risk.data_at_risk, metrics=risk.METRICS, plain=True),
    "slo": Analysis(make=slo.slo, metrics=slo.METRICS, plain=True),
}
"""By table: how it is made."""

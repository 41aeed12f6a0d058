"""Analysis 11: how available was each topic, and how much of that is known?

What is not known is neither good nor bad: it is left out of each share, and told as coverage.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline_analysis import catalogue
from strandline_analysis.read_options import HOUR_MS
from strandline_analysis.samples import settled, steps
from strandline_analysis.schema import shaped

from . import elections, isr_sizes, risk, watermarks
from .leader_states import leader_states

METRICS: Final = risk.METRICS
DAY_MS: Final = 24 * HOUR_MS
TARGET: Final = 0.999
"""Availability that is promised, unless a caller says another."""
COVERAGE_MIN: Final = 0.95
"""Share of the time that must be known for the other shares to be trusted."""
PARTITION: Final = ("topic", "partition")
TOPIC_DAY: Final = ("topic", "day_ms")


def slo(
    samples: DataFrame,
    *,
    interval_ms: int,
    start_ms: int,
    end_ms: int,
    target: float = TARGET,
) -> DataFrame:
    """Return the shares of each topic and day.

    A time without a leader counts with its upper bound, as known and as no time to produce in.

    Shape:   samples as schema.SAMPLES, of METRICS and plain; the result as catalogue.SLO
    Units:   ms, shares of 1
    """
    ranged = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    facts = steps(samples, **ranged)
    sizes = isr_sizes.sizes_of(leader_states(facts, isr_sizes.GAUGES, **ranged))
    high = F.col("no_leader_high_ms")
    every = elections.elections_of(facts, **ranged)
    scrapes = watermarks.leader_scrapes(samples, **ranged)
    elected = every.where(high.isNotNull())
    gone = elected.select(
        *(F.col(name).alias(f"_{name}") for name in PARTITION),
        (F.col("t_first_new_ms") - high).alias("_start_ms"),
        F.col("t_first_new_ms").alias("_end_ms"),
    )
    times = _by_day(_pieces(sizes, gone))
    failovers = elected.groupBy("topic", _day("t_first_new_ms").alias("day_ms")).agg(
        F.expr("percentile(no_leader_high_ms, 0.99)").alias("failover_p99_ms")
    )
    exposed = risk.exposures_of(samples, sizes=sizes, scrapes=scrapes, elected=every, end_ms=end_ms)
    at_risk = exposed.groupBy("topic", _day("start_ms").alias("day_ms")).agg(
        F.sum("offsets").alias("at_risk")
    )
    committed = _committed(scrapes)
    found = times
    for part in (failovers, settled(at_risk), settled(committed)):
        found = found.join(part, list(TOPIC_DAY), "left")
    return shaped(found.withColumns(_shares(target)), catalogue.SLO)


def _day(time: str) -> Column:
    return F.col(time) - F.col(time) % DAY_MS


def _pieces(sizes: DataFrame, gone: DataFrame) -> DataFrame:
    """Cut the intervals of sizes at midnight; add how long there was no leader within each."""
    days = F.sequence(_day("start_ms"), F.col("end_ms") - 1, F.lit(DAY_MS).cast("long"))
    cut = sizes.withColumn("day_ms", F.explode(days)).withColumns(
        {
            "start_ms": F.greatest("start_ms", "day_ms"),
            "end_ms": F.least("end_ms", F.col("day_ms") + DAY_MS),
        }
    )
    same = [F.col(name) == F.col(f"_{name}") for name in PARTITION]
    meets = (F.col("_start_ms") < F.col("end_ms")) & (F.col("start_ms") < F.col("_end_ms"))
    overlap = F.least("end_ms", "_end_ms") - F.greatest("start_ms", "_start_ms")
    key = [*PARTITION, "day_ms", "start_ms", "end_ms", *isr_sizes.SIZES]
    missing = F.when(F.col("_start_ms").isNotNull(), overlap).otherwise(0)
    return cut.join(gone, [*same, meets], "left").groupBy(*key).agg(F.sum(missing).alias("gone_ms"))


def _by_day(pieces: DataFrame) -> DataFrame:
    """Sum what is known of each topic and day."""
    size, replicas, min_isr = (F.col(name) for name in isr_sizes.SIZES)
    known = size.isNotNull() & replicas.isNotNull() & min_isr.isNotNull()
    length, gone = F.col("end_ms") - F.col("start_ms"), F.col("gone_ms")
    return settled(
        pieces.groupBy(*TOPIC_DAY).agg(
            F.count_distinct("partition").alias("partitions"),
            F.sum(length).alias("total_ms"),
            F.sum(gone).alias("gone_ms"),
            F.sum(F.when(known, length).otherwise(gone)).alias("known_ms"),
            F.sum(F.when(known & (size < min_isr), length).otherwise(gone)).alias("umi_ms"),
            F.sum(F.when(known & (size < replicas), length).otherwise(0)).alias("ur_ms"),
        )
    )


def _committed(scrapes: DataFrame) -> DataFrame:
    """Return how many offsets each topic committed on each day."""
    in_order = Window.partitionBy(*PARTITION).orderBy("first_ms")
    rise = F.greatest(F.col("hw") - F.lag("hw").over(in_order), F.lit(0.0))
    rises = scrapes.select("topic", _day("first_ms").alias("day_ms"), rise.alias("rise"))
    return rises.groupBy(*TOPIC_DAY).agg(F.sum("rise").alias("committed"))


def _shares(target: float) -> dict[str, Column]:
    known = F.when(F.col("known_ms") > 0, F.col("known_ms"))
    availability = 1 - F.col("gone_ms") / known
    covered = F.col("known_ms") / F.col("total_ms")
    committed = F.when(F.col("committed") > 0, F.col("committed"))
    return {
        "coverage": covered,
        "covered": covered >= COVERAGE_MIN,
        "availability": availability,
        "produce_availability": 1 - F.col("umi_ms") / known,
        "ur_ratio": F.col("ur_ms") / known,
        "durability_risk": F.coalesce("at_risk", F.lit(0)) / committed,
        "error_budget_left": 1 - (1 - availability) / (1 - target),
    }

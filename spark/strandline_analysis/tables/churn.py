"""Analysis 5: which replicas leave ISRs and come back, who sees it, and what no scrape saw?"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline_analysis import catalogue
from strandline_analysis.read_options import MINUTE_MS
from strandline_analysis.samples import broker_id, of, steps
from strandline_analysis.schema import shaped

from .leader_states import EDGES, leader_states, with_bounds

COUNTERS: Final = (names.ISR_SHRINKS_TOTAL, names.ISR_EXPANDS_TOTAL)
METRICS: Final = (names.PARTITION_ISR_MEMBER, *COUNTERS, *EDGES)
WINDOW_MS: Final = 10 * MINUTE_MS
"""Length of a window of churn, and of the sliding one of flapping."""
FLAPPING_CYCLES: Final = 3
"""Times out and in again within WINDOW_MS that make flapping."""
REPLICA: Final = ("topic", "partition", "replica")


def isr_churn(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return how often brokers were removed from ISRs and added, and by which leaders.

    Only changes between two known states count.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as catalogue.ISR_CHURN, one row for
             each broker and window with a change
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    edges = _edges(facts, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    subject = edges.select("*", F.col("replica").alias("broker"), F.lit(True).alias("is_subject"))
    observer = edges.select("*", F.col("leader").alias("broker"), F.lit(False).alias("is_subject"))
    window = F.col("start_ms") - F.col("start_ms") % WINDOW_MS

    def count(*, subject: bool, shrink: bool) -> Column:
        return F.count_if((F.col("is_subject") == subject) & (F.col("shrink") == shrink))

    counted = (
        subject.unionByName(observer)
        .groupBy("broker", window.alias("window_start_ms"))
        .agg(
            count(subject=True, shrink=True).alias("shrinks"),
            count(subject=True, shrink=False).alias("expands"),
            count(subject=False, shrink=True).alias("observed_shrinks"),
            count(subject=False, shrink=False).alias("observed_expands"),
            F.count_distinct(F.when(F.col("is_subject"), F.struct("topic", "partition"))).alias(
                "partitions"
            ),
        )
    )
    return shaped(counted, catalogue.ISR_CHURN)


def flapping(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return the episodes in which replicas left and came back again and again.

    A cycle is a time outside the ISR between two times in it. Cycles belong to an episode if
    FLAPPING_CYCLES of them in a row lie within WINDOW_MS.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as catalogue.FLAPPING
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    return flapping_of(_members(facts, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms))


def flapping_of(states: DataFrame) -> DataFrame:
    """Return what `flapping` does, of the states of members as `leader_states` returns them."""
    in_order = Window.partitionBy(*REPLICA).orderBy("start_ms")
    value = F.col("value")
    around = (F.lag(value).over(in_order) == 1) & (F.lead(value).over(in_order) == 1)
    cycles = states.withColumn("cycle", around & (value == 0)).where(F.col("cycle"))
    last_of = F.lag("start_ms", FLAPPING_CYCLES - 1).over(in_order) >= F.col("end_ms") - WINDOW_MS
    marked = cycles.withColumn("ends", F.coalesce(last_of, F.lit(False)))
    ahead = [F.lead("ends", step).over(in_order) for step in range(1, FLAPPING_CYCLES)]
    with_previous = F.col("ends")
    for later in ahead[:-1]:
        with_previous |= F.coalesce(later, F.lit(False))
    member = with_previous | F.coalesce(ahead[-1], F.lit(False))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    begins = F.when(with_previous, 0).otherwise(1)
    numbered = marked.withColumns({"member": member, "begins": begins}).withColumn(
        "episode", F.sum("begins").over(so_far)
    )
    episodes = (
        numbered.where(F.col("member"))
        .groupBy(*REPLICA, "episode")
        .agg(
            F.min("start_ms").alias("start_ms"),
            F.max("end_ms").alias("end_ms"),
            F.min_by("start_err_ms", "start_ms").alias("start_err_ms"),
            F.max_by("end_err_ms", "end_ms").alias("end_err_ms"),
            F.count("*").alias("cycles"),
        )
    )
    length = F.greatest(F.col("end_ms") - F.col("start_ms"), F.lit(WINDOW_MS)) / WINDOW_MS
    score = F.col("cycles") / (FLAPPING_CYCLES * length)
    return shaped(with_bounds(episodes).withColumn("score", score), catalogue.FLAPPING)


def missed_edges(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return how many changes of ISRs leaders counted, and scrapes did not see.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as catalogue.MISSED_EDGES, one row
             for each leader that counted; what it counted before its first scrape is left out
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    in_order = Window.partitionBy("series_id").orderBy("first_ms")
    step = F.col("value") - F.lag("value").over(in_order)
    counters = facts.where(F.col("metric").isin(*(each.name for each in COUNTERS)))
    is_shrink = F.col("metric") == names.ISR_SHRINKS_TOTAL.name
    leader = ["topic", "partition", "broker"]
    counted = (
        counters.withColumn("step", F.when(step < 0, F.col("value")).otherwise(step))
        .groupBy("topic", "partition", broker_id("pod").alias("broker"))
        .agg(
            F.coalesce(F.sum(F.when(is_shrink, F.col("step"))), F.lit(0)).alias("counted_shrinks"),
            F.coalesce(F.sum(F.when(~is_shrink, F.col("step"))), F.lit(0)).alias("counted_expands"),
        )
    )
    edges = _edges(facts, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    # A leader counts a change once, however many replicas it moved.
    moments = (
        edges.where(F.col("start_reason") == "change")
        .select("topic", "partition", F.col("leader").alias("broker"), "start_ms", "shrink")
        .distinct()
    )
    seen = moments.groupBy(*leader).agg(
        F.count_if("shrink").alias("seen_shrinks"),
        F.count_if(~F.col("shrink")).alias("seen_expands"),
    )
    both = counted.join(seen, leader, "left").fillna(0, ["seen_shrinks", "seen_expands"])
    missed = {
        f"missed_{kind}": F.greatest(F.col(f"counted_{kind}") - F.col(f"seen_{kind}"), F.lit(0))
        for kind in ("shrinks", "expands")
    }
    return shaped(both.withColumns(missed), catalogue.MISSED_EDGES)


def _members(facts: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    members = (names.PARTITION_ISR_MEMBER,)
    ranged = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    return of(leader_states(facts, members, **ranged), *members)


def _edges(facts: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return the states that follow the opposite state, and whether they are shrinks."""
    states = _members(facts, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    in_order = Window.partitionBy(*REPLICA).orderBy("start_ms")
    before = states.withColumn("before", F.lag("value").over(in_order))
    return before.where(F.col("before") != F.col("value")).withColumn("shrink", F.col("value") == 0)

"""Analysis 2: how many replicas were in sync, of how many, and when were they too few?

An episode is a time in which they were too few. Holes shorter than a bound are bridged, so that a
replica that comes and goes makes one episode; what is bridged is no bad time.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline_analysis import catalogue
from strandline_analysis.catalogue import Table
from strandline_analysis.samples import of, settled, shared, steps
from strandline_analysis.schema import shaped

from .leader_states import EDGES, leader_states, with_bounds

GAUGES: Final = (
    names.PARTITION_ISR_SIZE,
    names.PARTITION_REPLICAS,
    names.PARTITION_MIN_INSYNC_REPLICAS,
)
METRICS: Final = (*GAUGES, names.PARTITION_ISR_MEMBER, *EDGES)
MERGE_GAP_MS: Final = 30_000
"""Holes shorter than this are bridged: a replica of a broker that restarts may leave twice."""
PARTITION: Final = ("topic", "partition")
SIZES: Final = ("isr_size", "replicas", "min_isr")
EDGE: Final = ("ms", "err_ms", "reason")
"""What is told of a start and of an end."""


def isr_size_intervals(
    samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int
) -> DataFrame:
    """Return the size of each ISR with the sizes that it is measured by.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as catalogue.ISR_SIZE_INTERVALS: for
             each partition disjoint, in order, without holes over [start_ms, end_ms)
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    states = leader_states(facts, GAUGES, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    return shaped(with_bounds(sizes_of(states)), catalogue.ISR_SIZE_INTERVALS)


@shared
def sizes_of(states: DataFrame) -> DataFrame:
    """Lay the intervals of the three gauges over each other.

    Shape:   states as `leader_states` returns them, of GAUGES
    Returns: PARTITION, SIZES and for start and end the columns EDGE; neighbours differ in SIZES
    """
    edges = [f"{side}_{what}" for side in ("start", "end") for what in EDGE]
    size, replicas, min_isr = (
        of(states, gauge).select(*PARTITION, F.col("value").cast("int").alias(name), *edges)
        for gauge, name in zip(GAUGES, SIZES, strict=True)
    )
    return settled(_merged(_overlap(_overlap(size, replicas, "replicas"), min_isr, "min_isr")))


def _overlap(left: DataFrame, right: DataFrame, name: str) -> DataFrame:
    """Cut the intervals of two frames, each without holes, by each other."""
    other = right.select(
        *(F.col(key).alias(f"_{key}") for key in PARTITION),
        name,
        *(
            F.col(f"{side}_{what}").alias(f"_{side}_{what}")
            for side in ("start", "end")
            for what in EDGE
        ),
    )
    same = [F.col(key) == F.col(f"_{key}") for key in PARTITION]
    meets = (F.col("_start_ms") < F.col("end_ms")) & (F.col("start_ms") < F.col("_end_ms"))
    later = F.coalesce(F.col("_start_ms") > F.col("start_ms"), F.lit(False))
    sooner = F.coalesce(F.col("_end_ms") < F.col("end_ms"), F.lit(False))
    cut = {
        f"{side}_{what}": F.when(moved, F.col(f"_{side}_{what}")).otherwise(F.col(f"{side}_{what}"))
        for side, moved in (("start", later), ("end", sooner))
        for what in EDGE
    }
    joined = left.join(other, [*same, meets], "left").withColumns(cut)
    return joined.drop(*(column for column in joined.columns if column.startswith("_")))


def _merged(frame: DataFrame) -> DataFrame:
    """Merge neighbours of equal sizes."""
    in_order = Window.partitionBy(*PARTITION).orderBy("start_ms")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    same = F.lit(True)
    for name in SIZES:
        same &= F.lag(name).over(in_order).eqNullSafe(F.col(name))
    begins = F.when(same & F.lag("end_ms").over(in_order).isNotNull(), 0).otherwise(1)
    numbered = frame.withColumn("_begins", begins).withColumn(
        "_interval", F.sum("_begins").over(so_far)
    )
    return numbered.groupBy(*PARTITION, "_interval", *SIZES).agg(*_edges())


def _edges() -> list[Column]:
    """Return the start of the first and the end of the last row of a group."""
    return [
        *(F.min_by(f"start_{what}", "start_ms").alias(f"start_{what}") for what in EDGE),
        *(F.max_by(f"end_{what}", "end_ms").alias(f"end_{what}") for what in EDGE),
    ]


def _episodes(
    samples: DataFrame,
    *,
    table: Table,
    interval_ms: int,
    start_ms: int,
    end_ms: int,
    merge_gap_ms: int = MERGE_GAP_MS,
) -> DataFrame:
    """Return the episodes of one table, with the replicas that were missing.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as the table's; an episode begins
             and ends with known bad time
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    told = (*GAUGES, names.PARTITION_ISR_MEMBER)
    states = leader_states(facts, told, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    sizes = sizes_of(states)
    return episodes_of(states, sizes, table=table, end_ms=end_ms, merge_gap_ms=merge_gap_ms)


def episodes_of(
    states: DataFrame,
    sizes: DataFrame,
    *,
    table: Table,
    end_ms: int,
    merge_gap_ms: int = MERGE_GAP_MS,
) -> DataFrame:
    """Return the episodes of one table.

    Shape:   states as `leader_states` returns them, of members at least; sizes as `sizes_of` does
    Units:   ms
    """
    bad = sizes.where(BAD[table.name])
    in_order = Window.partitionBy(*PARTITION).orderBy("start_ms")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    hole = F.col("start_ms") - F.lag("end_ms").over(in_order)
    begins = F.when((hole <= 0) | (hole < merge_gap_ms), 0).otherwise(1)
    numbered = bad.withColumn("_begins", begins).withColumn(
        "episode", F.sum("_begins").over(so_far)
    )
    episodes = numbered.groupBy(*PARTITION, "episode").agg(
        *_edges(),
        F.sum(F.col("end_ms") - F.col("start_ms")).alias("bad_ms"),
        F.min("isr_size").alias("min_size"),
    )
    episodes = _with_unknown(with_bounds(episodes), sizes, F.expr(BAD[table.name]))
    found = _with_missing(episodes, states).withColumn("ongoing", F.col("end_ms") >= end_ms)
    return shaped(found, table)


BAD: Final = {
    "ur_episodes": "isr_size < replicas",
    "umi_episodes": "isr_size < min_isr",
    # Kafka's AtMinIsr.
    "at_min_isr": "isr_size = min_isr",
}
"""By table, in SQL: when the sizes are bad; null where one of them is not known."""

ur_episodes = partial(_episodes, table=catalogue.UR_EPISODES)
umi_episodes = partial(_episodes, table=catalogue.UMI_EPISODES)
at_min_isr = partial(_episodes, table=catalogue.AT_MIN_ISR)


def _within(episodes: DataFrame, other: DataFrame, value: Column) -> DataFrame:
    """Pair each episode with the overlapping rows of another frame and how long they overlap."""
    rows = other.select(
        *(F.col(key).alias(f"_{key}") for key in PARTITION),
        F.col("start_ms").alias("_start_ms"),
        F.col("end_ms").alias("_end_ms"),
        value.alias("_value"),
    )
    same = [F.col(key) == F.col(f"_{key}") for key in PARTITION]
    meets = (F.col("_start_ms") < F.col("end_ms")) & (F.col("start_ms") < F.col("_end_ms"))
    overlap = F.least("end_ms", "_end_ms") - F.greatest("start_ms", "_start_ms")
    key = [*PARTITION, "episode"]
    paired = episodes.join(rows, [*same, meets]).withColumn("overlap_ms", overlap)
    return paired.select(*key, "_value", "overlap_ms")


def _with_unknown(episodes: DataFrame, sizes: DataFrame, bad: Column) -> DataFrame:
    """Add how long within an episode it is not known whether the sizes were bad."""
    unknown = _within(episodes, sizes.where(bad.isNull()), F.lit(0))
    key = [*PARTITION, "episode"]
    summed = unknown.groupBy(*key).agg(F.sum("overlap_ms").alias("unknown_ms"))
    return episodes.join(summed, key, "left").fillna(0, ["unknown_ms"])


def _with_missing(episodes: DataFrame, states: DataFrame) -> DataFrame:
    """Add the replicas that were outside the ISR during an episode, longest absence first."""
    outside = of(states, names.PARTITION_ISR_MEMBER).where(F.col("value") == 0)
    absences = _within(episodes, outside, F.col("replica"))
    key = [*PARTITION, "episode"]
    lengths = absences.groupBy(*key, "_value").agg(F.sum("overlap_ms").alias("absent_ms"))
    longest = F.sort_array(F.collect_list(F.struct(-F.col("absent_ms"), F.col("_value"))))
    listed = lengths.groupBy(*key).agg(F.transform(longest, lambda one: one["_value"]).alias("m"))
    none = F.array().cast("array<int>")
    return (
        episodes.join(listed, key, "left")
        .withColumn("missing_replicas", F.coalesce("m", none))
        .drop("m")
    )

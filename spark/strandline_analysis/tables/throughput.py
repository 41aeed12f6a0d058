"""Analysis 7: how much moved through each broker, and where did a log lose its end?

A counter that begins again counts from 0; an offset that falls was truncated. Neither is ever
taken for the other, and nothing is extrapolated, so that sums can be held against what clients
counted. A log that was cut and has grown again since shows no fall: the broker's counter does.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline_analysis import catalogue
from strandline_analysis.read_options import MINUTE_MS
from strandline_analysis.samples import broker_id, held, of, plain
from strandline_analysis.schema import shaped

from .coverage import processes, target_name
from .watermarks import SCRAPE, values_of

COUNTERS: Final = (
    names.PRODUCED_BYTES_TOTAL,
    names.PRODUCED_RECORDS_TOTAL,
    names.REPLICATION_BYTES_TOTAL,
)
METRICS: Final = (*COUNTERS, names.BROKER_START_TIMESTAMP_SECONDS)
TRUNCATION_METRICS: Final = (
    names.PARTITION_LOG_END_OFFSET,
    names.PARTITION_LEADER_EPOCH,
    names.TRUNCATED_RECORDS_TOTAL,
    names.BROKER_START_TIMESTAMP_SECONDS,
)
COUNTER: Final = ("target", "topic", "flow", "unit")
"""What counts on when a pod gets another address."""
RUN: Final = ("first_ms", "last_ms", "value", "start_reason", "old_value", "old_last_ms")


def replication_throughput(
    samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int
) -> DataFrame:
    """Return what each broker moved, by minute, for minutes in which it moved something.

    An increase belongs to the minute of the scrape that showed it. A counter that was not there
    at an earlier scrape of its pod had counted nothing.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as catalogue.REPLICATION_THROUGHPUT
    Units:   ms, bytes, records
    """
    facts = held(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms).cache()
    runs = _counters(facts)
    begun = processes(facts)
    others = begun.where(F.col("old_start_ms").isNotNull()).select(
        F.col("target").alias("_target"), F.col("first_ms").alias("process_ms")
    )
    first, process = F.col("first_ms"), F.col("process_ms")
    same = F.col("target") == F.col("_target")
    before = runs.join(others, [same, process > F.col("old_last_ms"), process <= first], "left")
    marked = before.groupBy("pod", *COUNTER, *RUN).agg(
        F.max(process.isNotNull()).alias("restarted")
    )
    seen = begun.groupBy("target").agg(F.min("first_ms").alias("seen_ms"))
    fell = F.coalesce(F.col("restarted") | (F.col("value") < F.col("old_value")), F.lit(False))
    whole = F.when(first > F.col("seen_ms"), F.col("value"))
    step = F.when(fell, F.col("value")).otherwise(F.col("value") - F.col("old_value"))
    steps = marked.join(seen, "target", "left").withColumns(
        {
            "at_ms": first,
            "increase": F.when(F.col("old_value").isNull(), whole).otherwise(step),
            "resets": fell.cast("long"),
            "across_gap": F.col("old_value").isNotNull() & (F.col("start_reason") != "change"),
        }
    )
    # A counter that reached the value that it had before looks as if it had stood still.
    inside = runs.join(others, [same, process > first, process <= F.col("last_ms")]).withColumns(
        {
            "at_ms": process,
            "increase": F.col("value"),
            "resets": F.lit(1).cast("long"),
            "across_gap": F.lit(False),
        }
    )
    columns = ["pod", *COUNTER, "at_ms", "increase", "resets", "across_gap"]
    moved = steps.select(*columns).unionByName(inside.select(*columns))
    return shaped(_by_minute(moved), catalogue.REPLICATION_THROUGHPUT)


def truncations(
    samples: DataFrame,
    *,
    interval_ms: int,  # noqa: ARG001 - every table is asked alike
    start_ms: int,
    end_ms: int,
) -> DataFrame:
    """Return where a replica lost the end of its log: the offset fell, or its counter rose.

    The counter is of one process, and is not there until the first truncation: a scrape without it
    counts as 0. What happened between two scrapes is one row.

    Shape:   samples as schema.SAMPLES, of TRUNCATION_METRICS and plain; the result as
             catalogue.TRUNCATIONS
    Units:   ms, offsets
    """
    at = F.col("first_ms")
    inside = samples.where(at.between(start_ms, end_ms - 1))
    counted = (
        plain(of(inside, names.TRUNCATED_RECORDS_TOTAL))
        .groupBy(*SCRAPE)
        .agg(F.sum("value").alias("counted"))
    )
    process = ["pod", "instance", "first_ms"]
    began = plain(of(inside, names.BROKER_START_TIMESTAMP_SECONDS)).select(
        *process, F.col("value").alias("began")
    )
    scrapes = (
        values_of(inside, names.PARTITION_LOG_END_OFFSET, "leo_to")
        .join(values_of(inside, names.PARTITION_LEADER_EPOCH, "leader_epoch"), list(SCRAPE), "left")
        .join(counted, list(SCRAPE), "left")
        .join(began, process, "left")
        .withColumn("counted", F.coalesce("counted", F.lit(0)))
    )
    in_order = Window.partitionBy("pod", "topic", "partition").orderBy("first_ms")
    old_count, old_began = F.lag("counted").over(in_order), F.lag("began").over(in_order)
    anew = (F.col("counted") < old_count) | ~F.col("began").eqNullSafe(old_began)
    steps = scrapes.withColumns(
        {
            "leo_from": F.lag("leo_to").over(in_order),
            "at_err_ms": at - F.lag(at).over(in_order),
            "rise": F.when(anew, F.col("counted")).otherwise(F.col("counted") - old_count),
        }
    )
    lost = F.greatest(F.col("leo_from") - F.col("leo_to"), F.col("rise"))
    cut = steps.where(F.col("leo_from").isNotNull() & (lost > 0)).withColumns(
        {"broker": broker_id("pod"), "at_ms": at, "records_low": lost}
    )
    return shaped(cut, catalogue.TRUNCATIONS)


def _counters(facts: DataFrame) -> DataFrame:
    """Return the runs of the counters with what each counts, and the value before it."""
    direction = F.concat(F.lit("replicated_"), F.col("labels")["direction"])
    records = F.col("metric") == names.PRODUCED_RECORDS_TOTAL.name
    replicated = F.col("metric") == names.REPLICATION_BYTES_TOTAL.name
    named = facts.where(F.col("metric").isin(*(each.name for each in COUNTERS))).withColumns(
        {
            "target": target_name(),
            "flow": F.when(replicated, direction).otherwise("produced"),
            "unit": F.when(records, "records").otherwise("bytes"),
        }
    )
    in_order = Window.partitionBy(*COUNTER).orderBy("first_ms")
    return named.select(
        "pod",
        *COUNTER,
        *RUN[:4],
        F.lag("value").over(in_order).alias("old_value"),
        F.lag("last_ms").over(in_order).alias("old_last_ms"),
    )


def _by_minute(moved: DataFrame) -> DataFrame:
    """Sum increases by broker, topic, minute and flow."""
    minute = F.col("at_ms") - F.col("at_ms") % MINUTE_MS
    is_bytes = F.col("unit") == "bytes"
    summed = (
        moved.where(F.col("increase").isNotNull())
        .groupBy(broker_id("pod").alias("broker"), "topic", minute.alias("minute_ms"), "flow")
        .agg(
            F.coalesce(F.sum(F.when(is_bytes, F.col("increase"))), F.lit(0)).alias("bytes"),
            F.coalesce(F.sum(F.when(~is_bytes, F.col("increase"))), F.lit(0)).alias("counted"),
            F.max(F.col("across_gap") & (F.col("increase") > 0)).alias("across_gap"),
            F.coalesce(F.sum(F.when(is_bytes, F.col("resets"))), F.lit(0)).alias("resets"),
        )
    )
    moving = (F.col("bytes") > 0) | (F.col("counted") > 0) | (F.col("resets") > 0)
    records = F.when(F.col("flow") == "produced", F.col("counted"))
    return summed.where(moving).withColumn("records", records)

"""Analysis 7: how much moved through each broker, and where did a log lose its end?

A counter that begins again counts from 0; an offset that falls was truncated. Neither is ever
taken for the other, and nothing is extrapolated, so that sums can be held against what clients
counted.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline_analysis import catalogue
from strandline_analysis.read_options import MINUTE_MS
from strandline_analysis.samples import broker_id, held, of, value_at
from strandline_analysis.schema import shaped

from .coverage import processes, target_name

COUNTERS: Final = (
    names.PRODUCED_BYTES_TOTAL,
    names.PRODUCED_RECORDS_TOTAL,
    names.REPLICATION_BYTES_TOTAL,
)
METRICS: Final = (*COUNTERS, names.BROKER_START_TIMESTAMP_SECONDS)
TRUNCATION_METRICS: Final = (names.PARTITION_LOG_END_OFFSET, names.PARTITION_LEADER_EPOCH)
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


def truncations(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return where the log end offset of a replica fell.

    Shape:   samples as schema.SAMPLES, of TRUNCATION_METRICS; the result as catalogue.TRUNCATIONS
    Units:   ms, offsets
    """
    facts = held(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms).cache()
    in_order = Window.partitionBy("pod", "topic", "partition").orderBy("first_ms")
    ends = of(facts, names.PARTITION_LOG_END_OFFSET).withColumns(
        {"leo_from": F.lag("value").over(in_order), "seen_ms": F.lag("last_ms").over(in_order)}
    )
    fallen = ends.where(F.col("value") < F.col("leo_from")).withColumns(
        {
            "broker": broker_id("pod"),
            "at_ms": F.col("first_ms"),
            "at_err_ms": F.col("first_ms") - F.col("seen_ms"),
            "leo_to": F.col("value"),
            "records_low": F.col("leo_from") - F.col("value"),
        }
    )
    dated = value_at(
        fallen, facts, names.PARTITION_LEADER_EPOCH, at="first_ms", into="leader_epoch"
    )
    return shaped(dated, catalogue.TRUNCATIONS)


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

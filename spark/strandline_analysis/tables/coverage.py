"""Analysis 12: when did a target show nothing, and which brokers' processes began anew?

Every other analysis knows as much as these rows leave. What lies before a target's first scrape
in the range is no event: it may not have been there.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline_analysis import catalogue
from strandline_analysis.run_lengths import GAP_INTERVALS
from strandline_analysis.samples import broker_id, of, steps
from strandline_analysis.schema import shaped

from .leader_states import with_bounds

UP: Final = names.Metric(
    name="up",
    kind=names.MetricKind.GAUGE,
    exporter=names.Exporter.BROKER,
    help="1 if the scrape succeeded; Prometheus itself writes it.",
)
METRICS: Final = (UP, names.BROKER_START_TIMESTAMP_SECONDS, names.UNCLEAN_STARTS_TOTAL)


def target_name() -> Column:
    """Return the name of a target: a pod keeps it when a new one takes its place elsewhere."""
    return F.coalesce("pod", "instance")


def coverage(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return the times of which the scrapes of a target tell nothing.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as catalogue.COVERAGE: kind is
             restart if another process answered afterwards, else down if scrapes failed or the
             target went away, else gap. A target may have been silent from its last good scrape
             on, and until the next one from the failed one before that, or for a scrape interval
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    return coverage_of(facts, interval_ms=interval_ms, end_ms=end_ms)


def coverage_of(facts: DataFrame, *, interval_ms: int, end_ms: int) -> DataFrame:
    """Return what `coverage` does, of facts as `samples.held` returns them."""
    runs = of(facts, UP).withColumn("target", target_name())
    good = F.col("value") > 0
    before = Window.partitionBy("target").orderBy("first_ms", "series_id")
    earlier = before.rowsBetween(Window.unboundedPreceding, -1)
    told = {
        "told_ms": F.max(F.when(good, F.col("hold_end_ms"))).over(earlier),
        "last_good_ms": F.max(F.when(good, F.col("last_ms"))).over(earlier),
        "bad_ms": F.max(F.when(~good, F.col("first_ms"))).over(earlier),
        "stale_ms": F.max(
            F.when(good & (F.col("end_reason") == "stale"), F.col("hold_end_ms"))
        ).over(earlier),
        "old_pod": F.max_by(F.struct("pod", "instance"), F.when(good, F.col("last_ms"))).over(
            earlier
        ),
    }
    ends = _ends_of_range(runs, end_ms=end_ms)
    rows = runs.unionByName(ends, allowMissingColumns=True).withColumns(told)
    next_is_end = F.col("series_id").isNull()
    distance = F.col("first_ms") - F.col("last_good_ms")
    unseen = (good | next_is_end) & (F.col("told_ms") < F.col("first_ms"))
    # The range may end between two scrapes.
    holes = rows.where(unseen & ~(next_is_end & _at_end(distance, interval_ms=interval_ms)))
    failed = (F.col("bad_ms") > F.col("last_good_ms")) | (F.col("stale_ms") == F.col("told_ms"))
    kind = F.when(F.col("restarted"), "restart").when(failed, "down").otherwise("gap")
    due = F.when(next_is_end, F.ceil(distance / interval_ms)).otherwise(
        F.round(distance / interval_ms)
    )
    back = F.coalesce(F.col("first_ms") - F.col("previous_ms"), F.lit(interval_ms))
    found = _with_restarts(holes, facts).withColumns(
        {
            "pod": F.col("old_pod.pod"),
            "instance": F.col("old_pod.instance"),
            "start_ms": F.col("told_ms"),
            "end_ms": F.col("first_ms"),
            "start_err_ms": F.col("told_ms") - F.col("last_good_ms"),
            "end_err_ms": F.when(next_is_end, 0).otherwise(back),
            "kind": kind,
            "missing_samples": F.greatest(due.cast("long") - 1, F.lit(0)),
            "ongoing": next_is_end,
        }
    )
    return shaped(with_bounds(found), catalogue.COVERAGE)


def restarts(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return when a pod's process was another than before.

    Shape:   samples as schema.SAMPLES, of METRICS; the result as catalogue.RESTARTS
    Units:   ms
    """
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    return restarts_of(facts)


def restarts_of(facts: DataFrame) -> DataFrame:
    """Return what `restarts` does, of facts as `samples.held` returns them."""
    new, first = F.col("new_start_ms"), F.col("first_ms")
    stated = (new > F.col("previous_last_ms")) & (new <= first)
    unclean = of(facts, names.UNCLEAN_STARTS_TOTAL).where(F.col("value") > 0)
    marked = unclean.select(
        target_name().alias("target"),
        F.col("first_ms").alias("unclean_first_ms"),
        F.col("last_ms").alias("unclean_last_ms"),
    )
    within = first.between(F.col("unclean_first_ms"), F.col("unclean_last_ms"))
    begun = processes(facts).where(F.col("old_start_ms").isNotNull())
    joined = (
        begun.join(marked, "target", "left")
        .groupBy("target", "first_ms")
        .agg(
            *(
                F.first(name).alias(name)
                for name in ("pod", "previous_last_ms", "old_start_ms", "new_start_ms")
            ),
            F.coalesce(F.max(within), F.lit(False)).alias("unclean"),
        )
    )
    found = joined.withColumns(
        {
            "broker": broker_id("pod"),
            "at_ms": F.when(stated, new).otherwise(first),
            "at_err_ms": F.when(stated, 0).otherwise(first - F.col("previous_last_ms")),
        }
    )
    return shaped(found, catalogue.RESTARTS)


def processes(facts: DataFrame) -> DataFrame:
    """Return one row for each process of a target that was scraped.

    Shape:   facts as `samples.held` returns them, of BROKER_START_TIMESTAMP_SECONDS
    Units:   ms

    Returns: target, pod, first_ms (its first scrape), new_start_ms (when it began to serve), and
        of the process before it old_start_ms and previous_last_ms (its last scrape), or null
    """
    runs = of(facts, names.BROKER_START_TIMESTAMP_SECONDS).select(
        target_name().alias("target"),
        "pod",
        "first_ms",
        "last_ms",
        F.round(F.col("value") * 1000).cast("long").alias("new_start_ms"),
    )
    in_order = Window.partitionBy("target").orderBy("first_ms")
    old = runs.withColumns(
        {
            "old_start_ms": F.lag("new_start_ms").over(in_order),
            "previous_last_ms": F.lag("last_ms").over(in_order),
        }
    )
    return old.where(~F.col("old_start_ms").eqNullSafe(F.col("new_start_ms")))


def _ends_of_range(runs: DataFrame, *, end_ms: int) -> DataFrame:
    """Return one row for each target at the end of the range, where a last hole may end."""
    return runs.select("target").distinct().withColumn("first_ms", F.lit(end_ms).cast("long"))


def _at_end(distance: Column, *, interval_ms: int) -> Column:
    return distance <= GAP_INTERVALS * interval_ms


def _with_restarts(holes: DataFrame, facts: DataFrame) -> DataFrame:
    """Add whether another process was scraped after each hole than before it."""
    begun = processes(facts).where(F.col("old_start_ms").isNotNull())
    other = begun.select("target", F.col("first_ms").alias("process_ms"))
    after = (F.col("process_ms") > F.col("last_good_ms")) & (
        F.col("process_ms") <= F.col("first_ms")
    )
    key = ["target", "first_ms"]
    others = holes.join(other, "target").where(after).select(*key).distinct()
    return holes.join(others.withColumn("restarted", F.lit(True)), key, "left")

"""Analysis 8: which acknowledged records were on one broker alone, and were they lost?"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline_analysis import catalogue
from strandline_analysis.samples import SERIES_KEY, broker_id, settled, steps
from strandline_analysis.schema import shaped

from . import elections, isr_sizes, watermarks
from .leader_states import leader_states, with_bounds

METRICS: Final = tuple(
    dict.fromkeys(
        (
            *watermarks.METRICS,
            *isr_sizes.METRICS,
            *elections.METRICS,
            names.PARTITION_LOG_SIZE_BYTES,
            names.PARTITION_LOG_START_OFFSET,
        )
    )
)
PARTITION: Final = ("topic", "partition")
EXPOSURE: Final = (*PARTITION, "start_ms")


def data_at_risk(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return the times in which one broker alone committed records.

    What it committed is the rise of the high watermark from the last scrape before the time, or
    the first in it, to the last in it. A leader that began behind the one before it, by an unclean
    election, committed nothing of what that one had: there the first scrape counts. It is safe
    once the same leader shows a second replica with all of it. If an unclean election follows,
    what the new leader lacked before it is lost.

    Shape:   samples as schema.SAMPLES, of METRICS and plain; the result as catalogue.DATA_AT_RISK
    Units:   ms, offsets, bytes
    """
    ranged = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    facts = steps(samples, **ranged)
    sizes = isr_sizes.sizes_of(leader_states(facts, isr_sizes.GAUGES, **ranged))
    scrapes = watermarks.leader_scrapes(samples, **ranged)
    elected = elections.elections_of(facts, **ranged)
    return exposures_of(samples, sizes=sizes, scrapes=scrapes, elected=elected, end_ms=end_ms)


def exposures_of(
    samples: DataFrame, *, sizes: DataFrame, scrapes: DataFrame, elected: DataFrame, end_ms: int
) -> DataFrame:
    """Return what `data_at_risk` does, of other tables that are made already.

    Shape:   sizes as `isr_sizes.sizes_of` returns them, scrapes as `watermarks.leader_scrapes`,
             elected as `elections.elections`
    """
    alone = sizes.where((F.col("isr_size") == 1) & (F.col("replicas") > 1))
    exposures = settled(_with_offsets(alone, scrapes))
    safe = _safe(exposures, scrapes, samples)
    lost = _lost(exposures, samples, elected)
    found = (
        exposures.join(safe, list(EXPOSURE), "left")
        .join(lost, list(EXPOSURE), "left")
        .join(_record_bytes(exposures, samples), list(EXPOSURE), "left")
    )
    recovered = F.col("safe_ms").isNotNull()
    earliest = F.col("start_ms") - F.col("start_err_ms")
    missing = F.least(F.greatest(F.col("hw_end") - F.col("kept"), F.lit(0)), F.col("offsets"))
    return shaped(
        with_bounds(found).withColumns(
            {
                "leader": broker_id("pod"),
                "recovered": recovered,
                "exposed_low_ms": F.greatest(F.col("unsafe_ms") - F.col("start_ms"), F.lit(0)),
                "exposed_high_ms": F.coalesce("safe_ms", F.lit(end_ms)) - earliest,
                "lost": F.when(recovered, 0).otherwise(F.coalesce(missing, F.lit(0))),
                "bytes": F.col("offsets") * F.col("record_bytes"),
            }
        ),
        catalogue.DATA_AT_RISK,
    )


def _with_offsets(alone: DataFrame, scrapes: DataFrame) -> DataFrame:
    """Add hw_start, hw_end, offsets, and of the last scrape pod, instance, epoch and time."""
    at = F.col("first_ms")
    before, within = at <= F.col("start_ms"), at < F.col("end_ms")
    edges = [f"{side}_{what}" for side in ("start", "end") for what in ("ms", "err_ms")]
    inside = within & (at >= F.col("start_ms"))
    joined = (
        alone.join(scrapes, list(PARTITION))
        .groupBy(*PARTITION, *edges)
        .agg(
            F.max_by(F.when(before, F.col("hw")), F.when(before, at)).alias("hw_before"),
            F.min_by(F.when(inside, F.col("hw")), F.when(inside, at)).alias("hw_first"),
            F.max_by(
                F.when(inside, F.struct("hw", "pod", "instance", "epoch", "first_ms")),
                F.when(inside, at),
            ).alias("last"),
        )
    )
    hw_start = F.least("hw_before", "hw_first")
    told = {name: F.col(f"last.{name}") for name in ("pod", "instance", "epoch")}
    found = joined.withColumns(
        {
            **told,
            "hw_start": hw_start,
            "hw_end": F.col("last.hw"),
            "offsets": F.col("last.hw") - hw_start,
            "last_ms": F.col("last.first_ms"),
        }
    )
    return found.where(F.col("offsets") > 0).drop("last", "hw_before", "hw_first")


def _safe(exposures: DataFrame, scrapes: DataFrame, samples: DataFrame) -> DataFrame:
    """Return safe_ms, when the same leadership first showed a second replica with all of it.

    unsafe_ms is its last scrape before that, if it showed that no other replica had all.
    """
    leadership = Window.partitionBy(*SERIES_KEY, "epoch").orderBy("first_ms")
    ordered = scrapes.withColumn("before_ms", F.lag("first_ms").over(leadership))
    known = watermarks.values_of(samples, names.REPLICA_LOG_END_OFFSET, "known", "replica")
    followers = known.where(F.col("replica") != broker_id("pod"))
    shown = ordered.select(*watermarks.SCRAPE, "epoch", "before_ms").join(
        followers, list(watermarks.SCRAPE)
    )
    key = ["topic", "partition", "pod", "instance", "epoch"]
    pairs = exposures.join(shown, key).where(F.col("first_ms") >= F.col("last_ms"))
    before = F.when(F.col("before_ms") >= F.col("last_ms"), F.col("before_ms"))
    has_all = F.col("known") >= F.col("hw_end")
    first = F.min(F.when(has_all, F.struct("first_ms", before.alias("before_ms"))))
    return (
        pairs.groupBy(*EXPOSURE)
        .agg(first.alias("first"), F.max("first_ms").alias("shown_ms"))
        .select(
            *EXPOSURE,
            F.col("first.first_ms").alias("safe_ms"),
            F.when(F.col("first").isNull(), F.col("shown_ms"))
            .otherwise(F.col("first.before_ms"))
            .alias("unsafe_ms"),
        )
    )


def _lost(exposures: DataFrame, samples: DataFrame, elected: DataFrame) -> DataFrame:
    """Return `kept`: the log end of the next leader before an unclean election, as last scraped."""
    following = elected.where(F.col("kind") == "unclean").select(
        *PARTITION, F.col("epoch").alias("next_epoch"), "new_leader", "t_first_new_ms"
    )
    ends = watermarks.values_of(samples, names.PARTITION_LOG_END_OFFSET, "leo").select(
        *PARTITION, broker_id("pod").alias("new_leader"), "leo", F.col("first_ms").alias("leo_ms")
    )
    in_order = Window.partitionBy(*EXPOSURE).orderBy("next_epoch")
    after = (
        exposures.join(following, list(PARTITION))
        .where(F.col("next_epoch") > F.col("epoch"))
        .withColumn("nth", F.row_number().over(in_order))
        .where(F.col("nth") == 1)
    )
    known = after.join(ends, [*PARTITION, "new_leader"]).where(
        F.col("leo_ms") < F.col("t_first_new_ms")
    )
    return known.groupBy(*EXPOSURE).agg(F.max_by("leo", "leo_ms").alias("kept"))


def _record_bytes(exposures: DataFrame, samples: DataFrame) -> DataFrame:
    """Return the mean bytes of a record in the leader's log at the last scrape."""
    log = exposures.select(*EXPOSURE, *SERIES_KEY[:2], F.col("last_ms").alias("first_ms"))
    for metric, into in (
        (names.PARTITION_LOG_SIZE_BYTES, "size"),
        (names.PARTITION_LOG_START_OFFSET, "begin"),
        (names.PARTITION_LOG_END_OFFSET, "finish"),
    ):
        log = log.join(watermarks.values_of(samples, metric, into), list(watermarks.SCRAPE))
    held_records = F.col("finish") - F.col("begin")
    mean = F.when(held_records > 0, F.col("size") / held_records)
    return log.select(*EXPOSURE, mean.alias("record_bytes"))

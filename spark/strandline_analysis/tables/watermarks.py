"""Analyses 3 and 4: what is written and not yet committed, by how much, and since when?

Offsets are compared within one scrape of the leader alone: values of two scrapes were true at two
times. Only the leader with the highest leader epoch counts.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline.names import Metric
from strandline_analysis import catalogue
from strandline_analysis.read_options import MINUTE_MS
from strandline_analysis.run_lengths import GAP_INTERVALS
from strandline_analysis.samples import SERIES_KEY, broker_id, of, plain, shared, steps
from strandline_analysis.schema import shaped

from .elections import leaderships
from .leader_states import with_bounds

LEADERSHIP: Final = (
    names.PARTITION_IS_LEADER,
    names.PARTITION_LEADER_EPOCH,
    names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS,
)
OFFSETS: Final = (names.PARTITION_LOG_END_OFFSET, names.PARTITION_HIGH_WATERMARK)
METRICS: Final = (
    *LEADERSHIP,
    *OFFSETS,
    names.REPLICA_LOG_END_OFFSET,
    names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS,
    names.PARTITION_ISR_MEMBER,
    names.PARTITION_ISR_SIZE,
    names.PARTITION_MIN_INSYNC_REPLICAS,
)
PARTITION: Final = ("topic", "partition")
STALL_MS: Final = 10_000
"""A high watermark that stands still for less is waiting, as it does between two fetches."""
SCRAPE: Final = (*SERIES_KEY, "first_ms")
"""What one scrape of one partition on one broker has in common."""


def hw_lag(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return how many offsets were written and not committed, by minute.

    Shape:   samples as schema.SAMPLES, of METRICS and plain; the result as catalogue.HW_LAG
    Units:   ms, offsets
    """
    scrapes = leader_scrapes(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    lag = scrapes.withColumn("lag", F.col("leo") - F.col("hw"))
    return shaped(_by_minute(lag, *PARTITION), catalogue.HW_LAG)


def follower_lag(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return how far each follower was behind, as its leader saw it, by minute.

    Shape:   samples as schema.SAMPLES, of METRICS and plain; the result as catalogue.FOLLOWER_LAG
    Units:   ms, offsets
    """
    scrapes = leader_scrapes(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    known = values_of(samples, names.REPLICA_LOG_END_OFFSET, "known", "replica")
    caught = values_of(samples, names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS, "caught", "replica")
    followers = (
        scrapes.join(known, list(SCRAPE))
        .where(F.col("replica") != broker_id("pod"))
        .join(caught, [*SCRAPE, "replica"], "left")
    )
    behind = F.col("first_ms") - F.round(F.col("caught") * 1000)
    lag = followers.withColumns(
        {
            "lag": F.greatest(F.col("leo") - F.col("known"), F.lit(0)),
            "behind_ms": F.greatest(behind, F.lit(0)),
        }
    )
    by_minute = _by_minute(
        lag, *PARTITION, "replica", more=[F.max(_known("behind_ms")).alias("behind_max_ms")]
    )
    return shaped(by_minute, catalogue.FOLLOWER_LAG)


def hw_stalls(
    samples: DataFrame,
    *,
    interval_ms: int,
    start_ms: int,
    end_ms: int,
    stall_ms: int = STALL_MS,
) -> DataFrame:
    """Return the times in which records were written and none committed.

    A stall is a run of scrapes without a gap with the same high watermark, all below the log's
    end, in which the log grew, whatever a later leader then lacked. Its cause is below_min_isr if
    the ISR was too small at one of them; else isr_slow_follower if in the last one the high
    watermark stood where a follower in the ISR did, the culprit if it was the only one; else
    leaderless if the leader changed.

    Shape:   samples as schema.SAMPLES, of METRICS and plain; the result as catalogue.HW_STALLS
    Units:   ms, offsets
    """
    ranged = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    scrapes = _with_isr(leader_scrapes(samples, **ranged), samples)
    stalls = _stalls(_waiting(scrapes, interval_ms=interval_ms, end_ms=end_ms))
    long_enough = F.col("last_ms") - F.col("start_ms") >= stall_ms
    slow = (F.col("isr_size") > 1) & (F.size("slow") > 0)
    found = with_bounds(
        stalls.where(F.col("grown") & long_enough).withColumn(
            "end_err_ms", F.col("end_ms") - F.col("last_ms")
        )
    ).withColumns(
        {
            "backlog": F.col("leo_end") - F.col("hw"),
            "cause": F.when(F.col("too_few"), "below_min_isr")
            .when(slow, "isr_slow_follower")
            .when(F.col("leaders") > 1, "leaderless")
            .otherwise("unknown"),
        }
    )
    culprit = F.when(
        (F.col("cause") == "isr_slow_follower") & (F.size("slow") == 1), F.col("slow")[0]
    )
    return shaped(found.withColumn("culprit", culprit), catalogue.HW_STALLS)


def hw_regressions(
    samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int
) -> DataFrame:
    """Return where a leader showed a lower high watermark than the scrape of a leader before.

    A new leader may have to catch up with what its predecessor knew. One epoch's never falls.

    Shape:   samples as schema.SAMPLES, of METRICS and plain; the result as catalogue.HW_REGRESSIONS
    Units:   ms, offsets
    """
    scrapes = leader_scrapes(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    in_order = Window.partitionBy(*PARTITION).orderBy("first_ms")
    before = scrapes.withColumns(
        {
            "hw_from": F.lag("hw").over(in_order),
            "epoch_from": F.lag("epoch").over(in_order),
            "at_err_ms": F.col("first_ms") - F.lag("first_ms").over(in_order),
        }
    )
    fallen = before.where(F.col("hw") < F.col("hw_from")).withColumns(
        {
            "broker": broker_id("pod"),
            "at_ms": F.col("first_ms"),
            "hw_to": F.col("hw"),
            "epoch_to": F.col("epoch"),
        }
    )
    return shaped(fallen, catalogue.HW_REGRESSIONS)


@shared
def leader_scrapes(
    samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int
) -> DataFrame:
    """Return the scrapes of each partition's true leader: SCRAPE, epoch, leo and hw."""
    facts = steps(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    later = Window.partitionBy(*PARTITION).orderBy("epoch")
    later = later.rowsBetween(1, Window.unboundedFollowing)
    led = leaderships(facts, interval_ms=interval_ms).select(
        *SERIES_KEY,
        "epoch",
        F.col("first_ms").alias("led_first_ms"),
        F.col("last_ms").alias("led_last_ms"),
        F.min("t_first_new_ms").over(later).alias("superseded_ms"),
    )
    ends = values_of(samples, names.PARTITION_LOG_END_OFFSET, "leo")
    marks = values_of(samples, names.PARTITION_HIGH_WATERMARK, "hw")
    at = F.col("first_ms")
    counts = at.between(F.col("led_first_ms"), F.col("led_last_ms")) & (
        F.col("superseded_ms").isNull() | (at < F.col("superseded_ms"))
    )
    pairs = ends.join(marks, list(SCRAPE)).join(led, list(SERIES_KEY)).where(counts)
    return pairs.select(*SCRAPE, "epoch", "leo", "hw").cache()


def values_of(samples: DataFrame, metric: Metric, into: str, *more: str) -> DataFrame:
    """Return the samples of one metric as SCRAPE, more columns, and the value."""
    return plain(of(samples, metric)).select(*SCRAPE, *more, F.col("value").alias(into))


def _waiting(scrapes: DataFrame, *, interval_ms: int, end_ms: int) -> DataFrame:
    """Return the scrapes with something to commit, with the number of the run that each is in."""
    in_order = Window.partitionBy(*PARTITION).orderBy("first_ms")
    at, gap_ms = F.col("first_ms"), GAP_INTERVALS * interval_ms
    before, after = F.lag(at).over(in_order), F.lead(at).over(in_order)
    waits = F.col("leo") > F.col("hw")
    goes_on = (
        (at - before <= gap_ms)
        & (F.lag("hw").over(in_order) == F.col("hw"))
        & F.lag(waits).over(in_order)
    )
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return (
        scrapes.withColumns(
            {
                "waits": waits,
                "begins": F.when(waits & goes_on, 0).otherwise(1),
                "grows": goes_on & (F.col("leo") > F.lag("leo").over(in_order)),
                "start_err_ms": F.when(at - before <= gap_ms, at - before).otherwise(interval_ms),
                "until_ms": F.when(after - at <= gap_ms, after).otherwise(
                    F.least(at + interval_ms, F.lit(end_ms))
                ),
                "ongoing": after.isNull() & (end_ms - at <= gap_ms),
            }
        )
        .withColumn("stall", F.sum("begins").over(so_far))
        .where(F.col("waits"))
    )


def _stalls(waiting: DataFrame) -> DataFrame:
    """Return one row for each run of scrapes with the same high watermark."""
    first = {"start_err_ms": "start_err_ms", "hw": "hw", "leo": "leo_start"}
    last = {
        "until_ms": "end_ms",
        "leo": "leo_end",
        "ongoing": "ongoing",
        "isr_size": "isr_size",
        "slow": "slow",
    }
    return waiting.groupBy(*PARTITION, "stall").agg(
        F.min("first_ms").alias("start_ms"),
        F.max("first_ms").alias("last_ms"),
        *(F.min_by(name, "first_ms").alias(alias) for name, alias in first.items()),
        *(F.max_by(name, "first_ms").alias(alias) for name, alias in last.items()),
        F.max_by(broker_id("pod"), "first_ms").alias("leader"),
        F.max(F.col("isr_size") < F.col("min_isr")).alias("too_few"),
        F.count_distinct("epoch").alias("leaders"),
        F.max("grows").alias("grown"),
    )


def _with_isr(scrapes: DataFrame, samples: DataFrame) -> DataFrame:
    """Add isr_size, min_isr, and slow: the followers in the ISR that are at the high watermark."""
    members = values_of(samples, names.PARTITION_ISR_MEMBER, "member", "replica")
    known = values_of(samples, names.REPLICA_LOG_END_OFFSET, "known", "replica")
    at_mark = (F.col("member") > 0) & (F.col("known") == F.col("hw"))
    slow = (
        scrapes.join(members, list(SCRAPE))
        .join(known, [*SCRAPE, "replica"])
        .where(at_mark & (F.col("replica") != broker_id("pod")))
        .groupBy(*SCRAPE)
        .agg(F.collect_list("replica").alias("slow"))
    )
    return (
        scrapes.join(values_of(samples, names.PARTITION_ISR_SIZE, "isr_size"), list(SCRAPE), "left")
        .join(
            values_of(samples, names.PARTITION_MIN_INSYNC_REPLICAS, "min_isr"), list(SCRAPE), "left"
        )
        .join(slow, list(SCRAPE), "left")
    )


def _by_minute(lag: DataFrame, *subject: str, more: list[Column] | None = None) -> DataFrame:
    """Return the largest lag of each minute, its quantiles, and the number of samples."""
    minute = F.col("first_ms") - F.col("first_ms") % MINUTE_MS
    return lag.groupBy(*subject, minute.alias("minute_ms")).agg(
        F.max("lag").alias("lag_max"),
        F.expr("percentile(lag, 0.5)").alias("lag_p50"),
        F.expr("percentile(lag, 0.99)").alias("lag_p99"),
        F.count("*").alias("sample_count"),
        *(more or ()),
    )


def _known(name: str) -> Column:
    """Return a column, null where it is null: `greatest` passes nulls over."""
    return F.when(F.col("caught").isNotNull(), F.col(name))

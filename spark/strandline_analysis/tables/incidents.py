"""Analysis 9: what went wrong, and which broker was at its root?

Episodes of the other tables that lie close together are one incident. A broker is blamed as far as
it is missing, slow or dead where the incident is, and as far as its own replicas are concerned.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline_analysis import catalogue
from strandline_analysis.samples import broker_id, held, settled
from strandline_analysis.schema import shaped, table

from . import churn, coverage, elections, isr_sizes, risk, watermarks

METRICS: Final = tuple(
    dict.fromkeys((*risk.METRICS, *churn.METRICS, *coverage.METRICS, *elections.CONTROLLER_METRICS))
)
NEAR_MS: Final = 30_000
"""An episode that begins later than this after the others is another incident."""
COUNTED_MS: Final = 60_000
"""So much of an episode keeps its incident open, so that a long one does not swallow a day."""
LAG_TIME_MAX_MS: Final = 30_000
"""replica.lag.time.max.ms, Kafka's default, unless a caller says another."""
GONE_SCORE: Final = 0.5
"""Score of a broker that was down or began anew when the incident began."""
EVIDENCE_MAX: Final = 50
"""Of more, the oldest are listed."""
EPISODES: Final = table("""
    kind string, start_ms long, end_ms long, topic string, partition integer, broker integer
""")
"""One row for each episode and broker that it points to; topic, partition and broker may be null.

kind: ur, umi, stall, leaderless, flapping, down, restart, gap or controller.
"""


def incidents(
    samples: DataFrame,
    *,
    interval_ms: int,
    start_ms: int,
    end_ms: int,
    lag_time_max_ms: int = LAG_TIME_MAX_MS,
) -> DataFrame:
    """Return the incidents, with the broker at the root of each.

    Shape:   samples as schema.SAMPLES, of METRICS and plain; the result as catalogue.INCIDENTS
    Units:   ms
    """
    ranged = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    facts = held(samples, **ranged)
    member = facts.where(F.col("metric") == names.PARTITION_ISR_MEMBER.name)
    replicas = member.groupBy(F.col("replica").alias("broker")).agg(
        F.count_distinct("topic", "partition").alias("replicas")
    )
    found = settled(episodes(samples, **ranged))
    return incidents_of(
        found, settled(replicas), interval_ms=interval_ms, lag_time_max_ms=lag_time_max_ms
    )


def episodes(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return the rows of other tables that tell of something amiss, as EPISODES."""
    ranged: dict[str, Any] = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    missing = F.explode_outer("missing_replicas").alias("broker")
    elected = elections.elections(samples, **ranged)
    lost = elected.where(F.col("kind").isin("broker_failure", "unclean"))
    begun = F.col("t_first_new_ms")
    unseen = coverage.coverage(samples, **ranged).where(F.col("kind") != "restart")
    restarted = coverage.restarts(samples, **ranged)
    led = elections.controller_elections(samples, **ranged)
    at = F.col("at_ms")
    # Who leaves less often than that has several incidents, of which each has its own episodes.
    flaps = churn.flapping(samples, **ranged).where(
        F.col("end_ms") - F.col("start_ms") <= F.col("cycles") * COUNTED_MS
    )
    parts = [
        _rows(isr_sizes.ur_episodes(samples, **ranged), "ur", missing),
        _rows(isr_sizes.umi_episodes(samples, **ranged), "umi", missing),
        _rows(watermarks.hw_stalls(samples, **ranged), "stall", F.col("culprit").alias("broker")),
        _rows(flaps, "flapping", F.col("replica").alias("broker")),
        _rows(
            lost.withColumns({"start_ms": begun - F.col("no_leader_high_ms"), "end_ms": begun}),
            "leaderless",
            F.col("old_leader").alias("broker"),
        ),
        _whole(unseen, F.col("kind"), F.col("start_ms"), F.col("end_ms"), broker_id("pod")),
        _whole(restarted, F.lit("restart"), at - F.col("at_err_ms"), at, F.col("broker")),
        _whole(led, F.lit("controller"), at - F.col("at_err_ms"), at, F.col("old_controller")),
    ]
    found = parts[0]
    for part in parts[1:]:
        found = found.unionByName(part)
    return found


def _rows(frame: DataFrame, kind: str, broker: Column) -> DataFrame:
    """Return the rows of a table about partitions as EPISODES."""
    named = F.lit(kind).alias("kind")
    return settled(frame.select(named, "start_ms", "end_ms", "topic", "partition", broker))


def _whole(frame: DataFrame, kind: Column, start: Column, end: Column, broker: Column) -> DataFrame:
    """Return the rows of a table about whole brokers as EPISODES."""
    return settled(
        frame.select(
            kind.alias("kind"),
            start.alias("start_ms"),
            end.alias("end_ms"),
            F.lit(None).cast("string").alias("topic"),
            F.lit(None).cast("int").alias("partition"),
            broker.alias("broker"),
        )
    )


def incidents_of(
    found: DataFrame, replicas: DataFrame, *, interval_ms: int, lag_time_max_ms: int
) -> DataFrame:
    """Return the incidents that episodes make.

    Shape:   found as EPISODES; replicas has broker and replicas, how many it has in all
    Units:   ms
    """
    numbered = settled(_numbered(found))
    place = F.when(F.col("topic").isNotNull(), F.struct("topic", "partition"))
    one = F.struct("kind", "start_ms", "end_ms", "topic", "partition")
    proof = F.struct(F.col("start_ms").alias("at_ms"), "kind", "broker", "topic", "partition")
    kinds = F.array_sort(F.collect_set("kind"))
    whole = settled(
        numbered.groupBy("incident").agg(
            F.min("start_ms").alias("start_ms"),
            F.max("end_ms").alias("end_ms"),
            F.count_distinct(place).alias("partitions"),
            F.count_distinct("broker").alias("brokers"),
            F.count_distinct(one).alias("episodes"),
            kinds.alias("kinds"),
            F.slice(F.array_sort(F.collect_set(proof)), 1, EVIDENCE_MAX).alias("evidence"),
        )
    )
    ranked = _ranked(
        numbered,
        whole,
        replicas,
        before_ms=interval_ms + 3 * lag_time_max_ms // 2,
        after_ms=interval_ms,
    )
    joined = whole.join(ranked, "incident", "left").withColumns(_verdict())
    number = F.concat_ws(
        "-", "start_ms", "kind", F.coalesce(F.col("root_broker").cast("string"), F.lit("none"))
    )
    return shaped(joined.withColumn("id", number), catalogue.INCIDENTS)


def _numbered(found: DataFrame) -> DataFrame:
    """Give episodes the number of their incident, which begins NEAR_MS after the last one."""
    in_order = Window.orderBy("start_ms", "end_ms")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = F.least(F.col("end_ms"), F.col("start_ms") + COUNTED_MS)
    begins = F.col("start_ms") - F.max(counted).over(earlier) > NEAR_MS
    return found.withColumn("_begins", F.coalesce(begins, F.lit(True)).cast("int")).select(
        "*", F.sum("_begins").over(so_far).alias("incident")
    )


def _ranked(
    numbered: DataFrame, whole: DataFrame, replicas: DataFrame, *, before_ms: int, after_ms: int
) -> DataFrame:
    """Return of each incident the broker with the highest score, and that of the second."""
    place = F.when(F.col("topic").isNotNull(), F.struct("topic", "partition"))
    blamed = numbered.where(F.col("broker").isNotNull() & ~F.col("kind").isin("controller", "gap"))
    hits = blamed.groupBy("incident", "broker").agg(
        F.count_distinct(place).alias("hit"), F.min("start_ms").alias("first_ms")
    )
    gone = blamed.where(F.col("kind").isin("down", "restart")).select(
        "broker", F.col("start_ms").alias("gone_ms")
    )
    begin = F.col("start_ms")
    near = F.col("gone_ms").between(begin - before_ms, begin + after_ms)
    absent = (
        whole.select("incident", "start_ms").join(gone, near).groupBy("incident", "broker")
    ).agg(F.min("gone_ms").alias("gone_ms"))
    key = ["incident", "broker"]
    candidates = (
        hits.join(absent, key, "full")
        .join(replicas, "broker", "left")
        .join(whole.select("incident", "partitions"), "incident")
        .fillna(0, ["hit"])
    )
    share = F.coalesce(F.try_divide("hit", "partitions"), F.lit(0.0))
    own = F.coalesce(F.try_divide("hit", "replicas"), F.lit(0.0))
    bonus = F.when(F.col("gone_ms").isNotNull(), GONE_SCORE).otherwise(0.0)
    first = F.least("first_ms", "gone_ms")
    scored = candidates.withColumns({"score": share * own + bonus, "first_ms": first})
    best = Window.partitionBy("incident").orderBy(F.desc("score"), "first_ms", "broker")
    return (
        scored.withColumns(
            {"place": F.row_number().over(best), "second": F.lead("score").over(best)}
        )
        .where(F.col("place") == 1)
        .select("incident", "broker", "score", "second", "gone_ms")
    )


def _verdict() -> dict[str, Column]:
    """Return kind, root_broker and confidence."""
    score, second = F.col("score"), F.coalesce("second", F.lit(0.0))
    stands_out = F.coalesce(score > 0, F.lit(False))
    even = stands_out & (score == second) & F.col("gone_ms").isNull()
    unseen = F.size(F.array_except("kinds", F.array(F.lit("down"), F.lit("gap")))) == 0
    elected = F.size(F.array_except("kinds", F.array(F.lit("controller")))) == 0
    kind = (
        F.when(elected, "controller")
        .when(unseen, "scrape")
        .when(even, "network")
        .when(stands_out, "broker")
        .otherwise("unknown")
    )
    return {
        "kind": kind,
        "root_broker": F.when(stands_out & ~even, F.col("broker")),
        "confidence": F.when(stands_out, F.least(score - second, F.lit(1.0))).otherwise(0.0),
    }

"""Analysis 9: what went wrong, and which broker was at its root?

Episodes of the other tables that lie close together are one incident. A broker is blamed as far as
it is missing, slow or dead where the incident is, and as far as its own replicas are concerned.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import chain
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline_analysis import catalogue
from strandline_analysis.few_rows import side_by_side
from strandline_analysis.samples import broker_id, of, settled, steps
from strandline_analysis.schema import shaped, table

from . import churn, coverage, elections, isr_sizes, watermarks
from .leader_states import leader_states

STEPS: Final = tuple(
    dict.fromkeys(
        (
            *isr_sizes.METRICS,
            *coverage.METRICS,
            *elections.METRICS,
            *elections.CONTROLLER_METRICS,
        )
    )
)
"""Metrics that seldom change, so that their samples make few runs."""
METRICS: Final = tuple(dict.fromkeys((*STEPS, *watermarks.METRICS)))
CURVE_METRICS: Final = (*watermarks.LEADERSHIP, *watermarks.OFFSETS)
NEAR_MS: Final = 10_000
"""An episode that begins later than this after the others is another incident."""
COUNTED_MS: Final = 60_000
"""So much of an episode keeps its incident open, so that a long one does not swallow a day."""
CURVES_MAX: Final = 3
"""Incidents of which curves are made: those with the most partitions."""
AROUND_MS: Final = 30_000
"""So long before and after an incident its curves reach."""
CURVE_MS_MAX: Final = 600_000
"""So long a curve is at most."""
GONE_SCORE: Final = 0.5
"""Score of a broker that was down or began anew in the incident."""
EVIDENCE_MAX: Final = 50
"""Of more, the oldest are listed."""
EPISODES: Final = table("""
    kind string, start_ms long, end_ms long, topic string, partition integer, broker integer
""")
"""One row for each episode and broker that it points to; topic, partition and broker may be null.

kind: ur, umi, stall, leaderless, flapping, down, restart, gap or controller.
"""


def incidents(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return the incidents, with the broker at the root of each.

    Shape:   samples as schema.SAMPLES, of METRICS and plain; the result as catalogue.INCIDENTS
    Units:   ms
    """
    ranged = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    facts = steps(samples, **ranged)
    replicas = (
        of(facts, names.PARTITION_ISR_MEMBER)
        .groupBy(F.col("replica").alias("broker"))
        .agg(F.count_distinct("topic", "partition").alias("replicas"))
    )
    found = settled(episodes(samples, facts, **ranged))
    return incidents_of(found, settled(replicas))


def incident_curves(
    samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int, incidents: DataFrame
) -> DataFrame:
    """Return what the leaders showed around the incidents with the most partitions.

    Of each incident the partition with the most evidence is taken, one that stalled if any did.

    Shape:   samples as schema.SAMPLES, of CURVE_METRICS and plain; incidents as
             catalogue.INCIDENTS; the result as catalogue.INCIDENT_CURVES
    Units:   ms
    """
    widest = Window.orderBy(F.desc("partitions"), "start_ms", "id")
    proofs = incidents.withColumn("proof", F.explode("evidence")).select(
        *("id", "partitions", "start_ms", "end_ms"),
        *("proof.topic", "proof.partition", "proof.kind"),
    )
    places = (
        proofs.where(F.col("topic").isNotNull())
        .groupBy("id", "partitions", "start_ms", "end_ms", "topic", "partition")
        .agg(F.count("*").alias("signs"), F.count_if(F.col("kind") == "stall").alias("stalls"))
    )
    most = Window.partitionBy("id").orderBy(F.desc("stalls"), F.desc("signs"), "topic", "partition")
    chosen = (
        places.withColumn("nth", F.row_number().over(most))
        .where(F.col("nth") == 1)
        .withColumn("place", F.row_number().over(widest))
        .where(F.col("place") <= CURVES_MAX)
    )
    begin = F.col("start_ms") - AROUND_MS
    finish = F.least(F.col("end_ms") + AROUND_MS, begin + CURVE_MS_MAX)
    windows = settled(
        chosen.select(
            F.col("id").alias("incident"),
            "topic",
            "partition",
            begin.alias("begin_ms"),
            finish.alias("finish_ms"),
        )
    )
    scrapes = watermarks.leader_scrapes(
        samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms
    )
    within = F.col("first_ms").between(F.col("begin_ms"), F.col("finish_ms"))
    shown = scrapes.join(F.broadcast(windows), ["topic", "partition"]).where(within)
    told = {"leader": broker_id("pod"), "at_ms": F.col("first_ms"), "at_err_ms": F.lit(0)}
    return shaped(shown.withColumns(told), catalogue.INCIDENT_CURVES)


def episodes(
    samples: DataFrame, facts: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int
) -> DataFrame:
    """Return the rows of other tables that tell of something amiss, as EPISODES.

    Shape:   facts as `samples.held` returns them, of STEPS
    """
    ranged: dict[str, Any] = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    found = side_by_side(
        facts.sparkSession,
        partial(_of_isr, facts, **ranged),
        partial(_of_leaders, samples, facts, **ranged),
        partial(_of_brokers, facts, interval_ms=interval_ms, end_ms=end_ms),
    )
    return reduce(DataFrame.unionByName, chain.from_iterable(found))


def _of_isr(facts: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> list[DataFrame]:
    """Return the times with too small an ISR, and those of a replica that came and went."""
    told = (*isr_sizes.GAUGES, names.PARTITION_ISR_MEMBER)
    states = leader_states(facts, told, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    sizes = isr_sizes.sizes_of(states)
    small, smaller = (
        isr_sizes.episodes_of(states, sizes, table=table, end_ms=end_ms, merge_gap_ms=NEAR_MS)
        for table in (catalogue.UR_EPISODES, catalogue.UMI_EPISODES)
    )
    missing = F.explode_outer("missing_replicas").alias("broker")
    # Who leaves less often than that has several incidents, of which each has its own episodes.
    flaps = churn.flapping_of(of(states, names.PARTITION_ISR_MEMBER)).where(
        F.col("end_ms") - F.col("start_ms") <= F.col("cycles") * COUNTED_MS
    )
    # It names a replica. How long that was missing is told by the times under-replicated; between
    # them other things may have happened.
    flaps = flaps.withColumn("end_ms", F.least("end_ms", F.col("start_ms") + COUNTED_MS))
    return [
        _rows(small, "ur", missing),
        _rows(smaller, "umi", missing),
        _rows(flaps, "flapping", F.col("replica").alias("broker")),
    ]


def _of_leaders(
    samples: DataFrame, facts: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int
) -> list[DataFrame]:
    """Return the times without a leader, and those in which one committed nothing."""
    ranged: dict[str, Any] = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    elected = elections.elections_of(facts, **ranged)
    lost = elected.where(F.col("kind").isin("broker_failure", "unclean"))
    begun = F.col("t_first_new_ms")
    without = lost.withColumns({"start_ms": begun - F.col("no_leader_low_ms"), "end_ms": begun})
    stalls = watermarks.hw_stalls(samples, **ranged)
    return [
        _rows(without, "leaderless", F.col("old_leader").alias("broker")),
        _rows(stalls, "stall", F.col("culprit").alias("broker")),
    ]


def _of_brokers(facts: DataFrame, *, interval_ms: int, end_ms: int) -> list[DataFrame]:
    """Return what is told of a whole broker: that it was not reached, began anew, or acted."""
    whole = coverage.coverage_of(facts, interval_ms=interval_ms, end_ms=end_ms)
    # Where no scrape was missed, the next process says all that happened.
    unseen = whole.where((F.col("kind") != "restart") | (F.col("missing_samples") > 0))
    # A process that another one follows was down until then.
    silent = F.when(F.col("kind") == "gap", "gap").otherwise("down")
    restarted = coverage.restarts_of(facts)
    led = elections.controller_elections_of(facts, interval_ms=interval_ms)
    at = F.col("at_ms")
    return [
        _whole(unseen, silent, F.col("start_ms"), F.col("end_ms"), broker_id("pod")),
        _whole(restarted, F.lit("restart"), at - F.col("at_err_ms"), at, F.col("broker")),
        _whole(led, F.lit("controller"), at - F.col("at_err_ms"), at, F.col("old_controller")),
    ]


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


def incidents_of(found: DataFrame, replicas: DataFrame) -> DataFrame:
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
    joined = whole.join(_ranked(numbered, whole, replicas), "incident", "left").withColumns(
        _verdict()
    )
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


def _ranked(numbered: DataFrame, whole: DataFrame, replicas: DataFrame) -> DataFrame:
    """Return of each incident the broker with the highest score, and that of the second."""
    place = F.when(F.col("topic").isNotNull(), F.struct("topic", "partition"))
    blamed = numbered.where(F.col("broker").isNotNull() & ~F.col("kind").isin("controller", "gap"))
    candidates = (
        blamed.groupBy("incident", "broker")
        .agg(
            F.count_distinct(place).alias("hit"),
            F.min("start_ms").alias("first_ms"),
            F.max(F.col("kind").isin("down", "restart")).alias("gone"),
        )
        .join(replicas, "broker", "left")
        .join(whole.select("incident", "partitions"), "incident")
    )
    share = F.coalesce(F.try_divide("hit", "partitions"), F.lit(0.0))
    own = F.coalesce(F.try_divide("hit", "replicas"), F.lit(0.0))
    bonus = F.when(F.col("gone"), GONE_SCORE).otherwise(0.0)
    best = Window.partitionBy("incident").orderBy(F.desc("score"), "first_ms", "broker")
    return (
        candidates.withColumn("score", share * own + bonus)
        .withColumns({"place": F.row_number().over(best), "second": F.lead("score").over(best)})
        .where(F.col("place") == 1)
        .select("incident", "broker", "score", "second", "gone")
    )


def _verdict() -> dict[str, Column]:
    """Return kind, root_broker and confidence."""
    score, second = F.col("score"), F.coalesce("second", F.lit(0.0))
    stands_out = F.coalesce(score > 0, F.lit(False))
    even = stands_out & (score == second) & ~F.col("gone")
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

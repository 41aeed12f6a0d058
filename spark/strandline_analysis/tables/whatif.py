"""Analysis 10: what would another replica.lag.time.max.ms have done?

A replay of what was recorded. An absence of a follower begins when it last had everything, as its
leader tells, and ends when it has everything again. Under another setting the follower leaves at
the leader's first check at which its absence is longer than the setting; leaders check twice in
that time. The counts are bounds: between two scrapes neither the check nor the return is seen.

What clients would have done differently is not replayed, and absences shorter than a gap between
scrapes are not seen: settings that short are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline_analysis import catalogue, schema
from strandline_analysis.run_lengths import GAP_INTERVALS
from strandline_analysis.samples import SERIES_KEY, broker_id
from strandline_analysis.schema import shaped

from . import watermarks

METRICS: Final = (
    *watermarks.LEADERSHIP,
    *watermarks.OFFSETS,
    names.REPLICA_LOG_END_OFFSET,
    names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS,
    names.PARTITION_ISR_MEMBER,
    names.PARTITION_REPLICAS,
    names.PARTITION_MIN_INSYNC_REPLICAS,
)
SETTINGS_MS: Final = (1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 45_000, 60_000)
"""Settings that are replayed, besides the one that was in force."""
CHECKS_PER_LAG: Final = 2
"""A leader looks for replicas that fell behind twice in replica.lag.time.max.ms, as Kafka does."""
COUNTED: Final = catalogue.LAGTIME_WHATIF.names[1:]
FOLLOWER: Final = (*SERIES_KEY, "epoch", "replica")
"""One follower under one leadership."""
ABSENCE: Final = schema.table("""
    topic string, partition integer, begin_ms long, seen_ms long, until_ms long, returned boolean,
    behind boolean, inside boolean, inside_ms long, replicas integer, min_isr integer
""")
"""One row for each time in which a follower did not have everything.

begin_ms: when it last had. seen_ms: the last scrape that showed so. until_ms: when it had again at
the latest, or the end of what is known. behind: whether records were lacking. inside: whether a
scrape of the absence showed it in the ISR; inside_ms: the last that did, or begin_ms.
"""


def lagtime_whatif(
    samples: DataFrame,
    *,
    interval_ms: int,
    start_ms: int,
    end_ms: int,
    lag_time_max_ms: int = catalogue.LAG_TIME_MAX_MS,
) -> DataFrame:
    """Return what each setting would have done, in bounds.

    Shape:   samples as schema.SAMPLES, of METRICS and plain; the result as
             catalogue.LAGTIME_WHATIF, one row for each setting longer than a gap
    Units:   ms
    """
    settings = settings_of(interval_ms=interval_ms, lag_time_max_ms=lag_time_max_ms)
    found = absences(samples, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)
    long_enough = F.col("until_ms") - F.col("begin_ms") > min(settings)
    # Few rows are left of however many samples. Spark's own way to numpy, `applyInArrow`, would
    # ask for pandas, which the image does not have.
    # Who was outside from the begin left by an election, or under an earlier leader.
    counts = long_enough & F.col("behind") & F.col("inside")
    absent = found.where(counts).toArrow().to_pylist()
    rows = replayed(absent, settings, start_ms=start_ms)
    one = schema.struct(catalogue.LAGTIME_WHATIF)
    return shaped(samples.sparkSession.createDataFrame(rows, one), catalogue.LAGTIME_WHATIF)


def settings_of(*, interval_ms: int, lag_time_max_ms: int) -> list[int]:
    """Return the settings that are replayed: those longer than a gap, and the one in force."""
    long_enough = {each for each in SETTINGS_MS if each > GAP_INTERVALS * interval_ms}
    return sorted(long_enough | {lag_time_max_ms})


def absences(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return when followers did not have everything, as ABSENCE."""
    ranged = {"interval_ms": interval_ms, "start_ms": start_ms, "end_ms": end_ms}
    seen = watermarks.leader_scrapes(samples, **ranged)
    for metric, into, more in (
        (names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS, "caught", "replica"),
        (names.REPLICA_LOG_END_OFFSET, "known", "replica"),
        (names.PARTITION_ISR_MEMBER, "member", "replica"),
        (names.PARTITION_REPLICAS, "replicas", ""),
        (names.PARTITION_MIN_INSYNC_REPLICAS, "min_isr", ""),
    ):
        key = [*watermarks.SCRAPE, *([more] if more and into != "caught" else [])]
        values = watermarks.values_of(samples, metric, into, *([more] if more else []))
        seen = seen.join(values, key)
    followers = seen.where(F.col("replica") != broker_id("pod"))
    at, gap_ms = F.col("first_ms"), GAP_INTERVALS * interval_ms
    in_order = Window.partitionBy(*FOLLOWER).orderBy("first_ms")
    goes_on = F.lead(at).over(in_order) - at <= gap_ms
    caught = F.round(F.col("caught") * 1000).cast("long")
    told = followers.withColumns(
        {
            "begin_ms": caught,
            "next_ms": F.when(goes_on, F.lead(caught).over(in_order)),
            "inside_ms": F.when(F.col("member") > 0, at),
        }
    )
    last = {name: F.max_by(name, "first_ms").alias(name) for name in ("replicas", "min_isr")}
    whole = told.groupBy(*FOLLOWER, "begin_ms").agg(
        F.max("first_ms").alias("seen_ms"),
        F.max_by("next_ms", "first_ms").alias("next_ms"),
        F.max(F.col("leo") > F.col("known")).alias("behind"),
        F.max("inside_ms").isNotNull().alias("inside"),
        F.coalesce(F.max("inside_ms"), F.col("begin_ms")).alias("inside_ms"),
        *last.values(),
    )
    known_until = F.least(F.col("seen_ms") + interval_ms, F.lit(end_ms))
    found = whole.withColumns(
        {
            "until_ms": F.greatest("seen_ms", F.coalesce("next_ms", known_until)),
            "returned": F.col("next_ms").isNotNull(),
        }
    )
    return found.select(*(F.col(each.name).cast(each.dataType) for each in ABSENCE))


def replayed(
    absent: Iterable[Mapping[str, Any]], settings: Sequence[int], *, start_ms: int
) -> list[dict[str, int]]:
    """Return what each setting would have done with the absences of all partitions.

    Shape:   absent as ABSENCE
    """
    by_partition: defaultdict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for each in absent:
        by_partition[each["topic"], each["partition"]].append(each)
    rows = [dict.fromkeys(COUNTED, 0) | {"setting_ms": setting} for setting in settings]
    for _, found in sorted(by_partition.items()):
        for row, more in zip(rows, _of_partition(found, settings, start_ms=start_ms), strict=True):
            for name in COUNTED:
                row[name] += more[name]
    return [{name: row[name] for name in catalogue.LAGTIME_WHATIF.names} for row in rows]


def _of_partition(
    absent: Sequence[Mapping[str, Any]], settings: Sequence[int], *, start_ms: int
) -> Iterator[dict[str, int]]:
    """Yield what each setting would have done with the absences of one partition.

    A follower that would have left before start_ms is out from there on, and leaves no more. Where
    a topic had several min.insync.replicas or numbers of replicas, the bounds are those of all.
    """
    begin, seen, until, inside = (
        np.array([each[name] for each in absent], np.int64)
        for name in ("begin_ms", "seen_ms", "until_ms", "inside_ms")
    )
    returned = np.array([each["returned"] for each in absent], bool)
    replicas, min_isr = ([each[name] for each in absent] for name in ("replicas", "min_isr"))
    # So many must be out for acks=all to stop: the most for the low bound, the least for the high.
    enough = {"low": max(replicas) - min(min_isr) + 1, "high": min(replicas) - max(min_isr) + 1}
    lag = np.array(settings)[:, None]
    late = lag + lag // CHECKS_PER_LAG
    waited = np.minimum(until - begin, late)
    extra = np.maximum(waited - (np.minimum(inside, until) - begin), 0).sum(axis=1)
    # In each bound: who leaves, whether that is in the range, from when on, and until when.
    bounds = {
        "low": (seen - begin > late, begin + lag >= start_ms, begin + late, seen),
        "high": (until - begin > lag, begin + late >= start_ms, begin + lag, until),
    }
    for number in range(len(settings)):
        row = {"extra_hw_stall_ms": int(extra[number])}
        for bound, (leaves, within, since, ends) in bounds.items():
            left = leaves[number]
            outs = np.maximum(since[number], start_ms)[left]
            spans = list(zip(outs.tolist(), ends[left].tolist(), strict=True))
            row[f"shrinks_{bound}"] = int((left & within[number]).sum())
            row[f"expands_{bound}"] = int((left & returned).sum())
            row[f"ur_{bound}_ms"] = covered_ms(spans, at_least=1)
            row[f"umi_{bound}_ms"] = covered_ms(spans, at_least=max(enough[bound], 1))
        yield row


def covered_ms(spans: Iterable[tuple[int, int]], *, at_least: int) -> int:
    """Return for how long at least so many of the spans lie over each other."""
    edges = sorted(edge for begin, end in spans for edge in ((begin, 1), (end, -1)))
    total = depth = last = 0
    for at, step in edges:
        if depth >= at_least:
            total += at - last
        depth, last = depth + step, at
    return total

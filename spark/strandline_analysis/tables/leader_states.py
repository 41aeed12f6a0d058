"""What the leaders of partitions told, as intervals: who is in sync, how many, of how many.

Called by the analyses that need it. At each moment the samples of the leader with the highest
leader epoch count; samples of an earlier leader no longer do. Intervals start and end as exactly
as the leader's own timestamps tell, and carry their possible error. Nothing is carried over what
was not scraped: such a time is an interval without a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from strandline import names
from strandline.names import Metric
from strandline_analysis import schema
from strandline_analysis.few_rows import are_few
from strandline_analysis.run_lengths import GAP_INTERVALS
from strandline_analysis.samples import (
    SERIES_KEY,
    broker_id,
    settled,
    shared,
    under_epochs,
    value_at,
)

EDGES: Final = (
    names.PARTITION_LEADER_EPOCH,
    names.PARTITION_PARTITION_EPOCH,
    names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS,
    names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS,
)
"""Metrics that tell under which epoch, and since when, a leader's other gauges have their value."""
OF_ISR: Final = (names.PARTITION_ISR_MEMBER, names.PARTITION_ISR_SIZE)
"""Gauges that change when, and only when, the leader's time of the last ISR change does."""
GAUGES: Final = (*OF_ISR, names.PARTITION_REPLICAS, names.PARTITION_MIN_INSYNC_REPLICAS)
"""Gauges of leaders that analyses need."""

LEADER_STATES: Final = schema.table("""
    metric string, topic string, partition integer, replica integer, value double,
    start_ms long, end_ms long, start_err_ms long, end_err_ms long,
    start_reason string, end_reason string, sample_count long, leader_epoch long, leader integer
""")
"""What `leader_states` returns.

value, leader_epoch and leader (a broker id) are null where the samples tell nothing, the latter
two else those at the start. replica is null for gauges of a whole partition.
"""

SUBJECT: Final = ("metric", "topic", "partition", "replica")


def leader_states(
    facts: DataFrame, gauges: Sequence[Metric], *, interval_ms: int, start_ms: int, end_ms: int
) -> DataFrame:
    """Return when each gauge of leaders had which value; of few rows those of all GAUGES.

    So tables of few rows share one frame: to plan it takes longer than its rows.

    Shape:   facts as `samples.held` returns them, of the gauges and EDGES; the result as
             LEADER_STATES: for each SUBJECT disjoint, in order, without holes over
             [start_ms, end_ms), neighbours differing in value
    Units:   ms
    """
    made = GAUGES if are_few(facts.sparkSession) else tuple(gauges)
    return _states(facts, made, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms)


@shared
def _states(
    facts: DataFrame, gauges: Sequence[Metric], *, interval_ms: int, start_ms: int, end_ms: int
) -> DataFrame:
    """Return what `leader_states` does, of the gauges alone."""
    told = facts.where(F.col("metric").isin(*(gauge.name for gauge in gauges)))
    pieces = _under_epochs(told, facts, interval_ms=interval_ms)
    # Each is used more than once by what follows.
    pieces = settled(_with_edges(pieces, facts, interval_ms=interval_ms))
    known = settled(_merged(_truth(pieces, start_ms=start_ms, end_ms=end_ms)))
    whole = _without_holes(known, start_ms=start_ms, end_ms=end_ms)
    columns = (F.col(field.name).cast(field.dataType) for field in LEADER_STATES)
    return settled(whole.select(*columns))


def with_bounds(frame: DataFrame) -> DataFrame:
    """Add the bounds of the true duration of each row, duration_low_ms and duration_high_ms.

    Shape:   frame has start_ms, end_ms, start_err_ms and end_err_ms
    Units:   ms
    """
    length = F.col("end_ms") - F.col("start_ms")
    low = F.greatest(length - F.col("end_err_ms"), F.lit(0))
    return frame.withColumns(
        {"duration_low_ms": low, "duration_high_ms": length + F.col("start_err_ms")}
    )


def _under_epochs(told: DataFrame, facts: DataFrame, *, interval_ms: int) -> DataFrame:
    """Split the runs of each leader where its own leader epoch changes."""
    first, last = F.col("first_ms"), F.col("last_ms")
    pace_ms = F.when(F.col("sample_count") > 1, (last - first) / (F.col("sample_count") - 1))
    seen_first = F.greatest(first, F.col("epoch_first_ms"))
    seen_last = F.least(last, F.col("epoch_end_ms") - 1)
    seen_count = (seen_last - seen_first) / F.coalesce(pace_ms, F.lit(interval_ms)) + 1.5
    begun_in = F.col("epoch_first_ms") > first
    ended_in = F.col("epoch_end_ms") < F.col("hold_end_ms")
    paired = under_epochs(told, facts)
    return paired.where((seen_first < F.col("epoch_end_ms")) & (seen_first <= last)).withColumns(
        {
            "first_ms": seen_first,
            "told_ms": F.least("last_ms", "epoch_last_ms"),
            "start_reason": F.when(begun_in, "leader_change").otherwise(F.col("start_reason")),
            "previous_ms": F.when(~begun_in, F.col("previous_ms")),
            "end_ms": F.least("hold_end_ms", "epoch_end_ms"),
            "end_reason": F.when(ended_in, "leader_change").otherwise(F.col("end_reason")),
            "sample_count": F.floor(seen_count),
        }
    )


def _with_edges(pieces: DataFrame, facts: DataFrame, *, interval_ms: int) -> DataFrame:
    """Move the starts of pieces to the moments that the leader's timestamps tell.

    The time of a change within one leadership is known exactly if the partition epoch rose by
    one since the previous scrape: then it was the only change. The first scrape of a leadership
    shows when the leadership began, and whether the ISR changed since; see `_with_begin`.
    """
    known = pieces
    for metric, at, into in (
        (names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS, "first_ms", "changed"),
        (names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS, "first_ms", "since"),
        (names.PARTITION_PARTITION_EPOCH, "first_ms", "version"),
        (names.PARTITION_PARTITION_EPOCH, "previous_ms", "version_before"),
        (names.PARTITION_PARTITION_EPOCH, "told_ms", "version_told"),
    ):
        known = value_at(known, facts, metric, at=at, into=into)
    known = _with_begin(
        known.withColumns(
            {
                "changed": F.round(F.col("changed") * 1000),
                "since": F.round(F.col("since") * 1000),
                "of_isr": F.col("metric").isin(*(gauge.name for gauge in OF_ISR)),
            }
        )
    )
    first, changed, since = F.col("first_ms"), F.col("changed"), F.col("since")
    alone = F.col("version") == F.col("version_before") + 1
    stated = F.col("of_isr") & (changed > F.col("previous_ms")) & (changed <= first) & alone
    leadership = Window.partitionBy("topic", "partition", "epoch")
    began = (
        (first == F.min("first_ms").over(leadership))
        & (first - since <= GAP_INTERVALS * interval_ms)
        & (since <= first)
    )
    start = F.when(began, F.col("begin_ms")).when(stated, changed).otherwise(first).cast("long")
    error = F.when(began, F.col("begin_err_ms")).when(stated, 0)
    # A scrape that failed, without a gap, leaves more than an interval for the change.
    error = F.coalesce(error, first - F.col("previous_ms"), F.lit(interval_ms)).cast("long")
    moved = known.withColumns({"start_ms": start, "start_err_ms": error})
    # A piece ends where the next piece of its series starts; that start may just have moved.
    series = Window.partitionBy("metric", *SERIES_KEY, "replica").orderBy("first_ms")
    next_start, next_error = (F.lead(name).over(series) for name in ("start_ms", "start_err_ms"))
    adjoins = F.lead("first_ms").over(series) == F.col("end_ms")
    end = F.when(adjoins, next_start).otherwise(F.col("end_ms"))
    error = F.when(adjoins, next_error).otherwise(interval_ms)
    return moved.withColumns({"end_ms": end, "end_err_ms": error})


def _with_begin(pieces: DataFrame) -> DataFrame:
    """Add begin_ms and begin_err_ms: the start of a piece that a leadership's first scrape shows.

    It is the begin of the leadership; of the ISR it is the new leader's own last change, as the
    ISR may have been the one before until then.

    An election raises the partition epoch by one, and each change of the ISR by one. Where the
    election and the new leader's own change are all that raised it since the last sample of the
    leadership before, the ISR was the same up to the election. Else the leader before may have
    changed it unseen, at any time since that sample. Nothing tells such a thing of other gauges.

    Shape:   pieces has epoch, first_ms, told_ms (the time of its last sample), of_isr, changed and
             since in ms, version at first_ms and version_told at told_ms
    """
    in_order = Window.partitionBy("topic", "partition").orderBy("epoch")
    earlier = in_order.rangeBetween(Window.unboundedPreceding, -1)
    before = F.max(F.struct("epoch", "told_ms", "version_told")).over(earlier)
    changed, since = F.col("changed"), F.col("since")
    rose = F.col("version") - F.col("before.version_told")
    is_all = ((changed == since) & (rose == 1)) | ((changed > since) & (rose == 2))
    own_change = F.col("of_isr") & changed.between(since, F.col("first_ms"))
    begin = F.when(own_change, changed).otherwise(since)
    since_begin = F.when(own_change, changed).otherwise(F.col("first_ms")) - since
    told = F.col("of_isr") & F.coalesce(is_all, F.lit(False))
    # Without a leadership before its sample is null, which `greatest` passes over.
    reach = F.greatest(since_begin, begin - F.col("before.told_ms"))
    error = F.when(told, since_begin).otherwise(reach)
    dated = pieces.withColumn("before", before)
    return dated.withColumns({"begin_ms": begin, "begin_err_ms": error}).drop("before")


def _truth(pieces: DataFrame, *, start_ms: int, end_ms: int) -> DataFrame:
    """Cut every leadership off where a later one begins.

    A leadership that begins after a hole follows none: the hole ends with its first scrape, and
    what that shows may have been so for longer than an error tells. The gauges of the ISR have a
    begin of their own.
    """
    in_order = Window.partitionBy("topic", "partition", "of_isr").orderBy("epoch")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    later = in_order.rowsBetween(1, Window.unboundedFollowing)
    key = ["topic", "partition", "epoch", "of_isr"]
    leaderships = (
        pieces.groupBy(*key)
        .agg(
            F.min(F.struct("start_ms", "start_err_ms")).alias("begun"),
            F.max("end_ms").alias("ended_ms"),
        )
        .select(
            *key,
            F.min("begun").over(later).alias("superseded"),
            F.col("begun.start_ms").alias("begun_ms"),
            F.max("ended_ms").over(earlier).alias("known_ms"),
        )
    )
    cut = F.coalesce(F.col("superseded.start_ms") <= F.col("end_ms"), F.lit(False))
    follows = (F.col("start_ms") == F.col("begun_ms")) & (F.col("known_ms") >= F.col("begun_ms"))
    error = F.when(cut, F.col("superseded.start_err_ms")).otherwise(F.col("end_err_ms"))
    bounded = pieces.join(leaderships, key).withColumns(
        {
            "start_ms": F.greatest("start_ms", F.lit(start_ms)),
            "start_reason": F.when(follows, "leader_change").otherwise(F.col("start_reason")),
            # Without a later leadership its start is null, which `least` passes over.
            "end_ms": F.least("end_ms", "superseded.start_ms", F.lit(end_ms)),
            "end_err_ms": error,
            "end_reason": F.when(cut, "leader_change").otherwise(F.col("end_reason")),
        }
    )
    return bounded.where(F.col("start_ms") < F.col("end_ms"))


def _merged(truth: DataFrame) -> DataFrame:
    """Merge touching intervals of equal state, also across changes of leader."""
    in_order = Window.partitionBy(*SUBJECT).orderBy("start_ms")
    touches = F.lag("end_ms").over(in_order) >= F.col("start_ms")
    goes_on = touches & (F.lag("value").over(in_order) == F.col("value"))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    begun = truth.withColumn("_begins", F.when(goes_on, 0).otherwise(1))
    numbered = begun.withColumn("_interval", F.sum("_begins").over(so_far))
    at_start, at_end = ("start_err_ms", "start_reason"), ("end_err_ms", "end_reason")
    return numbered.groupBy(*SUBJECT, "_interval", "value").agg(
        *(F.min_by(name, "start_ms").alias(name) for name in at_start),
        *(F.max_by(name, "start_ms").alias(name) for name in at_end),
        F.min_by("epoch", "start_ms").alias("leader_epoch"),
        F.min_by(broker_id("pod"), "start_ms").alias("leader"),
        F.sum("sample_count").alias("sample_count"),
        F.min("start_ms").alias("start_ms"),
        F.max("end_ms").alias("end_ms"),
    )


def _without_holes(known: DataFrame, *, start_ms: int, end_ms: int) -> DataFrame:
    """Fill every hole with an interval that has no value.

    A hole reaches from the end of the interval before it to the start of the next.
    """
    # What an interval tells of its start and end: the values at the edges of the range.
    edges = {"ms": (start_ms, end_ms), "err_ms": (0, 0), "reason": ("range", "range")}
    end_of_range = {f"start_{name}": F.lit(end) for name, (_, end) in edges.items()}
    in_order = Window.partitionBy(*SUBJECT).orderBy("start_ms")
    before = {
        f"start_{name}": F.lag(f"end_{name}", 1, start).over(in_order)
        for name, (start, _) in edges.items()
    }
    after = {f"end_{name}": F.col(f"start_{name}") for name in edges}
    ends = known.select(*SUBJECT).distinct().withColumns(end_of_range)
    between = known.unionByName(ends, allowMissingColumns=True).withColumns(before | after)
    holes = between.where(F.col("start_ms") < F.col("end_ms")).select(
        *SUBJECT, *before, *after, F.lit(0).alias("sample_count")
    )
    return known.unionByName(holes, allowMissingColumns=True)

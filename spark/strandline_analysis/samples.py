"""How long each sampled value holds.

Every analysis uses it. A value holds until the next sample of its series; before a gap, before
a stale marker and after the last sample it holds one scrape interval at most. After that the
value is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, Final, ParamSpec
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from strandline import names

from . import schema
from .few_rows import are_few
from .java_rows import begun_anew, collected
from .run_lengths import GAP_INTERVALS

HELD: Final = schema.table("""
    value double, first_ms long, last_ms long, sample_count long, hold_end_ms long,
    start_reason string, end_reason string, previous_ms long, previous_value double,
    following_ms long
""")
"""What `held` returns besides schema.SERIES: one row for each run.

start_reason, end_reason: change, gap, stale or range. previous_ms, previous_value: the last
sample before the run if start_reason is change, else null. following_ms: the next sample or
stale marker of the series, null without one.
"""

OF_RECORDS: Final = (
    names.PARTITION_LOG_END_OFFSET,
    names.PARTITION_HIGH_WATERMARK,
    names.PARTITION_LOG_START_OFFSET,
    names.PARTITION_LOG_SIZE_BYTES,
    names.REPLICA_LOG_END_OFFSET,
    names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS,
)
"""Metrics that change with every record, so that no run of them is long."""

SMALL_ROWS: Final = 100_000
"""Rows that one task sorts faster than two tasks get them sent."""

SERIES_KEY: Final = ("pod", "instance", "topic", "partition")
"""Series that agree in these labels show one replica in one process, at the same scrapes."""


P = ParamSpec("P")
Made = dict[tuple[Any, ...], Future[DataFrame]]
_made: Final[WeakKeyDictionary[DataFrame, Made]] = WeakKeyDictionary()
"""What `shared` functions have made, as long as the frame that it was made of is in use."""
_making: Final = Lock()
"""Held while _made is looked at, not while anything is made."""


def shared(
    function: Callable[Concatenate[DataFrame, P], DataFrame],
) -> Callable[Concatenate[DataFrame, P], DataFrame]:
    """Let a function give its result again for the same frame and the same other arguments.

    Several tables need the same leaderships, and making these takes Spark longer than any rows.
    The function's result must be settled or cached, and its other arguments hashable. A thread
    that wants what another one is making waits for it.
    """

    @wraps(function)
    def again(frame: DataFrame, /, *others: P.args, **named: P.kwargs) -> DataFrame:
        key = (function, others, frozenset(named.items()))
        with _making:
            made = _made.setdefault(frame, {})
            is_first = key not in made
            result = made.setdefault(key, Future())
        if is_first:
            try:
                result.set_result(function(frame, *others, **named))
            except BaseException as error:
                result.set_exception(error)
                with _making:
                    del made[key]
                raise
        return result.result()

    return again


def scrape_interval_ms(up: DataFrame) -> int | None:
    """Return the scrape interval: the least of the targets' median distances between scrapes.

    Shape:   up holds samples, not runs, of a series that every scrape writes
    Units:   ms

    Returns: None if no target was scraped twice
    """
    in_order = Window.partitionBy("series_id").orderBy("first_ms")
    distances = up.where(~F.col("stale")).withColumn(
        "distance_ms", F.col("first_ms") - F.lag("first_ms").over(in_order)
    )
    medians = distances.groupBy("series_id").agg(F.expr("percentile(distance_ms, 0.5)").alias("m"))
    least = medians.agg(F.min("m")).first()
    return None if least is None or least[0] is None else round(least[0])


def held(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return how long each value holds.

    The result is the same for samples and for any runs that were made of them.

    Shape:   samples as schema.SAMPLES, which may lack labels; the result as schema.SERIES, without
             labels if the samples are, and HELD
    Units:   ms; [start_ms, end_ms) is the range that was read
    """
    gap_ms = GAP_INTERVALS * interval_ms
    in_order = Window.partitionBy("series_id").orderBy("first_ms")
    runs = merged(samples, gap_ms=gap_ms)
    last, following = F.col("last_ms"), F.lead("first_ms").over(in_order)
    before, value_before = F.lag("last_ms").over(in_order), F.lag("value").over(in_order)
    stale_before = F.lag("stale").over(in_order)
    at_most = F.least(last + interval_ms, F.lit(end_ms))
    changed = (~stale_before) & (F.col("first_ms") - before <= gap_ms)
    reason_before = (
        F.when(before.isNull(), _edge_of_range(F.col("first_ms") - start_ms, gap_ms=gap_ms))
        .when(stale_before, "stale")
        .when(changed, "change")
        .otherwise("gap")
    )
    reason_after = (
        F.when(following.isNull(), _edge_of_range(end_ms - last, gap_ms=gap_ms))
        .when(F.lead("stale").over(in_order), "stale")
        .when(following - last <= gap_ms, "change")
        .otherwise("gap")
    )
    classified = runs.select(
        "*",
        reason_before.alias("start_reason"),
        reason_after.alias("end_reason"),
        F.when(changed, before).alias("previous_ms"),
        F.when(changed, value_before).alias("previous_value"),
        following.alias("following_ms"),
    )
    hold_end = (
        F.when(F.col("end_reason") == "change", F.col("following_ms"))
        .when(F.col("end_reason") == "stale", F.least(at_most, F.col("following_ms")))
        .otherwise(at_most)
    )
    columns = [*_present(schema.SERIES.fieldNames(), samples), *HELD.fieldNames()]
    return classified.where(~F.col("stale")).withColumn("hold_end_ms", hold_end).select(*columns)


@shared
def steps(samples: DataFrame, *, interval_ms: int, start_ms: int, end_ms: int) -> DataFrame:
    """Return what `held` does, cached, of the metrics that are not OF_RECORDS."""
    found = samples.where(~F.col("metric").isin(*(each.name for each in OF_RECORDS)))
    return held(found, interval_ms=interval_ms, start_ms=start_ms, end_ms=end_ms).cache()


def plain(samples: DataFrame) -> DataFrame:
    """Return the samples that have a value, each once.

    Shape:   samples as schema.SAMPLES; a run of several makes the query fail, because when its
             samples were taken is lost
    """
    in_order = Window.partitionBy("series_id").orderBy("first_ms")
    repeated = F.lag("first_ms").over(in_order).eqNullSafe(F.col("first_ms"))
    once = samples.where(~F.col("stale")).withColumn("_repeated", repeated)
    lone = F.when(F.col("sample_count") == 1, F.col("value")).otherwise(
        F.raise_error(F.lit("this table is made of single samples: read them with gap_ms 0"))
    )
    return once.where(~F.col("_repeated")).withColumn("value", lone).drop("_repeated")


def settled(frame: DataFrame) -> DataFrame:
    """Compute a frame of intervals rather than samples once, and go on from its rows.

    Spark plans a frame anew wherever it is used, so that plans of plans take it minutes. Few rows
    pass through the driver, whose memory many would take; those stay where they were computed.
    Both outlive an executor, which the rows of a local checkpoint do not.
    """
    if are_few(frame.sparkSession):
        return _passed(frame)
    kept = begun_anew(frame).cache()
    if kept.count() > SMALL_ROWS:
        return kept
    passed = _passed(kept)
    kept.unpersist()
    return passed


def _passed(frame: DataFrame) -> DataFrame:
    """Return the rows of a frame after they passed through the driver."""
    made, count = collected(frame)
    # In one place they need no exchange before they are sorted, grouped or joined.
    return made.coalesce(1) if count <= SMALL_ROWS else made


def of(frame: DataFrame, metric: names.Metric) -> DataFrame:
    """Return the rows of one metric."""
    return frame.where(F.col("metric") == metric.name)


def under_epochs(frame: DataFrame, facts: DataFrame) -> DataFrame:
    """Pair each row with every leader epoch that its own broker told for the partition.

    Shape:   frame has the columns SERIES_KEY; facts as `held` returns them
    Returns: the rows with epoch, epoch_first_ms, epoch_last_ms, epoch_end_ms, epoch_reason
    """
    epochs = of(facts, names.PARTITION_LEADER_EPOCH).select(
        *SERIES_KEY,
        F.col("value").cast("long").alias("epoch"),
        F.col("first_ms").alias("epoch_first_ms"),
        F.col("last_ms").alias("epoch_last_ms"),
        F.col("hold_end_ms").alias("epoch_end_ms"),
        F.col("end_reason").alias("epoch_reason"),
    )
    return frame.join(epochs, list(SERIES_KEY))


def value_at(
    frame: DataFrame, facts: DataFrame, metric: names.Metric, *, at: str, into: str
) -> DataFrame:
    """Add as column `into` the value of another metric of the same process at the time `at`.

    Shape:   frame has the columns SERIES_KEY and `at`; facts as `held` returns them
    Returns: null where no run of that metric covers the time
    """
    other = of(facts, metric).select(
        *(F.col(name).alias(f"_{name}") for name in (*SERIES_KEY, "first_ms", "last_ms")),
        F.col("value").alias(into),
    )
    same = [F.col(name) == F.col(f"_{name}") for name in SERIES_KEY]
    within = F.col(at).between(F.col("_first_ms"), F.col("_last_ms"))
    unwanted = [name for name in other.columns if name != into]
    return frame.join(other, [*same, within], "left").drop(*unwanted)


def broker_id(pod: str) -> Column:
    """Return the broker's id, the ordinal at the end of its pod's name.

    Shape:   pod names a column
    """
    return F.regexp_extract(pod, r"-(\d+)$", 1).try_cast("int")


def merged(samples: DataFrame, *, gap_ms: float) -> DataFrame:
    """Merge neighbouring runs of equal value without a gap; merging twice changes nothing.

    Of rows that begin at the same time the one with the most samples counts, so that rows that
    were read twice change nothing either.

    Shape:   samples and the result as schema.SAMPLES, which may lack labels
    """
    # One sort serves all windows, and only rows at which a run begins, or a series ends, go on.
    in_order = Window.partitionBy("series_id").orderBy("first_ms", F.desc("last_ms"))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    repeated = F.lag("first_ms").over(in_order).eqNullSafe(F.col("first_ms"))
    samples = samples.withColumn("_repeated", repeated).where(~F.col("_repeated"))
    last_before = F.lag("last_ms").over(in_order)
    goes_on = (
        ~F.col("stale")
        & ~F.lag("stale").over(in_order)
        & F.col("value").eqNullSafe(F.lag("value").over(in_order))
        & (F.col("first_ms") - last_before <= gap_ms)
    )
    edges = samples.withColumns(
        {
            "_begins": ~F.coalesce(goes_on, F.lit(False)),
            "_ends": F.lead("first_ms").over(in_order).isNull(),
            "_last_before_ms": last_before,
            "_count_so_far": F.sum("sample_count").over(so_far),
        }
    ).where(F.col("_begins") | F.col("_ends"))

    def following(column: str) -> Column:
        return F.lead(column).over(in_order)

    # The next edge begins another run, or is the last row of this one; without one this is both.
    another = following("_begins")
    last = F.when(another, following("_last_before_ms")).otherwise(following("last_ms"))
    own = F.when(another, following("sample_count")).otherwise(0)
    before = F.col("_count_so_far") - F.col("sample_count")
    counted = following("_count_so_far") - own - before
    runs = edges.withColumns(
        {
            "last_ms": F.coalesce(last, F.col("last_ms")),
            "sample_count": F.coalesce(counted, F.col("sample_count")),
        }
    )
    return runs.where("_begins").select(*_present(schema.SAMPLES.fieldNames(), samples))


def _present(names: Iterable[str], samples: DataFrame) -> list[str]:
    """Return the names without labels if the samples have none."""
    return [name for name in names if name != "labels" or name in samples.columns]


def _edge_of_range(distance: Column, *, gap_ms: float) -> Column:
    return F.when(distance <= gap_ms, "range").otherwise("gap")

"""The samples of a task's range, read as seldom as their number allows.

Called by `job`. Few samples of a short range are read at once, for everything; else `up` is read,
then runs for all tables together, and single samples by each table that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from . import read
from .few_rows import FEW_ROWS, Size, gathered, plans_for, size_of, size_told
from .lake import read_lake, read_lake_runs
from .observations import observations
from .run_lengths import GAP_INTERVALS
from .samples import scrape_interval_ms
from .session import SHORT_MS
from .tables import Analysis
from .task import UP, Task

PROBED_INTERVALS: Final = 3
"""Scrape intervals in which every broker was scraped."""


class TaskSamples:
    """What a task's analyses read; interval_ms, observed and for_tables are called in this order.

    counted, how much was read, is known once `observed` has returned.
    """

    counted: Size

    def __init__(self, spark: SparkSession, task: Task, chosen: Mapping[str, Analysis]) -> None:
        """Read few samples now; chosen are the analyses."""
        self._spark, self._task, self._chosen = spark, task, chosen
        self._read = _reader(spark, task)
        self._few = self._read_at_once() if task.end_ms - task.start_ms <= SHORT_MS else None
        if self._few is None:
            self._up = self._read(UP, gap_ms=0).cache()
        else:
            self._up = self._few.where(F.col("metric") == UP)

    def interval_ms(self, mine: Callable[[DataFrame], DataFrame] | None = None) -> int | None:
        """Return the scrape interval, of the targets whose samples mine leaves; None without one.

        Units:   ms
        """
        with plans_for(self._spark, 0 if self._few is not None else size_of(self._up).samples):
            return scrape_interval_ms(self._up if mine is None else mine(self._up))

    def observed(self, interval_ms: int) -> list[dict[str, Any]]:
        """Return who showed which metric, rows as observations.OBSERVATIONS.

        Units:   ms
        """
        if self._few is not None:
            with plans_for(self._spark, 0):
                seen: list[dict[str, Any]] = observations(self._few).toArrow().to_pylist()
            self.counted = _size_of_others(seen)
            return seen
        names = {m.name for each in self._chosen.values() if not each.plain for m in each.metrics}
        self._runs = self._read(*names, gap_ms=GAP_INTERVALS * interval_ms).cache()
        with plans_for(self._spark, size_of(self._runs).runs):
            told = observations(self._runs.where(F.col("metric") != UP).unionByName(self._up))
            seen = told.toArrow().to_pylist()
            self.counted = _size_of_others(seen)
            return seen + self._probed(seen, interval_ms=interval_ms)

    def for_tables(self, mine: Callable[[DataFrame], DataFrame]) -> Callable[[Analysis], DataFrame]:
        """Return what gives an analysis its samples, where possible the same frame for several.

        What tables make of the same frame they share.
        """
        few = self._few
        if few is None and self.counted.samples <= FEW_ROWS:
            few = gathered(self._read(*self._metrics(), gap_ms=0), self.counted.samples).cache()
        if few is not None:
            single = mine(few)
            return lambda _: single
        of_runs = mine(gathered(self._runs, self.counted.runs))

        def samples_for(analysis: Analysis) -> DataFrame:
            if not analysis.plain:
                return of_runs
            return mine(self._read(*(metric.name for metric in analysis.metrics), gap_ms=0))

        return samples_for

    def _read_at_once(self) -> DataFrame | None:
        """Read all that analyses need, and `up`, if it is little; return None if it is not.

        Each query takes a short run longer than its rows. What turns out to be much was read in
        vain, but at most FEW_ROWS of it in each task.
        """
        with plans_for(self._spark, 0):
            # This much is in one place already, and only so Spark knows it.
            found = self._read(UP, *self._metrics(), gap_ms=0).limit(FEW_ROWS + 1).coalesce(1)
            kept = found.cache()
            if size_of(kept).runs <= FEW_ROWS:
                return kept
        kept.unpersist()
        return None

    def _metrics(self) -> set[str]:
        return {metric.name for each in self._chosen.values() for metric in each.metrics}

    def _probed(
        self, seen: Sequence[Mapping[str, Any]], *, interval_ms: int
    ) -> list[dict[str, Any]]:
        """Return who showed metrics that were not read yet, in the last scrapes that saw a leader.

        A scrape shows all that a leader has, so a few scrapes tell what is never there.
        """
        last_ms = max((row["leading_ms"] or 0 for row in seen), default=0)
        others = self._metrics() - {row["metric"] for row in seen}
        if not last_ms or not others:
            return []
        start_ms = max(last_ms - PROBED_INTERVALS * interval_ms, self._task.start_ms)
        samples = self._read(*others, gap_ms=0, start_ms=start_ms, end_ms=last_ms + 1)
        found: list[dict[str, Any]] = observations(samples).toArrow().to_pylist()
        return found


def _size_of_others(seen: Sequence[Mapping[str, Any]]) -> Size:
    """Return how much was read beside `up`."""
    return size_told(row for row in seen if row["metric"] != UP)


def _reader(spark: SparkSession, task: Task) -> Callable[..., DataFrame]:
    """Return what reads the samples of metrics of a task, from its range or a part of it."""
    whole = {"start_ms": task.start_ms, "end_ms": task.end_ms}

    def samples_of(*metrics: str, gap_ms: float, **part: int) -> DataFrame:
        ranged = whole | part
        if task.lake is not None and gap_ms:
            return read_lake_runs(
                spark,
                task.lake,
                metrics=metrics,
                start_ms=ranged["start_ms"],
                end_ms=ranged["end_ms"],
                gap_ms=gap_ms,
            )
        if task.lake is not None:
            return read_lake(spark, task.lake, metrics=metrics, **ranged)
        source = spark.read.format(read.FORMAT).options(**task.source).options(**ranged)
        return source.options(metrics=",".join(metrics), gap_ms=gap_ms).load()

    return samples_of

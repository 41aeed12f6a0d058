"""Histories on disk: a lake and text for promtool with the samples, and the true tables.

Called by `__main__` and by tests. A topic is walked through, sampled, written and forgotten before
the next one, so that memory does not grow with the number of topics or, but for what one series
has, with the length of the range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql.pandas.types import to_arrow_schema

from strandline import names
from strandline_analysis import catalogue, columns, schema
from strandline_analysis.lake_slices import Lake, founded
from strandline_analysis.xor_chunk import STALE_BITS

from . import signals, summed, truth
from .brokers import ClusterHistory, happened
from .partition import walked
from .plan import Plan
from .replicas import TrueElection
from .scrapes import JITTER_MS, SampledSeries, Scraper

BUFFERED_SAMPLES: Final = 200_000
"""Samples of one metric that are written together: some 20 MB with labels."""
BUFFERED_ROWS: Final = 20_000
"""The same for the rows of a true table."""
OPEN_FILES_MAX: Final = 900
"""Metrics times slices: a process may have some 1,000 files open."""
FAULTS: Final = catalogue.columns("""
    kind       string   what was done
    start_ms   long     ms since 1970
    end_ms     long     ms since 1970
    broker     integer  broker id, null if none was hit or all were
    topic      string   topic name, null if all were hit
    partition  integer  partition number, null if all were hit
    """)
STORED: Final = to_arrow_schema(schema.SAMPLES, timezone="UTC")


def sampled(
    cluster: ClusterHistory,
    *,
    interval_ms: int,
    jitter_ms: int = JITTER_MS,
    true: TrueTables | None = None,
) -> Iterator[SampledSeries]:
    """Yield every series of a cluster as scrapes see it; rows of the truth go into `true`."""
    plan, scraper = cluster.plan, Scraper(cluster, interval_ms=interval_ms, jitter_ms=jitter_ms)
    elections: list[TrueElection] = []
    sums = summed.Summed(plan)
    for topic in plan.topic_names():
        histories = [walked(cluster, topic, number) for number in range(plan.partitions)]
        for history in histories:
            elections += history.elections
            yield from map(scraper.sampled, signals.of_partition(cluster, history))
            if true is not None:
                true.add(sums.added(history, truth.of_partition(cluster, history)))
        yield from map(scraper.sampled, signals.of_topic(cluster, histories))
        if true is not None:
            true.add(truth.of_topic(cluster, histories))
    yield from map(scraper.sampled, signals.of_cluster(cluster, elections))
    if true is not None:
        true.add(truth.of_cluster(cluster))
        true.add(sums.rows())


def write(
    plans: Sequence[Plan],
    folder: Path,
    *,
    interval_ms: int,
    slice_ms: int,
    text: bool,
    metrics: Collection[str] | None = None,
) -> int:
    """Write the samples of clusters in one Prometheus, and the truth of each; return their number.

    Below folder: the lake; for each cluster a folder below `truth` with a Parquet file for each
    table; with `text` also samples.txt for promtool, which cannot hold stale markers. With
    `metrics` there are samples of these alone.

    Shape:   the clusters have the same range
    Raises:  ValueError if the ranges differ, or if the lake would need too many open files
    """
    (begin_ms,), (end_ms,) = {plan.start_ms for plan in plans}, {plan.end_ms for plan in plans}
    count = 0
    with LakeWriter(folder / "lake", begin_ms, end_ms, slice_ms=slice_ms) as lake:
        openmetrics = (folder / "samples.txt").open("w") if text else None
        for plan in plans:
            with TrueTables(folder / "truth" / plan.cluster) as true:
                cluster = happened(plan)
                for series in sampled(cluster, interval_ms=interval_ms, true=true):
                    if metrics is not None and series.labels["__name__"] not in metrics:
                        continue
                    count += len(series.timestamps)
                    lake.add(series)
                    if openmetrics is not None:
                        write_openmetrics(series, openmetrics)
        if openmetrics is not None:
            openmetrics.write("# EOF\n")
            openmetrics.close()
    return count


def write_openmetrics(series: SampledSeries, file: TextIO) -> None:
    """Write a series as promtool reads it; the caller ends the file with `# EOF`."""
    name = series.labels["__name__"]
    given = ",".join(f'{k}="{v}"' for k, v in sorted(series.labels.items()) if k != "__name__")
    told = series.bits != STALE_BITS
    times = (series.timestamps[told] / 1000).tolist()
    values = series.bits[told].view(np.float64).tolist()
    file.writelines(
        f"{name}{{{given}}} {value!r} {at:.3f}\n" for at, value in zip(times, values, strict=True)
    )


@dataclass(slots=True)
class _Buffer:
    """Series of one metric that are not yet on disk."""

    series: list[SampledSeries] = field(default_factory=list)
    samples: int = 0


class LakeWriter:
    """Writes series into a lake as the ingest would have landed them, but for their order."""

    def __init__(self, folder: Path, start_ms: int, end_ms: int, *, slice_ms: int) -> None:
        slices = -(-end_ms // slice_ms) - start_ms // slice_ms
        if slices * len(signals.METRICS) > OPEN_FILES_MAX:
            most = OPEN_FILES_MAX // len(signals.METRICS)
            raise ValueError(f"slice_ms is {slice_ms}: {slices} slices, at most {most}")
        # What these brokers do not show has no series; without the name a read would be refused.
        metrics = [signals.UP, *(metric.name for metric in names.ALL_METRICS)]
        self._lake = founded(folder, metrics=metrics, start_ms=start_ms, slice_ms=slice_ms)
        self._end_ms = -(-end_ms // slice_ms) * slice_ms
        self._buffers: dict[str, _Buffer] = {}
        self._writers: dict[tuple[str, int], Any] = {}
        self._shape = pa.schema([each for each in STORED if each.name != "metric"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Complete the lake, unless something failed."""
        try:
            if error is None:
                for metric in sorted(self._buffers):
                    self._flush(metric)
        finally:
            for writer in self._writers.values():
                writer.close()
        if error is None:
            self._lake.completed(self._end_ms)

    @property
    def lake(self) -> Lake:
        """Return the lake as it was before it was completed."""
        return self._lake

    def add(self, series: SampledSeries) -> None:
        """Take a series; it is on disk when enough of its metric has come, or at the end."""
        metric = series.labels["__name__"]
        buffer = self._buffers.setdefault(metric, _Buffer())
        buffer.series.append(series)
        buffer.samples += len(series.timestamps)
        if buffer.samples >= BUFFERED_SAMPLES:
            self._flush(metric)

    def _flush(self, metric: str) -> None:
        held = self._buffers.pop(metric).series
        # Series after series by their numbers, as the ingest sorts them.
        held.sort(key=lambda series: columns.series_id(series.labels))
        lengths = [len(series.timestamps) for series in held]
        of_series = np.repeat(np.arange(len(held)), lengths)
        timestamps = np.concatenate([series.timestamps for series in held])
        bits = np.concatenate([series.bits for series in held])
        begins = timestamps - timestamps % self._lake.slice_ms
        for begin in np.unique(begins).tolist():
            here = begins == begin
            samples = columns.Samples(
                labels=[series.labels for series in held],
                series=of_series[here],
                timestamps=timestamps[here],
                bits=bits[here],
            )
            rows = columns.runs(samples, gap_ms=0)
            self._writer(metric, begin).write_batch(columns.record_batch(rows, self._shape))

    def _writer(self, metric: str, begin_ms: int) -> Any:
        if (metric, begin_ms) not in self._writers:
            folder = self._lake.samples / f"metric={metric}" / f"slice_ms={begin_ms}"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / "part-0.parquet"
            writer = pyarrow.parquet.ParquetWriter(path, self._shape, compression="zstd")
            self._writers[metric, begin_ms] = writer
        return self._writers[metric, begin_ms]


class TrueTables:
    """Writes the true tables of one cluster, a Parquet file for each."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._rows: dict[str, list[truth.Row]] = {name: [] for name in shapes()}
        self._writers: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Write what is left, also an empty table."""
        for name in self._rows:
            self._flush(name)
        for writer in self._writers.values():
            writer.close()

    def add(self, named: Iterator[truth.Named]) -> None:
        """Take rows of any tables."""
        for name, row in named:
            self._rows[name].append(row)
            if len(self._rows[name]) >= BUFFERED_ROWS:
                self._flush(name)

    def _flush(self, name: str) -> None:
        rows, self._rows[name] = self._rows[name], []
        shape = shapes()[name]
        if name not in self._writers:
            path = self._folder / f"{name}.parquet"
            self._writers[name] = pyarrow.parquet.ParquetWriter(path, shape, compression="zstd")
        self._writers[name].write_table(pa.Table.from_pylist(rows, schema=shape))


def shapes() -> dict[str, pa.Schema]:
    """Return the true tables that there are, in the schemas of the analysis."""
    made = {
        name: to_arrow_schema(schema.struct(catalogue.TABLES[name]), timezone="UTC")
        for name in (*truth.TABLES, *summed.TABLES)
    }
    return made | {truth.FAULTS: to_arrow_schema(schema.struct(FAULTS), timezone="UTC")}

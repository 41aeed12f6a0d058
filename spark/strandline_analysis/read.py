"""The Python Data Source `prometheus`: scraped samples as a DataFrame in the shape of schema.

Use it as `spark.read.format("prometheus")` in a session of `session`. One task reads one metric
and makes runs of its samples before they reach the JVM. Options: url, metrics (comma-separated),
start_ms, end_ms, gap_ms (0: every sample by itself).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from . import schema
from .remote_read import Series, read_series
from .run_lengths import run_lengths
from .xor_chunk import number

FORMAT: Final = "prometheus"
NAME_LABEL: Final = "__name__"


class PrometheusSource(DataSource):  # type: ignore[misc]  # pyspark is not in the dev extra
    """Gives Spark the format's name, schema and reader."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return schema.SAMPLES, whatever the options."""
        return schema.SAMPLES

    def reader(self, schema: StructType) -> PrometheusReader:  # noqa: ARG002 - Spark's signature
        """Return a reader with the given options."""
        return PrometheusReader(dict(self.options))


class PrometheusReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not in the dev extra
    """Plans one task for each metric; a task asks Prometheus and yields runs."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._url = options["url"]
        self._metrics = [name for name in options["metrics"].split(",") if name]
        self._range = {name: int(options[name]) for name in ("start_ms", "end_ms")}
        self._gap_ms = float(options["gap_ms"])

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each metric."""
        return [InputPartition(metric) for metric in self._metrics]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of one metric's series."""
        for series in read_series(self._url, {NAME_LABEL: partition.value}, **self._range):
            yield from rows(series, **self._range, gap_ms=self._gap_ms)


def rows(series: Series, *, start_ms: int, end_ms: int, gap_ms: float) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of one series in the shape of schema.SAMPLES."""
    labels = series.labels
    head = (
        series_id(labels),
        labels[NAME_LABEL],
        labels.get("pod"),
        labels.get("instance"),
        labels.get("topic"),
        _whole(labels.get("partition")),
        _whole(labels.get("replica")),
        labels,
    )
    for run in run_lengths(series.samples(start_ms=start_ms, end_ms=end_ms), gap_ms=gap_ms):
        value = None if run.is_stale else number(run.bits)
        yield (*head, run.first_ms, run.last_ms, run.sample_count, value, run.is_stale)


def series_id(labels: Mapping[str, str]) -> int:
    """Return a number that is the same for these labels in every process."""
    text = json.dumps(sorted(labels.items()), separators=(",", ":"))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _whole(label: str | None) -> int | None:
    return int(label) if label else None

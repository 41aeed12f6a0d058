"""The Python Data Source `prometheus`: scraped samples as a DataFrame in the shape of schema.

Use it as `spark.read.format("prometheus")` in a session of `session`, or after `register`. Its
options are the fields of `read_options.ReadOptions`: samples come from a Prometheus or from a
folder of blocks. A task reads pieces one after the other: a piece is a metric, a slice of time and
a shard of series, of all blocks that have a part of it. Samples become rows before they reach the
JVM. `.schema(...)` with fewer columns makes fewer.

Invariant: what is pushed down changes what is asked for, never which rows a query returns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import DataType, StructType

from . import schema
from .prometheus_http import server_of
from .read_options import (
    Matcher,
    OptionInvalid,
    Piece,
    ReadOptions,
    Transport,
    dealt,
    pieces,
    read_options,
)
from .remote_read import Series, read_series
from .tsdb_snapshot import OpenSnapshot, snapshot_in

FORMAT: Final = "prometheus"
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""With it off, Spark refuses a reader that can take filters."""
TIMES: Final = ("first_ms", "last_ms")
LABELS: Final = ("pod", "instance", "topic", "partition", "replica")
"""Columns whose filters become matchers; each has its label's name."""

SeriesOf = Callable[[Piece], Iterable[Series]]
"""Gives the series of a piece with their chunks."""


def register(spark: SparkSession) -> None:
    """Make the format known to a session, with pushdown of filters if the session has it on."""
    pushing = spark.conf.get(PUSHDOWN, "false") == "true"
    spark.dataSource.register(PushingSource if pushing else PrometheusSource)


class PrometheusSource(DataSource):  # type: ignore[misc]  # pyspark is not in the dev extra
    """Gives Spark the format's name, schema and reader."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return schema.SAMPLES, or schema.MINUTES with reduction=minutes."""
        return schema.MINUTES if read_options(self.options).minutes else schema.SAMPLES

    def reader(self, schema: StructType) -> PrometheusReader:
        """Return a reader with the given options, for all columns or those that were asked for.

        Raises:  OptionInvalid for a wrong option, or a column that there is not, and BlockRefused
            for a folder without blocks of the range
        """
        return PrometheusReader(self._checked(schema), schema)

    def streamReader(self, schema: StructType) -> SliceReader:  # noqa: N802 - Spark's name
        """Return a reader of slices one after the other."""
        check_columns(schema, self.schema())
        return SliceReader(read_options(self.options), schema)

    def _checked(self, schema: StructType) -> ReadOptions:
        """Return the options after a look at the columns, and at the range of blocks."""
        check_columns(schema, self.schema())
        options = read_options(self.options)
        if options.blocks:
            snapshot = snapshot_in(Path(options.blocks))
            snapshot.check_range(start_ms=options.start_ms, end_ms=options.end_ms)
        return options


class PushingSource(PrometheusSource):
    """The same, for sessions that push filters down."""

    def reader(self, schema: StructType) -> PushingReader:
        """Return a reader that takes filters."""
        return PushingReader(self._checked(schema), schema)


class PrometheusReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not in the dev extra
    """Plans the tasks; a task asks Prometheus for its pieces and yields Arrow batches."""

    def __init__(self, options: ReadOptions, wanted: StructType) -> None:
        self._options = options
        self._wanted = wanted
        self._matchers: tuple[Matcher, ...] = ()

    def partitions(self) -> list[InputPartition]:
        """Return at most concurrent_reads tasks, each with pieces."""
        return tasks(self._options, self._matchers)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a task's pieces as Arrow batches."""
        return rows_of(self._options, partition, self._wanted)


class PushingReader(PrometheusReader):
    """Takes filters on metric, labels and, for single samples, times."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Ask Prometheus for less, and leave every filter to Spark as well."""
        for each in filters:
            # A negated filter has a filter in place of a column.
            column: tuple[str, ...] = getattr(each, "attribute", ())
            if len(column) == 1:
                self._push(column[0], each)
        return filters

    def _push(self, column: str, given: Filter) -> None:
        single = self._options.gap_ms == 0 and not self._options.minutes
        if isinstance(given, EqualTo | In):
            values = (given.value,) if isinstance(given, EqualTo) else tuple(given.value)
            texts = [str(value) for value in values if value is not None]
            if column == "metric":
                kept = tuple(name for name in self._options.metrics if name in texts)
                self._options = replace(self._options, metrics=kept)
            elif column in LABELS and texts and all(texts):
                pattern = "|".join(re.escape(text) for text in texts)
                self._matchers += (
                    Matcher(label=column, value=texts[0])
                    if len(texts) == 1
                    else Matcher(label=column, value=pattern, is_pattern=True),
                )
        if column in TIMES and single:
            self._options = narrowed(self._options, given)


class SliceReader(
    DataSourceStreamReader,  # type: ignore[misc]  # pyspark is not in the dev extra
    SupportsTriggerAvailableNow,  # type: ignore[misc]  # pyspark is not in the dev extra
):
    """Reads whole slices, one in each micro-batch, from that of start_ms on until end_ms.

    end_ms says until when samples have arrived, so this reader needs no clock. Offsets are the
    begin of the next slice.
    """

    def __init__(self, options: ReadOptions, wanted: StructType) -> None:
        self._options = options
        self._wanted = wanted

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the begin of the slice in which start_ms lies."""
        options = self._options
        return {"next_ms": options.start_ms - options.start_ms % options.slice_ms}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the end is an option and stays."""

    def latestOffset(  # noqa: N802 - Spark's name
        self,
        start: dict[str, int],
        limit: ReadLimit,  # noqa: ARG002 - one slice, whatever the limit
    ) -> dict[str, int]:
        """Return the end of one more slice, or the start if that slice has not ended."""
        following = start["next_ms"] + self._options.slice_ms
        return {"next_ms": following} if following <= self._options.end_ms else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return at most concurrent_reads tasks for what lies between two offsets."""
        between = replace(self._options, start_ms=start["next_ms"], end_ms=end["next_ms"])
        return tasks(between, ())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a task's pieces as Arrow batches."""
        return rows_of(self._options, partition, self._wanted)


def tasks(options: ReadOptions, matchers: tuple[Matcher, ...]) -> list[InputPartition]:
    """Return at most concurrent_reads tasks, each with pieces."""
    found = pieces(options, matchers)
    return [InputPartition(hand) for hand in dealt(found, hands=options.concurrent_reads)]


def rows_of(options: ReadOptions, partition: InputPartition, wanted: StructType) -> Iterator[Any]:
    """Yield the rows of a task's pieces as Arrow batches."""
    # Without a piece there is no task, and Spark makes one with None.
    shape = to_arrow_schema(wanted, timezone="UTC")
    with _opened(options) as series_of:
        for piece in partition.value or ():
            yield from batches(options, piece, shape, series_of)


def narrowed(options: ReadOptions, given: Filter) -> ReadOptions:
    """Return the options with the part of the range in which a filter on a time can be true.

    Holds for single samples: a run that is cut would be another row.
    """
    start_ms, end_ms = options.start_ms, options.end_ms
    match given:
        case EqualTo(value=int(at)):
            start_ms, end_ms = max(start_ms, at), min(end_ms, at + 1)
        case GreaterThan(value=int(at)):
            start_ms = max(start_ms, at + 1)
        case GreaterThanOrEqual(value=int(at)):
            start_ms = max(start_ms, at)
        case LessThan(value=int(at)):
            end_ms = min(end_ms, at)
        case LessThanOrEqual(value=int(at)):
            end_ms = min(end_ms, at + 1)
        case _:
            pass
    return replace(options, start_ms=start_ms, end_ms=end_ms)


def check_columns(wanted: StructType, known: StructType) -> None:
    """Refuse a schema that is not some of the known columns, each with its type."""
    kinds: Mapping[str, DataType] = {field.name: field.dataType for field in known}
    for field in wanted:
        if kinds.get(field.name) != field.dataType:
            columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in kinds.items())
            shown = f"{field.name} {field.dataType.simpleString()}"
            raise OptionInvalid("schema", given=shown, accepted=f"some of {columns}")


@contextmanager
def _opened(options: ReadOptions) -> Iterator[SeriesOf]:
    """Open where a task's pieces come from, and yield what gives their series."""
    if options.blocks:
        with OpenSnapshot(snapshot_in(Path(options.blocks))) as snapshot:
            yield snapshot.series
    else:
        yield partial(read_series, server_of(options))


def batches(options: ReadOptions, piece: Piece, shape: Any, series_of: SeriesOf) -> Iterator[Any]:
    """Yield the rows of one piece as Arrow batches of a schema."""
    # A session that only plans needs neither; each worker loads them once.
    from . import columns  # noqa: PLC0415

    for samples in _samples(options, piece, series_of):
        rows = (
            columns.minutes(samples)
            if options.minutes
            else columns.runs(samples, gap_ms=options.gap_ms)
        )
        if len(rows.series):
            yield columns.record_batch(rows, shape)


def _samples(options: ReadOptions, piece: Piece, series_of: SeriesOf) -> Iterator[Any]:
    import numpy as np  # noqa: PLC0415 - as above

    from . import columns, json_api  # noqa: PLC0415

    ranged = {"start_ms": piece.start_ms, "end_ms": piece.end_ms}
    if options.transport is Transport.REMOTE_READ:
        for group in columns.grouped(series_of(piece), samples_max=columns.BATCH_SAMPLES):
            yield columns.decoded(group, **ranged)
    else:
        for shown in json_api.read_shown(server_of(options), piece):
            index = np.zeros(len(shown.timestamps), np.int64)
            at, bits = np.array(shown.timestamps, np.int64), np.array(shown.bits, np.uint64)
            yield columns.ordered([shown.labels], index, at, bits, **ranged)

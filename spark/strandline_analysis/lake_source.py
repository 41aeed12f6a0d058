"""The Python Data Source `strandline_lake`: runs of a lake's samples, in the shape of schema.

Called by `lake`; its options are folder, metrics, start_ms, end_ms and gap_ms. A task reads files
of the lake one after the other. `.schema(...)` with fewer columns reads and makes fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from . import schema
from .lake_slices import opened
from .read import check_columns

FORMAT: Final = "strandline_lake"
TASK_BYTES: Final = 8 * 2**20
"""A task reads so much or a little more: some 3 million samples, in a second or two."""
TASKS_MAX: Final = 64
"""Of a large lake a task reads more, so that starting tasks stays a small part of the time."""


class LakeSource(DataSource):  # type: ignore[misc]  # pyspark is not in the dev extra
    """Gives Spark the format's name, schema and reader."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return schema.SAMPLES."""
        return schema.SAMPLES

    def reader(self, schema: StructType) -> LakeReader:
        """Return a reader for all columns or those that were asked for."""
        check_columns(schema, self.schema())
        return LakeReader(dict(self.options), schema)


class LakeReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not in the dev extra
    """Deals files to tasks; a task yields the runs of each."""

    def __init__(self, options: dict[str, str], wanted: StructType) -> None:
        self._folder = Path(options["folder"])
        self._metrics = options["metrics"].split(",")
        self._range = {name: int(options[name]) for name in ("start_ms", "end_ms")}
        self._gap_ms = float(options["gap_ms"])
        self._wanted = wanted

    def partitions(self) -> list[InputPartition]:
        """Return the tasks, each with the paths of files."""
        files = opened(self._folder).files(metrics=self._metrics, **self._range)
        # The largest first, so that tasks have about the same to do.
        sizes = sorted(((path.stat().st_size, str(path)) for path in files), reverse=True)
        paths = [path for _, path in sizes]
        tasks = min(TASKS_MAX, 1 + sum(size for size, _ in sizes) // TASK_BYTES, len(paths))
        return [InputPartition(tuple(paths[task::tasks])) for task in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the runs of a task's files as Arrow batches."""
        # A session that only plans needs neither numpy nor Arrow's files.
        from .lake_runs import read_runs  # noqa: PLC0415

        shape = to_arrow_schema(self._wanted, timezone="UTC")
        # Without a file there is no task, and Spark makes one with None.
        for path in partition.value or ():
            yield from read_runs(Path(path), shape, gap_ms=self._gap_ms, **self._range)

"""ISR intervals by the analysis itself, from Parquet or from Prometheus."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql.types import StructType

from strandline_analysis import read, schema
from strandline_analysis.few_rows import gathered, plans_for, size_of
from strandline_analysis.lake import read_lake_runs
from strandline_analysis.lake_slices import opened
from strandline_analysis.session import local_session
from strandline_analysis.tables.isr_intervals import isr_intervals

from .asked import COMPARED, CORES, GAP_MS, METRIC_NAMES, Asked, Found, Work
from .made import INTERVAL_MS, LAKE

COLUMNS: Final = tuple(name for name in schema.SAMPLES.fieldNames() if name != "labels")
"""Columns that the intervals need."""


def lake(asked: Asked) -> Work:
    """Read Parquet, whose samples the source makes runs of."""
    spark, landed = _session(asked), opened(asked.folder / LAKE)

    def work() -> Found:
        runs = read_lake_runs(
            spark,
            landed,
            metrics=METRIC_NAMES,
            start_ms=asked.start_ms,
            end_ms=asked.end_ms,
            gap_ms=GAP_MS,
            columns=COLUMNS,
        )
        return _intervals(runs, asked)

    return work


def prometheus(asked: Asked) -> Work:
    """Read from Prometheus, whose samples the source makes runs of."""
    spark = _session(asked)
    options = {"url": asked.url, "metrics": ",".join(METRIC_NAMES), "gap_ms": GAP_MS}
    source = spark.read.format(read.FORMAT).options(**options, **asked.ranged)
    columns = StructType([schema.SAMPLES[name] for name in COLUMNS])
    return lambda: _intervals(source.schema(columns).load(), asked)


def _session(asked: Asked) -> Any:
    return local_session(cores=CORES, folder=asked.scratch)


def _intervals(samples: Any, asked: Asked) -> Found:
    """Make the intervals as the job does."""
    runs = samples.cache()
    size = size_of(runs)
    with plans_for(runs.sparkSession, size.runs):
        made = isr_intervals(gathered(runs, size.runs), interval_ms=INTERVAL_MS, **asked.ranged)
        if asked.is_counted:
            written = str(asked.scratch / "intervals")
            made.select(*COMPARED).write.parquet(written)
            return made.sparkSession.read.parquet(written).count(), size.runs
        rows: list[dict[str, Any]] = made.select(*COMPARED).toArrow().to_pylist()
    return [tuple(row.values()) for row in rows], size.runs

"""ISR intervals by the analysis itself, from Parquet or from Prometheus."""

from __future__ import annotations

from typing import Any

from strandline_analysis import read
from strandline_analysis.lake import read_lake
from strandline_analysis.lake_slices import opened
from strandline_analysis.session import local_session
from strandline_analysis.tables.isr_intervals import isr_intervals

from .asked import COMPARED, CORES, GAP_MS, METRIC_NAMES, Asked, Found, Work
from .made import INTERVAL_MS, LAKE


def lake(asked: Asked) -> Work:
    """Read Parquet, whose samples never pass through Python."""
    spark, landed = _session(asked), opened(asked.folder / LAKE)

    def work() -> Found:
        return _intervals(read_lake(spark, landed, metrics=METRIC_NAMES, **asked.ranged), asked), 0

    return work


def prometheus(asked: Asked) -> Work:
    """Read from Prometheus, whose samples the source makes runs of."""
    spark = _session(asked)
    options = {"url": asked.url, "metrics": ",".join(METRIC_NAMES), "gap_ms": GAP_MS}

    def work() -> Found:
        source = spark.read.format(read.FORMAT).options(**options, **asked.ranged)
        runs = source.load().cache()
        return _intervals(runs, asked), runs.count()

    return work


def _session(asked: Asked) -> Any:
    return local_session(cores=CORES, folder=asked.scratch)


def _intervals(samples: Any, asked: Asked) -> list[tuple[Any, ...]]:
    made = isr_intervals(samples, interval_ms=INTERVAL_MS, **asked.ranged)
    rows: list[dict[str, Any]] = made.select(*COMPARED).toArrow().to_pylist()
    return [tuple(row.values()) for row in rows]

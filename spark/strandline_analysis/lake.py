"""The lake: plain samples of Prometheus as Parquet, landed slice by slice, and read again.

Called by `job` and `ingest`. One micro-batch of Spark is one slice. Spark's checkpoint says which
slice is next; lake.json says until when slices are complete. A slice that was written and is not
complete is written again in its place, and a complete one is left alone, so landing twice doubles
nothing, and what Prometheus has forgotten stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from . import schema
from .lake_slices import SLICE, Lake
from .lake_source import FORMAT as LAKE_FORMAT
from .lake_source import LakeSource
from .read import FORMAT


def ingest(spark: SparkSession, lake: Lake, source: Mapping[str, Any], *, end_ms: int) -> Lake:
    """Land the slices behind those that are complete and before end_ms; return the lake then.

    Shape:   source holds the options of the data source beside range, metrics and slices
    """

    def land(samples: DataFrame, _: int) -> None:
        begin = F.col("first_ms") - F.col("first_ms") % lake.slice_ms
        _write(lake, samples.withColumn(SLICE, begin).where(F.col(SLICE) >= lake.end_ms))

    # Plain samples: a run could not be cut at the begin or the end of a later read.
    what = {"metrics": ",".join(lake.metrics), "gap_ms": 0, "slice_ms": lake.slice_ms}
    ranged = {"start_ms": lake.start_ms, "end_ms": max(end_ms, lake.start_ms + 1)}
    stream = spark.readStream.format(FORMAT).options(**source, **what, **ranged).load()
    query = (
        stream.writeStream.foreachBatch(land)
        .option("checkpointLocation", str(lake.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return lake.completed(end_ms)


def read_lake(
    spark: SparkSession, lake: Lake, *, metrics: Iterable[str], start_ms: int, end_ms: int
) -> DataFrame:
    """Return the samples of metrics within [start_ms, end_ms), in the shape of schema.SAMPLES.

    Raises:  LakeRefused if the lake lacks a metric or a slice of the range
    """
    names = sorted(metrics)
    lake.check_landed(metrics=names, start_ms=start_ms, end_ms=end_ms)
    stored = schema.table(f"{SLICE} long")
    for field in schema.SAMPLES:
        stored.add(field)
    at, begin = F.col("first_ms"), F.col(SLICE)
    within = (at >= start_ms) & (at < end_ms)
    slices = (begin > start_ms - lake.slice_ms) & (begin < end_ms)
    samples = spark.read.schema(stored).parquet(str(lake.samples))
    chosen = samples.where(F.col("metric").isin(*names) & slices & within)
    return chosen.select(*schema.SAMPLES.fieldNames())


def read_lake_runs(
    spark: SparkSession,
    lake: Lake,
    *,
    metrics: Iterable[str],
    start_ms: int,
    end_ms: int,
    gap_ms: float,
    columns: Iterable[str] = schema.SAMPLES.fieldNames(),
) -> DataFrame:
    """Return the same samples as runs: of one series, without a gap, and equal.

    Runs are made before they reach the JVM, so that a day of a metric that seldom changes is a few
    rows. Labels take the most time to read; columns may leave them out.

    Raises:  LakeRefused if the lake lacks a metric or a slice of the range
    """
    names = sorted(metrics)
    lake.check_landed(metrics=names, start_ms=start_ms, end_ms=end_ms)
    spark.dataSource.register(LakeSource)
    wanted = StructType([schema.SAMPLES[name] for name in columns])
    options = {"folder": str(lake.folder.resolve()), "metrics": ",".join(names), "gap_ms": gap_ms}
    source = spark.read.format(LAKE_FORMAT).schema(wanted).options(**options)
    return source.options(start_ms=start_ms, end_ms=end_ms).load()


def _write(lake: Lake, samples: DataFrame) -> None:
    """Replace the folders of these slices, one file in each, series after series."""
    (
        samples.repartition("metric")
        # Spark sorts by the folders' columns, too, and what it sorts once more may lose its order.
        .sortWithinPartitions("metric", SLICE, "series_id", "first_ms")
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .option("compression", "zstd")
        .partitionBy("metric", SLICE)
        .parquet(str(lake.samples))
    )

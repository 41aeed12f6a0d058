"""The schema of the samples that every analysis takes.

Times are UTC epoch ms; ranges are half-open. No column is a Spark timestamp, so no time zone
ever applies.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

SERIES: Final = (
    StructField("series_id", LongType(), nullable=False),
    StructField("metric", StringType(), nullable=False),
    StructField("pod", StringType()),
    StructField("instance", StringType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("replica", IntegerType()),
    StructField("labels", MapType(StringType(), StringType()), nullable=False),
)
"""Columns that name a series: a hash of all its labels, and the labels that analyses join on."""

SERIES_COLUMNS: Final = tuple(column.name for column in SERIES)

SAMPLES: Final = StructType(
    [
        *SERIES,
        StructField("first_ms", LongType(), nullable=False),
        StructField("last_ms", LongType(), nullable=False),
        StructField("sample_count", LongType(), nullable=False),
        StructField("value", DoubleType()),
        StructField("stale", BooleanType(), nullable=False),
    ]
)
"""A run of equal samples without a gap; a plain sample is a run of one.

A stale marker is a row with stale = true and no value: the series ended at first_ms.
"""

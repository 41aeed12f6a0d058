"""The schema of the samples that every analysis takes, and the notation of schemas.

Times are UTC epoch ms; ranges are half-open. No column is a Spark timestamp, so no time zone
ever applies.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import MapType, StringType, StructType


def table(columns: str) -> StructType:
    """Return the schema that a text tells, as in `topic string, first_ms long not null`.

    PySpark's own parser of such texts needs a running Spark.
    """
    schema = StructType()
    for column in columns.split(","):
        name, kind, *not_null = column.split()
        schema.add(name, kind, nullable=not not_null)
    return schema


SERIES: Final = table("""
    series_id long not null, metric string not null,
    pod string, instance string, topic string, partition integer, replica integer
""").add("labels", MapType(StringType(), StringType()), nullable=False)
"""Columns that name a series: a hash of all its labels, and the labels that analyses join on."""

SAMPLES: Final = StructType(
    [
        *SERIES,
        *table("first_ms long not null, last_ms long not null, sample_count long not null"),
        *table("value double, stale boolean not null"),
    ]
)
"""A run of equal samples without a gap; a plain sample is a run of one.

A stale marker is a row with stale = true and no value: the series ended at first_ms.
"""

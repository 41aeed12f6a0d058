"""The schema of the samples that every analysis takes, and the notation of schemas.

Times are UTC epoch ms; ranges are half-open. No column is a Spark timestamp, so no time zone
ever applies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from .catalogue import RECORDS, Column, Table

KINDS: Final = {
    "string": StringType(),
    "integer": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
}
"""By the catalogue's word for a type: the type."""


def struct(table: Table | Iterable[Column]) -> StructType:
    """Return the Spark schema of a table of the catalogue.

    Raises:  KeyError for a type that is none
    """
    made = StructType()
    for column in table.columns if isinstance(table, Table) else table:
        made.add(column.name, _type(column.kind))
    return made


def shaped(frame: DataFrame, table: Table) -> DataFrame:
    """Return the columns of a table of the catalogue, in its order and of its types."""
    return frame.select(*(frame[field.name].cast(field.dataType) for field in struct(table)))


def _type(kind: str) -> DataType:
    if kind.startswith("array<"):
        return ArrayType(_type(kind.removeprefix("array<").removesuffix(">")))
    return struct(RECORDS[kind]) if kind in RECORDS else KINDS[kind]


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

MINUTES: Final = StructType(
    [
        *SERIES,
        *table("""
            minute_ms long not null, first_ms long not null, last_ms long not null,
            sample_count long not null, first_value double, last_value double,
            min_value double, max_value double, increase double, fall double, fall_count long,
            stale boolean not null
        """),
    ]
)
"""The samples of one series within one minute, cut where the series was stale.

increase is that of a counter that begins again at 0 when it falls; fall is the sum of all falls,
which for an offset are truncations. Both count steps between samples of the row alone. A stale
marker is a row by itself, with stale = true and no value.
"""

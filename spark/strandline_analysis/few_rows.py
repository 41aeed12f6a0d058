"""Spark's settings for as many rows as there are: of few, plans take longer than the rows.

Called by `job` and `samples`; changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

FEW_ROWS: Final = 200_000
"""Fewer rows take less time in plans that are not compiled. ISR intervals of 112,000 runs took 34 s
of processors so, and 46 s compiled; of 1,065,000 runs compiled ones took 83 s, other ones were not
tried."""
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
PLANS_OF_FEW: Final = {
    SHUFFLE_PARTITIONS: "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

ROWS_OF_A_PARTITION: Final = 500_000
"""A task sorts so many in the memory that it has for certain in a heap of 1 GiB. Of 25 million it
wrote so many sorted pieces to disk that to read them all at once took more than that heap."""

THREADS: Final = 2
Result = TypeVar("Result")


@contextmanager
def plans_for(spark: SparkSession, rows: int) -> Iterator[None]:
    """Plan what happens within for so many rows, and as before afterwards."""
    settings = PLANS_OF_FEW
    if rows > FEW_ROWS:
        given = int(spark.conf.get(SHUFFLE_PARTITIONS))
        settings = {SHUFFLE_PARTITIONS: str(max(given, -(-rows // ROWS_OF_A_PARTITION)))}
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def are_few(spark: SparkSession) -> bool:
    """Tell whether what happens now is planned for few rows."""
    return all(spark.conf.get(name, None) == value for name, value in PLANS_OF_FEW.items())


def side_by_side(spark: SparkSession, *works: Callable[[], Result]) -> list[Result]:
    """Do works of few rows in THREADS, as one plans while Java compiles for it; else in order.

    Where rows are many, one query occupies all cores.
    """
    if not are_few(spark):
        return [work() for work in works]
    with ThreadPoolExecutor(THREADS) as threads:
        return [*threads.map(lambda work: work(), works)]


def gathered(frame: DataFrame, rows: int) -> DataFrame:
    """Return few rows in one place, where they need no exchange, and many as they are."""
    return frame.coalesce(1) if rows <= FEW_ROWS else frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much was read."""

    runs: int
    samples: int
    """Those that the runs stand for. Tables of single samples have about as many."""


def size_of(rows: DataFrame) -> Size:
    """Count runs, or single samples.

    Shape:   rows as schema.SAMPLES, cached, since all of them are counted
    """
    counts = (F.count("*").alias("runs"), F.coalesce(F.sum("sample_count"), F.lit(0)).alias("of"))
    # Counting is too little work for Java to compile, however many there are.
    with plans_for(rows.sparkSession, 0):
        (found,) = rows.agg(*counts).collect()
    return Size(runs=found["runs"], samples=found["of"])


def size_told(rows: Iterable[Mapping[str, Any]]) -> Size:
    """Sum runs and samples that rows of `observations` tell; markers of stale series are none."""
    told = [*rows]
    return Size(runs=sum(r["runs"] for r in told), samples=sum(r["samples"] for r in told))

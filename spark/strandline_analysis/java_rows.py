"""Rows that go from one plan of Spark to the next without passing through Python.

Called by `samples`. PySpark has no way for it, so this calls Java's own DataFrame.
"""

# ruff: noqa: SLF001 - the only way from PySpark's objects to those of Java

from __future__ import annotations

from pyspark.sql import DataFrame


def begun_anew(frame: DataFrame) -> DataFrame:
    """Return a frame whose plan begins with the rows of another; lost ones are computed again."""
    spark, java = frame.sparkSession, frame._jdf
    return DataFrame(spark._jsparkSession.createDataFrame(java.toJavaRDD(), java.schema()), spark)


def collected(rows: DataFrame, shape: DataFrame) -> tuple[DataFrame, int]:
    """Compute rows; return a frame that holds them in the driver, and their number.

    By Arrow and Python, Java would need another query, and a file, to get its own rows.

    Shape:   both the rows and the result as `shape`
    """
    spark, found = shape.sparkSession, rows._jdf.collectAsList()
    held = spark._jsparkSession.createDataFrame(found, shape._jdf.schema())
    return DataFrame(held, spark), found.size()

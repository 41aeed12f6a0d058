"""Rows that go from one plan of Spark to the next without passing through Python.

Called by `samples`. PySpark has no way for it, so this calls Java's own DataFrame.
"""

from __future__ import annotations

from pyspark.sql import DataFrame


def begun_anew(frame: DataFrame) -> DataFrame:
    """Return a frame whose plan begins with the rows of another; lost ones are computed again."""
    spark, java = frame.sparkSession, frame._jdf  # noqa: SLF001 - PySpark's only way to Java's own
    made = spark._jsparkSession.createDataFrame(java.toJavaRDD(), java.schema())  # noqa: SLF001
    return DataFrame(made, spark)


def collected(frame: DataFrame) -> tuple[DataFrame, int]:
    """Compute a frame; return one that holds its rows in the driver, and their number.

    By Arrow and Python, Java would need another query, and a file, to get its own rows.
    """
    spark, java = frame.sparkSession, frame._jdf  # noqa: SLF001 - as above
    rows = java.collectAsList()
    made = spark._jsparkSession.createDataFrame(rows, java.schema())  # noqa: SLF001
    return DataFrame(made, spark), rows.size()

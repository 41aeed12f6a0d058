"""The one place that starts Spark, with every setting that matters given explicitly."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from .read import PUSHDOWN, register

LOGGING: Final = Path(__file__).with_name("log4j2.properties")
LOOPBACK: Final = "127.0.0.1"

SETTINGS: Final = {
    # The same times in a pod, on a laptop and in a test.
    "spark.sql.session.timeZone": "UTC",
    # Runs make small tables; most of the default 200 tasks would be empty and cost the most time.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    # No part of the work is for other machines.
    "spark.master.rest.enabled": "false",
    "spark.sql.adaptive.enabled": "true",
    PUSHDOWN: "true",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING} -Duser.timezone=UTC",
}


def local_session(*, cores: int, folder: Path) -> SparkSession:
    """Return a session in local mode; folder takes what does not fit in memory."""
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warehouse, spill = str(folder / "warehouse"), str(folder / "spark")
    folders = {"spark.sql.warehouse.dir": warehouse, "spark.local.dir": spill}
    builder = SparkSession.builder.master(f"local[{cores}]").appName("strandline-analysis")
    session = builder.config(map=SETTINGS | folders).getOrCreate()
    register(session)
    return session

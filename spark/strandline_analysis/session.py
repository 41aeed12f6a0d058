"""The one place that starts Spark, with every setting that matters given explicitly."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from .executors import MASTER, Executors, driver_pod, settings
from .java_process import archive_option, kept, start, unpacked
from .read import PUSHDOWN, register
from .read_options import MINUTE_MS

LOGGING: Final = Path(__file__).with_name("log4j2.properties")
LOOPBACK: Final = "127.0.0.1"
JAVA_OPTIONS: Final = f"-Dlog4j2.configurationFile={LOGGING} -Duser.timezone=UTC"

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
    # Else each operation of a column asks Java a dozen things, to tell an error its line of Python.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    PUSHDOWN: "true",
}


SHORT_MS: Final = 15 * MINUTE_MS
"""Longest range in which a run takes most of its time to start, to plan and to compile."""
SHORT_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java's second compiler makes code that is faster after some minutes, and a collector with threads
of its own gains only where there is much to collect."""


def local_session(*, cores: int, folder: Path, range_ms: int = SHORT_MS + 1) -> SparkSession:
    """Return a session in local mode; folder takes what does not fit in memory."""
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    return _session(f"local[{cores}]", {}, folder, is_short=range_ms <= SHORT_MS)


def executors_session(executors: Executors, *, folder: Path, range_ms: int) -> SparkSession:
    """Return a session whose work pods do.

    Raises:  ExecutorsInvalid outside of a pod of the chart
    """
    pod = driver_pod()
    os.environ["SPARK_LOCAL_IP"] = pod.address
    return _session(MASTER, settings(executors, pod), folder, is_short=range_ms <= SHORT_MS)


def _session(
    master: str, given: Mapping[str, str], folder: Path, *, is_short: bool
) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = f"{JAVA_OPTIONS} {SHORT_JAVA_OPTIONS}" if is_short else JAVA_OPTIONS
    if (archive := kept()) is not None:
        options = f"{archive_option(unpacked(archive))} {options}"
        # Its pipe must stay open; a process has one Java.
        _java.append(start(archive, options.split()))
    warehouse, spill = str(folder / "warehouse"), str(folder / "spark")
    own = {
        "spark.sql.warehouse.dir": warehouse,
        "spark.local.dir": spill,
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": options,
    }
    builder = SparkSession.builder.master(master).appName("strandline-analysis")
    session = builder.config(map=SETTINGS | own | dict(given)).getOrCreate()
    register(session)
    return session


_java: Final[list[object]] = []

"""Fixtures of the analysis tests: numpy, Arrow and Spark from the cache.

The tests' environment has none: `hack/analysis` puts them into the cache on first use, and only
tests of the processes tier use them.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.commands import REPOSITORY, run
from tests.support.prometheus_program import ANALYSIS_SCRIPT, PREPARE_LIMIT_SECONDS

SPARK_TIMEOUT_SECONDS = 1200
"""Bound of a test with Spark; the first one also prepares and starts Spark."""

SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for small tables, which change no result: most time goes into plans, not rows."""

PYSPARKS_SOCKETS = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
"""Filter of the warning about sockets that PySpark leaves to Python's garbage collector."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests with packages of the cache the time that their making and a start need."""
    for item in items:
        if "packages" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_SECONDS))
        if uses_spark(item):
            item.add_marker(pytest.mark.filterwarnings(PYSPARKS_SOCKETS))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Collect PySpark's garbage after its own test, so that it does not fail a later one."""
    if uses_spark(item):
        gc.collect()


def uses_spark(item: pytest.Item) -> bool:
    """Tell whether a test needs a Spark session."""
    return "spark" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def packages() -> str:
    """Make the packages of the analysis importable, and return their folder."""
    command = [str(ANALYSIS_SCRIPT), "env", sys.executable]
    folder = run(command, limit_seconds=PREPARE_LIMIT_SECONDS).splitlines()[-1]
    # At the end, so that packages of the tests' environment come first.
    sys.path.append(folder)
    return folder


@pytest.fixture(scope="session")
def spark(packages: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Provide a local Spark session, the same for all tests."""
    folders = [REPOSITORY / "spark", REPOSITORY / "broker_image", REPOSITORY]
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, folders), packages])
    from strandline_analysis.session import local_session

    session = local_session(cores=2, folder=tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def planned_small(spark: Any) -> Iterator[None]:
    """Plan queries for few rows, and forget cached tables afterwards."""
    before = {name: spark.conf.get(name) for name in SMALL}
    for name, value in SMALL.items():
        spark.conf.set(name, value)
    yield
    spark.catalog.clearCache()
    for name, value in before.items():
        spark.conf.set(name, value)

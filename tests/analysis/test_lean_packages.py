"""What the image of the analysis leaves out, and that the rest is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import REPOSITORY

SCRIPT = REPOSITORY / "spark" / "lean-packages"
LISTED = [
    line
    for line in (REPOSITORY / "spark" / "jars.txt").read_text().splitlines()
    if not line.startswith("#")
]
NEEDED = {"spark-core_2.13", "spark-sql_2.13", "spark-kubernetes_2.13", "parquet-hadoop", "py4j"}


def lean(folder: Path) -> set[str]:
    """Run the script over a folder; return the files that are left."""
    subprocess.run([sys.executable, str(SCRIPT), str(folder)], check=True)
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_jars_stay_by_name_whatever_their_version(tmp_path: Path) -> None:
    jars = tmp_path / "pyspark" / "jars"
    jars.mkdir(parents=True)
    for name in ("py4j-9.9.jar", "rocksdbjni-9.8.4.jar", "netty-codec-http2-4.2.13.Final.jar"):
        (jars / name).touch()
    # Its name begins as a listed one does.
    (jars / "py4j-extra-9.9.jar").touch()
    assert lean(tmp_path) == {
        "pyspark/jars/py4j-9.9.jar",
        "pyspark/jars/netty-codec-http2-4.2.13.Final.jar",
    }


def test_unused_parts_go_and_what_they_lie_beside_stays(tmp_path: Path) -> None:
    for name in ("pyspark/pandas/frame.py", "pyspark/sql/session.py", "numpy/fft/tests/test.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
    assert lean(tmp_path) == {"pyspark/sql/session.py"}


def test_the_list_is_sorted_without_versions_and_has_what_every_run_needs() -> None:
    assert sorted(set(LISTED)) == LISTED
    assert not [name for name in LISTED if re.search(r"-\d|\.jar$", name)]
    assert set(LISTED) >= NEEDED


@pytest.mark.processes
def test_every_listed_jar_is_one_of_pysparks(packages: str) -> None:
    jars = (Path(packages) / "pyspark" / "jars").glob("*.jar")
    assert {re.split(r"-\d", jar.name)[0] for jar in jars} == set(LISTED)

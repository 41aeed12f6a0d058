"""The example notebook: each of its cells runs, in order, and finds what truly happened."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.commands import REPOSITORY

NOTEBOOK: Final = REPOSITORY / "examples" / "analysis.ipynb"
OTHER_SETTINGS: Final = {
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.python.filterPushdown.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}
"""What a session that is not ours may have."""


def code_cells() -> list[dict[str, Any]]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture
def foreign(spark: Any, planned_small: None) -> Iterator[Any]:
    """Provide a session with settings that are not those of our own sessions."""
    before = {name: spark.conf.get(name) for name in OTHER_SETTINGS}
    for name, value in OTHER_SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def test_the_notebook_is_one_of_jupyter_and_stores_no_output() -> None:
    made = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (made["nbformat"], made["metadata"]["kernelspec"]["language"]) == (4, "python")
    assert {"code", "markdown"} == {cell["cell_type"] for cell in made["cells"]}
    for cell in code_cells():
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        assert "".join(cell["source"]).strip()


@pytest.mark.processes
def test_each_cell_of_the_notebook_runs_in_a_session_of_any_settings(
    foreign: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"])
    shared: dict[str, Any] = {"__name__": "__main__"}
    try:
        for number, cell in enumerate(code_cells(), start=1):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), shared)
        assert shared["spark"] is foreign
        killed, slow = shared["plan"].faults
        incidents = shared["by_start"](shared["incidents"])
        assert [row["root_broker"] for row in incidents] == [killed.broker, slow.broker]
        told = capsys.readouterr().out
        assert f"broker {killed.broker} is at the root" in told
        assert f"kill of broker {killed.broker}" in told
        kinds = {row["kind"] for row in shared["rows"]["elections"]}
        assert "broker_failure" in kinds
        out = {row["replica"] for row in shared["rows"]["isr_intervals"] if row["in_isr"] is False}
        assert out == {killed.broker, slow.broker}
        assert "<svg" in shared["report"].read_text(encoding="utf-8")
    finally:
        if "folder" in shared:
            shutil.rmtree(shared["folder"])

"""A Java that never speaks, or ends at once, costs a bounded time and leaves no process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strandline_analysis import java_process
from strandline_analysis.java_process import OPTIONS, JavaEnded, start


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Return the processes that the test has started so far."""
    found: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            found.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    return found


def stand_in(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a `java` that runs this script, and an empty PySpark, before all others."""
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    (folder / "pyspark").mkdir()
    (folder / "pyspark" / "__init__.py").touch()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    (folder / OPTIONS).touch()
    return folder


def test_a_java_that_tells_no_port_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[subprocess.Popen[bytes]]
) -> None:
    folder = stand_in(tmp_path, "exec cat", monkeypatch)
    monkeypatch.setattr(java_process, "START_SECONDS", 0.5)
    with pytest.raises(JavaEnded, match=r"no port within 0\.5 s"):
        start(folder, [])
    (java,) = started
    assert java.returncode is not None


def test_a_java_that_ends_is_told_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JavaEnded, match="exit code 7"):
        start(stand_in(tmp_path, "exit 7", monkeypatch), [])

"""A Java that never speaks, or ends at once, costs a bounded time and leaves no process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from strandline_analysis import java_process
from strandline_analysis.java_process import OPTIONS, JavaEnded, start


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stand_in(tmp_path, f"echo $$ > {tmp_path}/pid; exec cat", monkeypatch)
    monkeypatch.setattr(java_process, "START_SECONDS", 0.5)
    with pytest.raises(JavaEnded, match=r"no port within 0\.5 s"):
        start(folder, [])
    pid = int((folder / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_a_java_that_ends_is_told_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JavaEnded, match="exit code 7"):
        start(stand_in(tmp_path, "exit 7", monkeypatch), [])

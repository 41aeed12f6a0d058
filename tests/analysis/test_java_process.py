"""A Java that never speaks costs a bounded time; its classes lie packed in the image."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from strandline_analysis import executor, java_process
from strandline_analysis.java_process import (
    CLASSES,
    FOLDER,
    OPTIONS,
    PACKED,
    JavaEnded,
    kept,
    packed,
    start,
    unpacked,
)

from .test_executors import ENVIRONMENT


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


@pytest.fixture
def image(packages: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with packed classes as an image has, and let another one be for scratch."""
    assert packages
    folder, scratch = tmp_path / "image", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv(FOLDER, str(folder))
    (folder / CLASSES).write_bytes(SOME_CLASSES)
    assert kept() is None
    packed(folder / CLASSES)
    return folder


SOME_CLASSES = b"".join(number.to_bytes(4) for number in range(500_000))
"""More than is copied at a time."""


@pytest.mark.processes
def test_classes_lie_packed_in_the_image_and_are_unpacked_once(image: Path) -> None:
    assert [path.name for path in image.iterdir()] == [PACKED]
    assert (image / PACKED).stat().st_size < len(SOME_CLASSES)
    assert kept() == image
    classes = unpacked(image)
    assert classes.read_bytes() == SOME_CLASSES
    assert [*classes.parent.iterdir()] == [classes]
    (image / PACKED).unlink()
    assert unpacked(image) == classes


@pytest.mark.processes
def test_an_executor_finds_the_classes_where_its_driver_says(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(executor, "classpath", str)
    monkeypatch.setattr(os, "execvp", lambda program, _: begun.append(program))
    executor.main()
    assert begun == ["java"]
    assert (Path(tempfile.gettempdir()) / CLASSES).read_bytes() == SOME_CLASSES
    assert kept() == image

"""One message lists everything a machine lacks, before anything is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.house.test_tree import ROOT

TOOLS = ("bash", "env", "head", "id", "sort", "uname")
NEW_GO = "#!/bin/sh\necho go1.24.0\n"
OLD_GO = "#!/bin/sh\necho go1.23.9\n"


def machine(
    folder: Path, programs: dict[str, str], python: str, *args: str
) -> subprocess.CompletedProcess[str]:
    """Run the check where only these programs can be found."""
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool) or tool)
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return subprocess.run(
        [str(ROOT / ".ci" / "machine"), *args],
        env={"PATH": str(folder), "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )


def test_everything_missing_is_listed_at_once(tmp_path: Path) -> None:
    done = machine(tmp_path, {"go": OLD_GO}, "no-such-python")
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr
    assert "Go 1.24 or newer" in done.stderr
    assert "apt-get" in done.stderr


def test_only_what_is_missing_is_listed(tmp_path: Path) -> None:
    done = machine(tmp_path, {"go": NEW_GO, "apt-get": ""}, "no-such-python")
    assert "Python 3.11 or newer" in done.stderr
    assert "Go 1.24" not in done.stderr


def test_python_that_is_too_old_is_not_taken(tmp_path: Path) -> None:
    old = "#!/bin/sh\nexit 1\n"
    done = machine(tmp_path, {"python3": old}, "python3", "--python")
    assert done.returncode == 1
    assert done.stdout == ""


def test_python_asked_for_is_taken(tmp_path: Path) -> None:
    done = machine(tmp_path, {}, sys.executable, "--python")
    assert done.stdout.strip() == sys.executable


def test_machine_of_this_run_lacks_nothing_it_used() -> None:
    done = subprocess.run(
        [str(ROOT / ".ci" / "machine"), "--python"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0

"""`.ci/machine` lists everything that a machine lacks in one message, before a build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.test_tree import ROOT

TOOLS = ("bash", "env", "head", "id", "sort", "uname")
NEW_GO = "#!/bin/sh\necho go1.24.0\n"
OLD_GO = "#!/bin/sh\necho go1.23.9\n"


def machine(
    folder: Path, programs: dict[str, str], python: str, *args: str, cluster: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the check with only these programs in PATH."""
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool) or tool)
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return subprocess.run(
        [str(ROOT / ".ci" / "machine"), *args],
        env={"PATH": str(folder), "PYTHON": python, "CLUSTER": cluster},
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


def test_the_requested_python_is_taken(tmp_path: Path) -> None:
    done = machine(tmp_path, {}, sys.executable, "--python")
    assert done.stdout.strip() == sys.executable


KIND = dict.fromkeys(("docker", "kind", "kubectl", "helm"), "")


@pytest.mark.parametrize("verbs", [["lint"], ["demo-down"], ["push"], ["demo"], []])
def test_python_is_enough_where_no_cluster_of_our_own_is_needed(
    tmp_path: Path, verbs: list[str]
) -> None:
    done = machine(tmp_path, KIND, sys.executable, "--for", *verbs)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verbs", [["test"], ["bench"], ["lint", "test"]])
def test_verbs_on_a_cluster_of_our_own_need_more_whatever_else_is_there(
    tmp_path: Path, verbs: list[str]
) -> None:
    done = machine(tmp_path, KIND, sys.executable, "--for", *verbs)
    assert done.returncode == 1
    assert "Go 1.24 or newer" in done.stderr


@pytest.mark.parametrize(
    ("lacking", "cluster", "status"),
    [("helm", "", 1), ("helm", "current", 0), ("helm", "kind", 0), ("", "hack", 1)],
)
def test_the_demo_needs_what_the_cluster_it_will_use_needs(
    tmp_path: Path, lacking: str, cluster: str, status: int
) -> None:
    programs = {name: text for name, text in KIND.items() if name != lacking}
    done = machine(tmp_path, programs, sys.executable, "--for", "demo", cluster=cluster)
    assert done.returncode == status
    assert ("Go 1.24 or newer" in done.stderr) == bool(status)


@pytest.mark.parametrize(
    ("verb", "cluster", "status"), [("demo", "hack", 0), ("demo", "kind", 1), ("lint", "", 1)]
)
def test_a_verb_tells_whether_it_may_bring_up_a_cluster(
    tmp_path: Path, verb: str, cluster: str, status: int
) -> None:
    done = machine(tmp_path, KIND, sys.executable, "--cluster", verb, cluster=cluster)
    assert done.returncode == status


def test_an_environment_is_made_after_asking_for_the_verb(tmp_path: Path) -> None:
    # A `make` that runs this suite passes its own settings on to this one, such as PY.
    inherited = {"MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "MFLAGS", "PY"}
    env = {name: value for name, value in os.environ.items() if name not in inherited}
    planned = subprocess.run(
        ["make", "--dry-run", "demo", "CLUSTER=kind", f"VENV={tmp_path}/venv"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert planned.stdout.splitlines()[0] == ".ci/machine --for demo"


def test_machine_of_this_run_lacks_nothing_it_used() -> None:
    done = subprocess.run(
        [str(ROOT / ".ci" / "machine"), "--python"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0

"""The rules of tests/conftest.py, tried on small suites that run under a copy of it.

Each suite runs in a process of its own. The import of pytest takes longer than a small suite, so
one process imports pytest and forks for each suite.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import pytest

from tests.house.test_tree import ROOT

SETTINGS = """[pytest]
testpaths = suite
addopts = --import-mode=importlib --strict-markers -p no:cacheprovider
markers =
    processes: as in the project
    pods: as in the project
    long: as in the project
"""
PASSING = "def test_a(): pass\n"
TWO = "def test_a(): pass\ndef test_b(): pass\n"
SKIPPED = "import pytest\n@pytest.mark.skip\ndef test_b(): pass\n"
SKIPPED_MODULE = "import pytest\npytest.skip('no', allow_module_level=True)\n"
XFAILED = "import pytest\n@pytest.mark.xfail\ndef test_b(): assert False\n"
POD = "import pytest\n@pytest.mark.pods\ndef test_pod(): pass\n"
TWO_FILES = {"test_x.py": PASSING, "test_y.py": PASSING}
TWO_FOLDERS = {"test_x.py": PASSING, "y/test_y.py": PASSING}
IGNORING = "collect_ignore = ['test_y.py']\n"
DESELECTED = "def test_c(): pass\n"
TWO_WORKERS = ("-p", "xdist", "-n2", "--dist=loadfile")
ONE_WORKER = ("-p", "xdist", "-n1", "--max-worker-restart=0")
DIES_AT_THE_END = """import os
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        os._exit(0)
"""
LONG_AMONG_PODS = """import pytest
pytestmark = pytest.mark.pods
def test_pod(): pass
@pytest.mark.long
def test_patient(): pass
"""
TWO_TIERS = "import pytest\n@pytest.mark.pods\n@pytest.mark.processes\ndef test_pod(): pass\n"
FORKING = """
import json, os, sys
import pytest, pytest_timeout, yaml

for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if not child:
        os.environ["CI"] = request["ci"]
        os.chdir(request["folder"])
        sys.path.insert(0, request["folder"])
        output = os.open("output", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.exit(pytest.main(["-p", "pytest_timeout", *request["args"]]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Done(NamedTuple):
    """Exit code and output of a run."""

    returncode: int
    output: str


class Suites:
    """Runs small suites under a copy of tests/conftest.py."""

    def __init__(self, requests: IO[str], results: IO[str]) -> None:
        self._requests = requests
        self._results = results

    def run(
        self, folder: Path, tests: dict[str, str], *args: str, ci: str = "true", floor: int = 0
    ) -> Done:
        """Run a suite of these test files in its own folder."""
        suite = folder / "suite"
        suite.mkdir()
        shutil.copy(ROOT / "tests" / "conftest.py", suite)
        (folder / "pytest.ini").write_text(SETTINGS)
        (suite / "floor.toml").write_text(f"[floor]\nfast = {floor}\nprocesses = 0\npods = 0\n")
        for name, text in tests.items():
            (suite / name).parent.mkdir(exist_ok=True)
            (suite / name).write_text(text)
        request = {"folder": str(folder), "args": args, "ci": ci}
        print(json.dumps(request), file=self._requests, flush=True)
        code = int(self._results.readline())
        return Done(code, (folder / "output").read_text())


@pytest.fixture(scope="module")
def suites() -> Iterator[Suites]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", FORKING]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        yield Suites(process.stdin, process.stdout)
        process.stdin.close()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("tests", "args", "sentence"),
    [
        ({"test_x.py": PASSING + SKIPPED}, [], "skipped: suite/test_x.py::test_b"),
        ({"test_x.py": PASSING, "test_y.py": SKIPPED_MODULE}, [], "skipped: suite/test_y.py"),
        ({"test_x.py": PASSING + XFAILED}, [], "expected to fail: suite/test_x.py::test_b"),
        ({"test_x.py": TWO}, ["-k", "test_a"], "deselected: suite/test_x.py::test_b"),
        (TWO_FILES, ["--ignore=suite/test_y.py"], "ignored: suite/test_y.py"),
        (TWO_FILES, ["--ignore-glob=*_y.py"], "ignored: suite/test_y.py"),
        (TWO_FOLDERS, ["--ignore=suite/y"], "ignored: suite/y"),
        (TWO_FOLDERS | {"y/conftest.py": IGNORING}, [], "ignored: suite/y/test_y.py"),
    ],
    ids=[
        *("skip", "module skip", "xfail", "deselected"),
        *("ignored", "ignored by its kind", "ignored folder", "ignored by a conftest"),
    ],
)
def test_ci_fails_a_run_that_left_something_out(
    suites: Suites, tmp_path: Path, tests: dict[str, str], args: list[str], sentence: str
) -> None:
    done = suites.run(tmp_path, tests, *args)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert sentence in done.output


def test_an_environment_beside_the_tests_is_not_left_out_of_them(
    suites: Suites, tmp_path: Path
) -> None:
    environment = {
        "../.venv/pyvenv.cfg": "",
        "../.venv/bin/activate": "",
        "../.venv/test_y.py": TWO,
    }
    done = suites.run(tmp_path, {"test_x.py": PASSING, **environment})
    assert done.returncode == pytest.ExitCode.OK, done.output


def test_developer_may_leave_something_out(suites: Suites, tmp_path: Path) -> None:
    done = suites.run(tmp_path, {"test_x.py": PASSING + SKIPPED}, ci="")
    assert done.returncode == pytest.ExitCode.OK


def test_other_tiers_do_not_count_as_deselected(suites: Suites, tmp_path: Path) -> None:
    done = suites.run(tmp_path, {"test_x.py": PASSING, "test_y.py": POD}, "--tier=pods", "-v")
    assert done.returncode == pytest.ExitCode.OK
    assert "test_pod" in done.output
    assert "test_a" not in done.output


@pytest.mark.parametrize(("floor", "code"), [(2, 0), (3, 1)])
def test_floor_is_the_least_number_of_passed_tests(
    suites: Suites, tmp_path: Path, floor: int, code: int
) -> None:
    done = suites.run(tmp_path, {"test_x.py": TWO}, "--tier=fast", ci="", floor=floor)
    assert done.returncode == code
    assert ("2 tests passed, tests/floor.toml demands 3" in done.output) == bool(code)


def test_floor_does_not_judge_a_part_of_the_suite(suites: Suites, tmp_path: Path) -> None:
    done = suites.run(tmp_path, {"test_x.py": TWO}, "--tier=fast", "suite/test_x.py", floor=3)
    assert done.returncode == pytest.ExitCode.OK


def test_the_nearest_marker_decides(suites: Suites, tmp_path: Path) -> None:
    tests = {"test_x.py": LONG_AMONG_PODS, "pods/test_y.py": LONG_AMONG_PODS}
    done = suites.run(tmp_path, tests, "--tier=pods", "-v")
    assert done.returncode == pytest.ExitCode.OK
    assert done.output.count("test_pod PASSED") == 2
    assert "test_patient" not in done.output


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("test_x.py", TWO_TIERS, "one tier, not processes and pods"),
        ("pods/test_x.py", PASSING, "lies in tests/pods without its marker"),
    ],
    ids=["two tiers", "wrong folder"],
)
def test_test_of_two_tiers_or_in_a_wrong_folder_is_refused(
    suites: Suites, tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    done = suites.run(tmp_path, {name: text})
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert sentence in done.output


def test_tests_that_workers_left_out_and_passed_are_judged_as_one_run(
    suites: Suites, tmp_path: Path
) -> None:
    tests = {
        "test_x.py": TWO + DESELECTED,
        "test_y.py": SKIPPED_MODULE,
        "test_z.py": PASSING + SKIPPED,
        "test_xfail.py": XFAILED,
        "test_pod.py": POD,
    }
    left_out = ("--tier=fast", "--deselect=suite/test_x.py::test_c")
    done = suites.run(tmp_path, tests, *TWO_WORKERS, *left_out, floor=4)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert done.output.partition("not a full run")[2].splitlines()[1:-1] == [
        "deselected: suite/test_x.py::test_c",
        "expected to fail: suite/test_xfail.py::test_b",
        "skipped: suite/test_y.py",
        "skipped: suite/test_z.py::test_b",
        "tier fast: 3 tests passed, tests/floor.toml demands 4",
    ]


def test_worker_that_died_without_a_report_fails_the_run(suites: Suites, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(DIES_AT_THE_END)
    done = suites.run(tmp_path, {"test_x.py": TWO}, *ONE_WORKER, "-p", "planted", ci="", floor=2)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "worker gw0 was lost" in done.output
    assert "tests passed" not in done.output

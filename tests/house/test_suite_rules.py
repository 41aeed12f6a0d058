"""The suite's own rules, tried on small suites that run under a copy of tests/conftest.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.test_tree import ROOT

SETTINGS = """[pytest]
testpaths = suite
addopts = --import-mode=importlib --strict-markers -p no:cacheprovider
markers =
    processes: as in the project
    pods: as in the project
"""
PASSING = "def test_a(): pass\n"
TWO = "def test_a(): pass\ndef test_b(): pass\n"
SKIPPED = "import pytest\n@pytest.mark.skip\ndef test_b(): pass\n"
SKIPPED_MODULE = "import pytest\npytest.skip('no', allow_module_level=True)\n"
XFAILED = "import pytest\n@pytest.mark.xfail\ndef test_b(): assert False\n"
POD = "import pytest\n@pytest.mark.pods\ndef test_pod(): pass\n"
TWO_TIERS = "import pytest\n@pytest.mark.pods\n@pytest.mark.processes\ndef test_pod(): pass\n"


def run(
    folder: Path, tests: dict[str, str], *args: str, ci: str = "true", floor: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a suite of its own under our conftest."""
    suite = folder / "suite"
    suite.mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", suite)
    (folder / "pytest.ini").write_text(SETTINGS)
    (suite / "floor.toml").write_text(f"[floor]\nfast = {floor}\nprocesses = 0\npods = 0\n")
    for name, text in tests.items():
        (suite / name).parent.mkdir(exist_ok=True)
        (suite / name).write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_timeout", *args],
        cwd=folder,
        env={
            **os.environ,
            "CI": ci,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("tests", "args", "sentence"),
    [
        ({"test_x.py": PASSING + SKIPPED}, [], "skipped: suite/test_x.py::test_b"),
        ({"test_x.py": PASSING, "test_y.py": SKIPPED_MODULE}, [], "skipped: suite/test_y.py"),
        ({"test_x.py": PASSING + XFAILED}, [], "expected to fail: suite/test_x.py::test_b"),
        ({"test_x.py": TWO}, ["-k", "test_a"], "deselected: suite/test_x.py::test_b"),
    ],
    ids=["skip", "module skip", "xfail", "deselected"],
)
def test_ci_fails_a_run_that_left_something_out(
    tmp_path: Path, tests: dict[str, str], args: list[str], sentence: str
) -> None:
    done = run(tmp_path, tests, *args)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert sentence in done.stdout


def test_developer_may_leave_something_out(tmp_path: Path) -> None:
    assert run(tmp_path, {"test_x.py": PASSING + SKIPPED}, ci="").returncode == pytest.ExitCode.OK


def test_other_tiers_do_not_count_as_deselected(tmp_path: Path) -> None:
    done = run(tmp_path, {"test_x.py": PASSING, "test_y.py": POD}, "--tier=pods", "-v")
    assert done.returncode == pytest.ExitCode.OK
    assert "test_pod" in done.stdout
    assert "test_a" not in done.stdout


@pytest.mark.parametrize(("floor", "code"), [(2, 0), (3, 1)])
def test_floor_is_the_least_number_of_passed_tests(tmp_path: Path, floor: int, code: int) -> None:
    done = run(tmp_path, {"test_x.py": TWO}, "--tier=fast", ci="", floor=floor)
    assert done.returncode == code
    assert ("2 tests passed, tests/floor.toml demands 3" in done.stdout) == bool(code)


def test_floor_does_not_judge_a_part_of_the_suite(tmp_path: Path) -> None:
    done = run(tmp_path, {"test_x.py": TWO}, "--tier=fast", "suite/test_x.py", floor=3)
    assert done.returncode == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("test_x.py", TWO_TIERS, "one tier, not processes and pods"),
        ("pods/test_x.py", PASSING, "lies in tests/pods without its marker"),
    ],
    ids=["two tiers", "wrong folder"],
)
def test_test_of_two_tiers_or_in_a_wrong_folder_is_refused(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    done = run(tmp_path, {name: text})
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert sentence in done.stderr + done.stdout

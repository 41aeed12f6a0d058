"""Tiers, floors and the stricter rules of continuous integration, for the whole suite.

Only pytest loads this file. A test belongs to exactly one tier, by its nearest marker: `processes`,
`pods` or `long`, or `fast` if it has none; so a single test of a module of pods may be a long one.
`--tier` keeps one tier; the tests of the others do not count as deselected, so that each deselected
test is a mistake. With CI set, a skipped, expected-to-fail, deselected or ignored test fails the
run. A run of a whole tier fails if fewer tests passed than tests/floor.toml says.

`-n` runs the tests in workers of pytest-xdist. Then each worker collects the tests, and reports at
its end which tests it left out; the session that started the workers gets all reports and judges.
"""

from __future__ import annotations

import os
import tomllib
from collections import defaultdict
from collections.abc import Generator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["tests.support.fixtures", "tests.support.permissions"]

TIERS = ("fast", "processes", "pods", "long")
HERE = Path(__file__).resolve().parent
FLOOR = HERE / "floor.toml"
NO_CACHE = HERE / "no-cache-in-the-fast-tier"
"""Where nothing lies."""
LEFT_OUT = "left_out"
"""Key under which a worker reports the tests that it left out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, help="run the tests of one tier only")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SuiteRules(config), "suite-rules")
    if config.pluginmanager.hasplugin("hypothesispytest"):
        examples_take_any_time()


def examples_take_any_time() -> None:
    """Lift Hypothesis's limit of 200 ms per example, as it does itself where CI is set.

    The time of an example depends on what else the machine does. The timeout of each test stays.
    """
    import hypothesis

    hypothesis.settings.register_profile("strandline", deadline=None)
    hypothesis.settings.load_profile("strandline")


@pytest.fixture(autouse=True)
def _no_cache_where_none_is_made(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hide the cache of programs from the fast tier, which runs before anything has filled it."""
    if tier_of(request.node) == "fast":
        monkeypatch.setenv("STRANDLINE_CACHE", str(NO_CACHE))


def _has_tests(path: Path, patterns: list[str]) -> bool:
    """Tell whether a file or folder that was not collected has tests."""
    found = path.rglob("*.py") if path.is_dir() else [path]
    return any(fnmatch(file.name, pattern) for file in found for pattern in patterns)


class Misplaced(Exception):
    """A test belongs to no single tier."""


def tier_of(item: pytest.Item) -> str:
    """Return the tier of a test.

    Raises: Misplaced if it carries two tiers' markers or lies in a tier's folder unmarked
    """
    marked: dict[object, set[str]] = {}
    for node, mark in item.iter_markers_with_node():
        if mark.name in TIERS:
            marked.setdefault(node, set()).add(mark.name)
    nearest = sorted(next(iter(marked.values()), {"fast"}), key=TIERS.index)
    if len(nearest) > 1:
        raise Misplaced(f"{item.nodeid}: one tier, not {' and '.join(nearest)}")
    folder = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
    if folder in TIERS and folder not in set().union(*marked.values()):
        raise Misplaced(f"{item.nodeid}: lies in tests/{folder} without its marker")
    return nearest[0]


class SuiteRules:
    """Counts the outcomes of a session's tests, and judges the session at its end.

    In a worker it does not judge, because a worker runs only a part of the tests.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._strict = bool(os.environ.get("CI"))
        self._worker_report: dict[str, list[str]] | None = getattr(config, "workeroutput", None)
        self._passed: defaultdict[str, set[str]] = defaultdict(set)
        self._unwanted: set[str] = set()
        self._lost: list[str] = []
        self._offences: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests of the chosen tier, before -k and -m look at them.

        The tier becomes a property of each test, which the test's reports carry out of a worker. A
        misplaced test becomes an error of collection, because workers report those.
        """
        wanted = self._config.getoption("tier")
        kept = []
        for item in items:
            try:
                tier = tier_of(item)
            except Misplaced as misplaced:
                report = pytest.CollectReport(item.nodeid, "failed", str(misplaced), [])
                self._config.hook.pytest_collectreport(report=report)
                continue
            item.user_properties.append(("tier", tier))
            if wanted in (None, tier):
                kept.append(item)
        items[:] = kept

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember tests that -k, -m or --deselect removed; every worker removes the same."""
        self._unwanted |= {f"deselected: {item.nodeid}" for item in items}

    @pytest.hookimpl(wrapper=True)
    def pytest_ignore_collect(
        self, collection_path: Path
    ) -> Generator[None, bool | None, bool | None]:
        """Remember files and folders of tests that --ignore or a conftest's list removed.

        pytest calls this for everything beside the tests as well, for instance a virtual
        environment.
        """
        ignored = yield
        if (
            ignored
            and self._is_below_the_tests(collection_path)
            and _has_tests(collection_path, self._config.getini("python_files"))
        ):
            self._unwanted.add(f"ignored: {collection_path.relative_to(self._config.rootpath)}")
        return ignored

    def _is_below_the_tests(self, path: Path) -> bool:
        folders = self._config.getini("testpaths")
        return any(path.is_relative_to(self._config.rootpath / folder) for folder in folders)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember a module that skipped itself."""
        if report.skipped:
            self._unwanted.add(f"skipped: {report.nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what passed; remember what did not run or was expected to fail."""
        if hasattr(report, "wasxfail"):
            self._unwanted.add(f"expected to fail: {report.nodeid}")
        elif report.skipped:
            self._unwanted.add(f"skipped: {report.nodeid}")
        elif type(report) is pytest.TestReport and report.when == "call" and report.passed:
            tier = dict(report.user_properties)["tier"]
            assert isinstance(tier, str)
            self._passed[tier].add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """Take an ended worker's report; a worker without one may have left out any test."""
        report = getattr(node, "workeroutput", None) or {}
        if error or LEFT_OUT not in report:
            self._lost.append(f"worker {node.gateway.id} was lost: {error}")
        self._unwanted |= set(report.get(LEFT_OUT, ()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail a session that ran well but not in full."""
        if self._worker_report is not None:
            self._worker_report[LEFT_OUT] = sorted(self._unwanted)
            return
        if exitstatus != pytest.ExitCode.OK or self._config.getoption("collectonly"):
            return
        left_out = sorted(self._unwanted) if self._strict else []
        self._offences = [*self._lost, *left_out, *self._below_floor()]
        if self._offences:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name every test that made the session fail here."""
        if self._offences:
            terminalreporter.section("not a full run", red=True)
            for offence in self._offences:
                terminalreporter.line(offence)

    def _below_floor(self) -> list[str]:
        """Judge the tiers of a run that was not narrowed to paths or expressions."""
        narrowed = self._config.args_source is not pytest.Config.ArgsSource.TESTPATHS
        if narrowed or self._config.option.keyword or self._config.option.markexpr:
            return []
        floor = tomllib.loads(FLOOR.read_text())["floor"]
        wanted = self._config.getoption("tier")
        return [
            f"tier {tier}: {len(self._passed[tier])} tests passed, tests/floor.toml demands {least}"
            for tier, least in floor.items()
            if wanted in (None, tier) and len(self._passed[tier]) < least
        ]

"""Tiers, floors and the stricter rules of continuous integration, for the whole suite.

Loaded by pytest alone. A test belongs to exactly one tier, by its marker: `processes`,
`pods`, or `fast` if it has neither. `--tier` keeps one tier; the tests of the others are
not "deselected", so that any deselection that remains is somebody's accident. With CI
set, a skipped, expected-to-fail or deselected test fails the run. A run of a whole tier
fails if fewer tests passed than tests/floor.toml says.
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from pathlib import Path

import pytest

pytest_plugins = ["tests.support.fixtures"]

TIERS = ("fast", "processes", "pods")
HERE = Path(__file__).resolve().parent
FLOOR = HERE / "floor.toml"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, help="run the tests of one tier only")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SuiteRules(config), "suite-rules")


def tier_of(item: pytest.Item) -> str:
    """Return the tier of a test.

    Raises: UsageError if it carries two tiers' markers or lies in a tier's folder unmarked
    """
    marked = [tier for tier in TIERS if item.get_closest_marker(tier)]
    if len(marked) > 1:
        raise pytest.UsageError(f"{item.nodeid}: one tier, not {' and '.join(marked)}")
    folder = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
    tier = marked[0] if marked else "fast"
    if folder in TIERS and folder != tier:
        raise pytest.UsageError(f"{item.nodeid}: lies in tests/{folder} without its marker")
    return tier


class SuiteRules:
    """Counts what happened to the tests of a session and judges it at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._strict = bool(os.environ.get("CI"))
        self._tier_of: dict[str, str] = {}
        self._passed: Counter[str] = Counter()
        self._unwanted: list[str] = []
        self._offences: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests of the chosen tier, before -k and -m look at them."""
        wanted = self._config.getoption("tier")
        self._tier_of = {item.nodeid: tier_of(item) for item in items}
        if wanted:
            items[:] = [item for item in items if self._tier_of[item.nodeid] == wanted]

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember tests that -k, -m or --deselect removed."""
        self._unwanted += [f"deselected: {item.nodeid}" for item in items]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember a module that skipped itself."""
        if report.skipped:
            self._unwanted.append(f"skipped: {report.nodeid}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what passed; remember what did not run or was expected to fail."""
        if hasattr(report, "wasxfail"):
            self._unwanted.append(f"expected to fail: {report.nodeid}")
        elif report.skipped:
            self._unwanted.append(f"skipped: {report.nodeid}")
        elif type(report) is pytest.TestReport and report.when == "call" and report.passed:
            self._passed[self._tier_of[report.nodeid]] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail a session that ran well but not in full."""
        if exitstatus != pytest.ExitCode.OK or self._config.getoption("collectonly"):
            return
        self._offences = [*(self._unwanted if self._strict else []), *self._below_floor()]
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
            f"tier {tier}: {self._passed[tier]} tests passed, tests/floor.toml demands {least}"
            for tier, least in floor.items()
            if wanted in (None, tier) and self._passed[tier] < least
        ]

"""A session's judge: what operator and brokers may do, against what they asked for.

A plugin of pytest. At the end of a session a request that the chart does not grant is an error,
whatever the answer was: it would have been refused in a real cluster. At the end of the whole tier
`processes` a permission that nobody used is named, and is no error. Workers of pytest-xdist report
what they collected to the session that started them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest

from tests.support import audited
from tests.support.audited import Permission
from tests.support.strandline_objects import rendered_operator

MISSING: Final = "used, but the chart does not grant it"
REPORT: Final = "permissions"
"""Key under which a worker reports what was used."""
JUDGED_TIER: Final = "processes"
"""The tier whose tests make operator and brokers do everything that they are for."""
PROGRAMS: Final = {"-operator": "operator", "-broker": "broker"}
"""Part of a Role's name to the program that has it."""
AFTER_LOST_RACES: Final = frozenset(
    Permission(program, "get", f"{plural}.strandline.dev")
    for program, plural in (
        ("operator", "brokerclusters"),
        ("operator", "partitions"),
        ("broker", "partitions"),
    )
)
"""Reads of an object that somebody else created or changed first: not every run has such a race."""


def granted(manifests: Iterable[dict[str, Any]]) -> set[Permission]:
    """Return what the Roles of a rendered chart let operator and brokers do."""
    found: set[Permission] = set()
    for item in manifests:
        named = item["metadata"]["name"]
        program = next((name for part, name in PROGRAMS.items() if part in named), "")
        if item["kind"] not in {"Role", "ClusterRole"} or not program:
            continue
        for rule in item["rules"]:
            for group in rule["apiGroups"]:
                for whole in rule["resources"]:
                    plural, slash, part = whole.partition("/")
                    resource = f"{plural}{f'.{group}' if group else ''}{slash}{part}"
                    found |= {Permission(program, verb, resource) for verb in rule["verbs"]}
    return found


def offences(used: set[Permission], allowed: set[Permission], *, is_whole_tier: bool) -> list[str]:
    """Return a sentence for each permission that is missing, or, in a whole tier, not needed."""
    missing = [f"{MISSING}: {each}" for each in sorted(used - allowed)]
    rest = sorted(allowed - used - AFTER_LOST_RACES)
    idle = [f"granted by the chart, but never used: {each}" for each in rest]
    return missing + (idle if is_whole_tier else [])


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Report to the session that started this worker, or judge."""
    config = session.config
    report: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if report is not None:
        report[REPORT] = sorted(map(tuple, audited.used))
        return
    # Nothing is used where no server ran; a session that failed is not judged.
    if not audited.used or exitstatus != pytest.ExitCode.OK:
        return
    found = offences(
        audited.used, granted(rendered_operator("default")), is_whole_tier=_is_whole(config)
    )
    if found:
        config.stash[_OFFENCES] = found
        if any(each.startswith(MISSING) for each in found):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take an ended worker's report."""
    report = getattr(node, "workeroutput", None) or {}
    audited.used.update(Permission(*each) for each in report.get(REPORT, ()))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name every permission that made the session fail here, or that nobody used."""
    if found := config.stash.get(_OFFENCES, None):
        terminalreporter.section("permissions", red=True)
        for offence in found:
            terminalreporter.line(offence)


def _is_whole(config: pytest.Config) -> bool:
    """Tell whether the judged tier ran and was not narrowed to paths or expressions."""
    narrowed = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    chosen = config.getoption("tier") in (None, JUDGED_TIER)
    return chosen and not (narrowed or config.option.keyword or config.option.markexpr)


_OFFENCES: Final = pytest.StashKey[list[str]]()

"""Promises that are kept in writing: docs/acceptance.md and tests/floor.toml."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

from tests.house.rules import tree

ACCEPTANCE = Path("docs/acceptance.md")
FLOOR = Path("tests/floor.toml")
TIERS = {"fast", "processes", "pods"}
STATES = ("missing", "partial", "seen")
HEADER = ["Promise", "Test or command", "State"]
COLUMNS = len(HEADER)
CODE = re.compile(r"`([^`]+)`")
TEST_ID = re.compile(
    r"(?P<path>tests/[\w/.-]+\.(?:py|txt))(?:::(?P<name>[\w:]+))?(?P<case>\[.*\])?"
)


def unkept_promises(root: Path) -> list[str]:
    """Find rows that are malformed, name tests that do not exist, or claim without evidence."""
    path = root / ACCEPTANCE
    if not path.is_file():
        return [f"{ACCEPTANCE}: missing"]
    found = []
    seen_before: set[str] = set()
    rows = 0
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells == HEADER or set("".join(cells)) <= {"-", ":"}:
            continue
        rows += 1
        found += [f"{ACCEPTANCE}:{number}: {what}" for what in _offences(root, cells)]
        if cells[0] in seen_before:
            found.append(f"{ACCEPTANCE}:{number}: promised before")
        seen_before.add(cells[0])
    return found or ([] if rows else [f"{ACCEPTANCE}: no rows"])


def lowered_floor(root: Path) -> list[str]:
    """Find a floor that lacks a tier, is no count, or is below one that was committed."""
    floor = tomllib.loads((root / FLOOR).read_text())["floor"]
    found = [f"{FLOOR}: tiers are {sorted(TIERS)}"] if set(floor) != TIERS else []
    found += [f"{FLOOR}: {tier} = {least}" for tier, least in floor.items() if least < 1]
    for commit in _git(root, "log", "--format=%H", "--", str(FLOOR)).split():
        before = tomllib.loads(_git(root, "show", f"{commit}:{FLOOR}") or "floor = {}")["floor"]
        found += [
            f"{FLOOR}: {tier} was {least} in {commit[:8]}"
            for tier, least in before.items()
            if floor.get(tier, 0) < least
        ]
    return found


def _offences(root: Path, cells: list[str]) -> list[str]:
    if len(cells) != COLUMNS:
        return [f"{len(cells)} columns, not {COLUMNS}"]
    promise, evidence, state = cells
    found = []
    if not promise:
        found.append("promises nothing")
    if state not in STATES:
        found.append(f"state {state!r} is none of {', '.join(STATES)}")
    codes = CODE.findall(evidence)
    if state != "missing" and not codes:
        found.append(f"{state} without a test or command")
    for code in codes:
        if code.startswith("tests/"):
            found += _unresolved(root, code)
        elif code.startswith("make "):
            if not re.search(
                rf"^{code.split()[1]}:", (root / "Makefile").read_text(), re.MULTILINE
            ):
                found.append(f"no such verb: {code}")
        elif not (root / code.split()[0]).exists():
            found.append(f"no such command: {code}")
    return found


def _unresolved(root: Path, test_id: str) -> list[str]:
    """Judge a test id: a scenario file, a test file, or a test in it, with or without case."""
    match = TEST_ID.fullmatch(test_id)
    if match is None or not (root / match["path"]).is_file():
        return [f"no such test: {test_id}"]
    if match["name"] is None:
        return []
    scope: ast.Module | ast.ClassDef = tree.parse(root, Path(match["path"]))
    *classes, function = match["name"].split("::")
    for name in classes:
        inner = [n for n in scope.body if isinstance(n, ast.ClassDef) and n.name == name]
        if not inner:
            return [f"no such test: {test_id}"]
        scope = inner[0]
    functions = {
        n.name for n in scope.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return [] if function in functions else [f"no such test: {test_id}"]


def _git(root: Path, *args: str) -> str:
    """Return what git says of this tree, nothing where there is no git or no history."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *args], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""

"""Written promises: docs/acceptance, docs/protocol.md and tests/floor.toml."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.house.rules import tree

INDEX = Path("docs/acceptance.md")
ACCEPTANCE = Path("docs/acceptance")
PROTOCOL = Path("docs/protocol.md")
FLOOR = Path("tests/floor.toml")
TIERS = {"fast", "processes", "pods", "long"}
HEADER = ["Promise", "Test or command", "State"]
PROTOCOL_HEADERS = (
    ["Number", "What must happen", "Source", "Test"],
    ["Number", "What always holds", "Source", "Test"],
)
STEPS = {"make lint", "make types", ".ci/coverage"}
"""Commands besides the tests whose failure fails `make test`."""
LOOKED_AT = re.compile(r"(?:measured|watched) \d{4}-\d\d-\d\d at [0-9a-f]{7,40}(?:: .+)?")
"""States of a promise that no test checks, with the day and revision of the last check by hand."""
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(acceptance/([\w-]+\.md)\)")
TEST_ID = re.compile(
    r"(?P<path>tests/[\w/.-]+\.(?:py|txt))(?:::(?P<name>[\w:]+))?(?P<case>\[.*\])?"
)
NUMBER = re.compile(r"[TI]\d{1,2}[a-z]?")
CITED = re.compile(rf"\b(?:(I)(\d{{1,2}})-I(\d{{1,2}})|({NUMBER.pattern}))\b")
"""A number in prose, or a range of invariants."""
NAMED_AFTER = re.compile(r"(?:test_)?t0?(\d{1,2}[a-z]?)_")
"""The name of a scenario file or test that begins with its number."""
PROSE = {".md", ".py", ".txt"}


def unkept_promises(root: Path) -> list[str]:
    """Find rows that are malformed, name missing tests, or claim a state without evidence."""
    if not (root / INDEX).is_file():
        return [f"{INDEX}: missing"]
    areas = sorted(path.name for path in (root / ACCEPTANCE).glob("*.md"))
    listed = sorted(set(LINK.findall((root / INDEX).read_text())))
    found = [f"{INDEX}: lists {listed}, there are {areas}"] if areas != listed else []
    seen_before: set[str] = set()
    for path, number, cells in _rows(root):
        found += [f"{path}:{number}: {what}" for what in _offences(root, cells)]
        if cells[0] in seen_before:
            found.append(f"{path}:{number}: promised before")
        seen_before.add(cells[0])
    return found or ([] if seen_before else [f"{ACCEPTANCE}: no rows"])


def undefined_numbers(root: Path) -> list[str]:
    """Find cited scenario and invariant numbers without a definition, source and test."""
    if not (root / PROTOCOL).is_file():
        return [f"{PROTOCOL}: missing"]
    found = []
    defined: set[str] = set()
    for number, cells in _table(root / PROTOCOL, *PROTOCOL_HEADERS):
        where = f"{PROTOCOL}:{number}"
        if len(cells) != len(PROTOCOL_HEADERS[0]) or not NUMBER.fullmatch(cells[0]):
            found.append(f"{where}: not number, meaning, source and test")
            continue
        name, meaning, source, evidence = cells
        tests = CODE.findall(evidence)
        if not (meaning and source and tests):
            found.append(f"{where}: {name} lacks a meaning, a source or a test")
        found += [f"{where}: {what}" for test_id in tests for what in unresolved(root, test_id)]
        if name in defined:
            found.append(f"{where}: {name} is defined before")
        defined.add(name)
    if not defined:
        found.append(f"{PROTOCOL}: defines no number")
    return found + [
        f"{where}: {name} is not in {PROTOCOL}"
        for where, name in _cited(root)
        if name not in defined
    ]


def cited_cases(root: Path) -> list[str]:
    """Return the test ids that name one case; only pytest knows which cases exist."""
    return sorted(
        {
            code
            for _, _, cells in _rows(root)
            for code in CODE.findall(" ".join(cells[1:]))
            if code.startswith("tests/") and code.endswith("]")
        }
    )


def hollow_floor(root: Path) -> list[str]:
    """Find a floor that lacks a tier, or lets a tier without tests pass."""
    floor = tomllib.loads((root / FLOOR).read_text())["floor"]
    found = [f"{FLOOR}: tiers are {sorted(TIERS)}"] if set(floor) != TIERS else []
    return found + [f"{FLOOR}: {tier} = {least}" for tier, least in floor.items() if least < 1]


def unresolved(root: Path, test_id: str) -> list[str]:
    """Judge a test id, apart from its case: a scenario file, a test file, or a test in it."""
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


def _rows(root: Path) -> Iterator[tuple[Path, int, list[str]]]:
    """Yield file, line and cells of every promise."""
    for file in sorted((root / ACCEPTANCE).glob("*.md")):
        for number, cells in _table(file, HEADER):
            yield file.relative_to(root), number, cells


def _table(file: Path, *headers: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of the rows below a header."""
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if cells not in headers and not set("".join(cells)) <= {"-", ":"}:
                yield number, cells


def _offences(root: Path, cells: list[str]) -> list[str]:
    if len(cells) != len(HEADER):
        return [f"{len(cells)} columns, not {len(HEADER)}"]
    promise, evidence, state = cells
    codes = CODE.findall(evidence)
    found = [] if promise else ["promises nothing"]
    if state == "seen":
        if not any(code.startswith("tests/") or code in STEPS for code in codes):
            found.append("seen without a test or a step of make test")
    elif state == "partial" or LOOKED_AT.fullmatch(state):
        if not codes:
            found.append(f"{state} without a test or command")
    elif state != "missing":
        found.append(f"state {state!r} is none")
    return found + [what for code in codes for what in _missing_evidence(root, code)]


def _missing_evidence(root: Path, code: str) -> list[str]:
    if code.startswith("tests/"):
        return unresolved(root, code)
    if code.startswith("make "):
        verb = rf"^{code.split()[1]}:"
        known = re.search(verb, (root / "Makefile").read_text(), re.MULTILINE)
        return [] if known else [f"no such verb: {code}"]
    return [] if (root / code.split(maxsplit=1)[0]).exists() else [f"no such command: {code}"]


def _cited(root: Path) -> Iterator[tuple[str, str]]:
    """Yield every place that cites a number, with the number."""
    for path in tree.files(root):
        if path == PROTOCOL or path.suffix not in PROSE:
            continue
        titles = []
        if path.is_relative_to(tree.TESTS):
            titles.append((str(path), path.name))
            if path.suffix == ".py":
                functions = ast.FunctionDef | ast.AsyncFunctionDef
                found = (n for n in tree.nodes(root, path) if isinstance(n, functions))
                titles += [(f"{path}:{node.lineno}", node.name) for node in found]
        yield from (
            (where, f"T{named[1]}")
            for where, title in titles
            if (named := NAMED_AFTER.match(title))
        )
        for number, line in enumerate(tree.lines(root, path), start=1):
            for first, begin, end, single in CITED.findall(line):
                every = range(int(begin), int(end) + 1) if first else ()
                yield from ((f"{path}:{number}", f"I{each}") for each in every)
                if single:
                    yield f"{path}:{number}", single

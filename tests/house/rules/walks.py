"""The walks of ARCHITECTURE.md: each hop names a file and a function that is in it.

A walk is a numbered list under a heading of its own below `## Walks`. A hop begins with a file,
relative to the broker's package or to the root, and a function or method; then it says what that
does. A walk beyond the bound is too long for a reader, and so is the way through the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.rules import tree

PAGE = Path("ARCHITECTURE.md")
CHAPTER = "## Walks"
WALKS = 3
HOPS_MAX = 15
HOP = re.compile(r"(?P<number>\d+)\. `(?P<file>[\w/]+\.py)` `(?P<function>\w+(?:\.\w+)*)`[:,] \S")
STARTS = (tree.BROKER, Path())


def broken_walks(root: Path) -> list[str]:
    """Find walks that are missing or too long, and hops whose function is not in their file."""
    if not (root / PAGE).exists():
        return []
    lines = tree.lines(root, PAGE)
    walks = list(_walks(lines))
    found = [] if len(walks) >= WALKS else [f"{PAGE}: {len(walks)} walks, at least {WALKS}"]
    for title, hops in walks:
        if not 0 < len(hops) <= HOPS_MAX:
            found.append(f"{PAGE}: {title}: {len(hops)} hops, 1 to {HOPS_MAX}")
        for number, hop in enumerate(hops, start=1):
            found += [f"{PAGE}: {title}, {number}: {what}" for what in _offences(root, number, hop)]
    return found


def _walks(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each walk's title and its hops, one string each."""
    start = lines.index(CHAPTER) + 1 if CHAPTER in lines else len(lines)
    title, hops = "", list[str]()
    for line in [*lines[start:], "## end"]:
        if line.startswith("#") and title:
            yield title, hops
            title, hops = "", []
        if line.startswith("## "):
            return
        if line.startswith("### "):
            title = line.removeprefix("### ")
        elif title and re.match(r"\d+\. ", line):
            hops.append(line)


def _offences(root: Path, number: int, hop: str) -> Iterator[str]:
    parts = HOP.match(hop)
    if parts is None:
        yield f"not `file` `function`: text: {hop}"
        return
    if int(parts["number"]) != number:
        yield f"has the number {parts['number']}"
    path = next((p / parts["file"] for p in STARTS if (root / p / parts["file"]).exists()), None)
    if path is None:
        yield f"there is no {parts['file']}"
    elif parts["function"] not in set(_functions(tree.parse(root, path))):
        yield f"{parts['file']} has no function {parts['function']}"


def _functions(node: ast.AST, prefix: str = "") -> Iterator[str]:
    """Yield the functions of a module or class by their dotted names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}"
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")

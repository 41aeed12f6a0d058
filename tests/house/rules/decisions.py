"""Every page of docs/adr is complete, and the index lists it.

A page gives its date, its status and five sections. The index repeats number, title and status,
so that a reader finds a decision without opening every page.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.rules import tree

DECISIONS = Path("docs/adr")
INDEX = DECISIONS / "README.md"
SECTIONS = ["Context", "Decision", "Rejected alternatives", "Cost", "Revisit when"]
NOT_BUILT = "accepted, not built yet"
"""Pages of this status may name files that do not exist yet; see `references`."""

NAME = re.compile(r"(?P<number>\d{4})-[a-z0-9-]+\.md")
TITLE = re.compile(r"# (?P<number>\d{4}) (?P<title>\S.*)")
FIELD = re.compile(r"- (?P<name>Date|Status): (?P<value>.+)")
STATUS = re.compile(rf"proposed|accepted|{NOT_BUILT}|superseded by \d{{4}}")
SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
ALTERNATIVE = re.compile(r"- \*\*[^*]+\*\*\s+\S")
ROW = re.compile(r"\| \[(\d{4})\]\(([^)]+)\) \| (.+?) \| (.+?) \| (.+?) \|")


def incomplete_decisions(root: Path) -> list[str]:
    """Find pages that lack a part, gaps in their numbers, and an index that differs from them."""
    names = [path for path in tree.files(root, DECISIONS) if path != INDEX]
    if not names:
        return [f"{DECISIONS}: no decision"]
    found = []
    for number, path in enumerate(names, start=1):
        name = NAME.fullmatch(path.name)
        if name is None:
            found.append(f"{path}: not named NNNN-title.md")
        elif int(name["number"]) != number:
            found.append(f"{path}: follows {number - 1:04}")
        found += [f"{path}: {what}" for what in _missing(tree.lines(root, path), path)]
    return found + list(_index_offences(root, names))


def status_of(lines: list[str]) -> str:
    """Return the status that a page gives, an empty text if it gives none."""
    return _fields(lines).get("Status", "")


def _missing(lines: list[str], path: Path) -> Iterator[str]:
    title = TITLE.fullmatch(lines[0]) if lines else None
    if title is None or title["number"] != path.name[:4]:
        yield "the first line is not its number and title"
    fields = _fields(lines)
    if not _is_date(fields.get("Date", "")):
        yield "no date"
    if not STATUS.fullmatch(fields.get("Status", "")):
        yield f"status {fields.get('Status', '')!r} is none of: {STATUS.pattern}"
    _, *parts = SECTION.split("\n".join(lines))
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    if parts[::2] != SECTIONS:
        yield f"sections are {parts[::2]}, not {SECTIONS}"
    yield from (f"{name} is empty" for name, text in sections.items() if not text.strip())
    rejected = sections.get("Rejected alternatives", "")
    if any(not ALTERNATIVE.match(each) for each in re.split(r"\n(?=- )", rejected.strip())):
        yield "a rejected alternative is not '- **What.** Why.'"


def _index_offences(root: Path, paths: list[Path]) -> Iterator[str]:
    if not (root / INDEX).is_file():
        yield f"{INDEX}: missing"
        return
    rows = {
        match[2]: (match[1], match[3], match[4])
        for line in tree.lines(root, INDEX)
        if (match := ROW.fullmatch(line))
    }
    for path in paths:
        lines = tree.lines(root, path)
        title = TITLE.fullmatch(lines[0]) if lines else None
        wanted = (path.name[:4], title["title"] if title else "", status_of(lines))
        row = rows.pop(path.name, None)
        if row is None:
            yield f"{INDEX}: does not list {path.name}"
        elif row != wanted:
            yield f"{INDEX}: says {row} of {path.name}, which says {wanted}"
    yield from (f"{INDEX}: lists {name}, which does not exist" for name in rows)


def _fields(lines: list[str]) -> dict[str, str]:
    """Return the fields between the title and the first section."""
    head = "\n".join(lines).partition("\n## ")[0]
    return {match["name"]: match["value"] for match in FIELD.finditer(head)}


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True

"""The commands that documents give to their readers, as they stand there.

A command is a line of an indented block or of a fence of `sh` whose first word is a program that
readers have; a comment behind two blanks and `#` belongs to the reader, not to the shell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.commands import REPOSITORY

DOCUMENTS = ("README.md", "docs/*.md", "helm/*/templates/NOTES.txt")
"""Pages for users; what CONTRIBUTING.md and bench/ tell is for people with the repository."""
PROGRAMS = {"docker", "helm", "kcat", "kind", "kubectl", "make", "python", "strandline"}
HEADING = re.compile(r"^#{1,3} (?P<title>.+)$")
COMMENT = re.compile(r"\s{2,}# .*$")
PROPERTIES = re.compile(r"^```properties\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
BLANKS_MIN = {".md": 4, ".txt": 2}
"""By suffix, the blanks that make a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line, and the heading under which its document gives it."""

    document: str
    heading: str
    line: str

    def __str__(self) -> str:
        """Return what the reader types."""
        return self.line


def documents(root: Path = REPOSITORY) -> list[Path]:
    """Return all pages for users, sorted."""
    return sorted(path for pattern in DOCUMENTS for path in root.glob(pattern))


def commands(document: Path, root: Path = REPOSITORY) -> list[Command]:
    """Return the commands of a page in their order."""
    found: list[Command] = []
    heading, fence, continued = "", "", False
    for line in document.read_text().splitlines():
        if line.lstrip().startswith("```"):
            fence = "" if fence else line.strip("` ") or "text"
            continue
        if not fence and (match := HEADING.match(line)):
            heading = match["title"]
        blanks = len(line) - len(line.lstrip())
        if fence not in {"", "sh"} or (not fence and blanks < BLANKS_MIN[document.suffix]):
            continue
        text = COMMENT.sub("", line.strip())
        if continued:
            before = found[-1].line.removesuffix("\\")
            found[-1] = replace(found[-1], line=before + text)
        elif text.split(" ", 1)[0] in PROGRAMS:
            name = str(document.relative_to(root))
            found.append(Command(document=name, heading=heading, line=text))
        else:
            continue
        continued = text.endswith("\\")
    return found


def under(document: str, heading: str) -> list[str]:
    """Return the commands of a page under a heading; there is at least one."""
    page = REPOSITORY / document
    found = [each.line for each in commands(page) if each.heading == heading]
    if not found:
        raise LookupError(f"{document}: no command under {heading!r}")
    return found


def properties_under(document: str, heading: str) -> dict[str, str]:
    """Return the properties of Java's client that a page gives under a heading, at least one."""
    _, _, section = (REPOSITORY / document).read_text().partition(f"# {heading}\n")
    found = PROPERTIES.search(re.split(r"^#{2,3} ", section, flags=re.MULTILINE)[0])
    lines = found["text"].splitlines() if found else []
    pairs = [line.partition("=")[::2] for line in lines if line and not line.startswith("#")]
    if not pairs:
        raise LookupError(f"{document}: no properties under {heading!r}")
    return dict(pairs)

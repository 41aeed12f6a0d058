"""Words that must not be in the tree: paths of one machine, registries, issue numbers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.rules import tree

_REGISTRIES = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("proxy.golang", "org"),
    ("sum.golang", "org"),
    ("registry.npmjs", "org"),
    ("crates", "io"),
    ("repo1.maven", "org"),
    ("repo.maven.apache", "org"),
    ("deb.debian", "org"),
)

_BARE_NUMBER = re.compile(r"(?<![\w&/#\[{$])#\d{1,5}\b(?!\.)")
"""An issue number in prose; in Python a number sign with digits can be a tag of a schema."""

FORBIDDEN: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("an issue number", re.compile(r"\bissues?[ /]+#?\d+", re.IGNORECASE)),
    ("an issue number", re.compile(r"\b(?:see|fix\w*|close\w*|PR|ticket)[ :]+#\d+|\(#\d+\)")),
    ("a path of one machine", re.compile(r"/(?:wor[k]|roo[t]|hom[e]/\w+)/")),
    ("a path of one machine", re.compile(r"\bshared/(?:spe[c]|desig[n]|styl[e])\b")),
    ("a document that is not here", re.compile(r"\b(?:desig[n]|styl[e])(?:\.md| rule)\b")),
    ("a package registry", re.compile("|".join(re.escape(".".join(h)) for h in _REGISTRIES))),
    ("unfinished work", re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b")),
)

NOT_OURS = {Path("LICENSE")}
_SUMS = {".sum"}


def forbidden_words(root: Path) -> list[str]:
    """Find the forbidden words in every text file."""
    found = []
    for path in tree.files(root):
        if path in NOT_OURS or path.suffix in _SUMS:
            continue
        for number, line in enumerate(tree.lines(root, path), start=1):
            found += [
                f"{path}:{number}: {what}: {match[0]}"
                for what, pattern in FORBIDDEN
                if (match := pattern.search(line))
            ]
            if path.suffix != ".py" and (match := _BARE_NUMBER.search(line)):
                found.append(f"{path}:{number}: an issue number: {match[0]}")
    return found

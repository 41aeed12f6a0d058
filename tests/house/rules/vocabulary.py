"""One word for one thing: retired words do not come back, and no two classes share a name.

`docs/glossary.md` is the vocabulary. A retired word is a private one that a term of Kafka, Raft or
Kubernetes has replaced.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.house.rules import tree

GLOSSARY = Path("docs/glossary.md")
GLOSSARY_LINES_MAX = 60
THIS = Path("tests/house/rules/vocabulary.py")
PAST = (Path("CHANGELOG.md"), Path("docs/acceptance.md"), Path("docs/acceptance"))
"""Records of promises and releases, which keep the words of their day."""

RETIRED = {
    "Surroundings": "BrokerContext",
    "CommandWork": "ControllerRequests",
    "IsrKeeper": "IsrProposer",
    "PartitionWork": "PartitionReconciler",
    "Hands": "CoreShell",
    "Office": "ControllerElection",
    "InOffice": "Active",
    "Standing": "BrokerEntry",
    "ControllerHost": "ControllerShell",
    "ControllerLink": "ControllerSession",
    "ClientRequests": "BrokerApi",
    "Payloads": "RecordBuffers",
    "SessionUp": "BrokerMessage",
    "SessionDown": "ControllerMessage",
    "Happenings": "FaultCounts",
    "Executor": "Applier",
    "ailments": "unhealthy",
    "distrusted": "stale_incarnations",
    "holding_ends": "counted_end_offsets",
    "led_epoch_floor": "fenced_leader_epoch",
    "fresh_progress": "reset_progress",
    "WakeFetch": "CompleteFetch",
    "swarm": "plan_generator",
    "pod_trouble": "pod_diagnostics",
}
"""Our former identifiers, and the terms that replaced them."""

SECOND_WORDS = {
    "answer": "response",
    "answers": "responses",
    "question": "request",
    "isr_request": "proposal",
}
"""Names for what has a word already; the value is that word."""

REPEATED = {"Ticked": "an event of two machines; its name is a label value of a metric"}
"""Class names that may be used twice, with the reason."""


def retired_words(root: Path) -> list[str]:
    """Find retired words in any text of the tree but PAST."""
    words = re.compile(rf"\b(?:{'|'.join(RETIRED)})\b")
    return [
        f"{path}:{number}: {match[0]}, the term is {RETIRED[match[0]]}"
        for path in tree.files(root)
        if path != THIS and not any(path.is_relative_to(past) for past in PAST)
        for number, line in enumerate(tree.lines(root, path), start=1)
        if (match := words.search(line))
    ]


def repeated_classes(root: Path) -> list[str]:
    """Find class names that several shipped files define."""
    homes = defaultdict[str, list[Path]](list)
    for path in tree.shipped_files(root):
        for name in _public_classes(tree.parse(root, path)):
            homes[name].append(path)
    return [
        f"class {name} is defined in {', '.join(map(str, paths))}"
        for name, paths in sorted(homes.items())
        if len(paths) > 1 and name not in REPEATED
    ]


def second_words(root: Path) -> list[str]:
    """Find values and parameters of shipped files whose name is a second word for a thing."""
    return [
        f"{path}:{node.lineno}: {name}, the word is {SECOND_WORDS[name]}"
        for path in tree.shipped_files(root)
        for node in ast.walk(tree.parse(root, path))
        if isinstance(node, ast.Name | ast.arg | ast.FunctionDef)
        if (name := _name_of(node)) in SECOND_WORDS
    ]


def _name_of(node: ast.Name | ast.arg | ast.FunctionDef) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.arg():
            return node.arg
        case ast.FunctionDef():
            return node.name


def long_glossary(root: Path) -> list[str]:
    """Find a glossary that is longer than a page, or a row without its four parts."""
    lines = tree.lines(root, GLOSSARY) if (root / GLOSSARY).exists() else []
    rows = [line for line in lines if line.startswith("|")]
    found = [f"{GLOSSARY}: not four columns: {row}" for row in rows if row.count("|") != 5]
    if len(lines) > GLOSSARY_LINES_MAX:
        found.append(f"{GLOSSARY}: {len(lines)} lines, at most {GLOSSARY_LINES_MAX}")
    return found


def _public_classes(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name

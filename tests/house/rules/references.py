"""Names in texts must exist: files, modules, members of classes, settings, decisions.

The rule reads the documents, every docstring, and the lists of the house rules, because an entry
that names nothing switches its rule off. CHANGELOG.md is history and may name removed things. A
decision that is not built yet may name future things.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.house.rules import decisions, tree
from tests.house.rules.named_things import NamedThings

DOCUMENTS = ("ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "bench/README.md")
DOCUMENT_FOLDER = Path("docs")
HOUSE_RULES = Path("tests/house/rules")
PROJECT = Path("pyproject.toml")

ENDINGS = "go|json|md|proto|py|sh|toml|tpl|txt|yaml|yml"
FILE = re.compile(rf"(?:[\w.-]+/)*\w[\w.-]*\.(?:{ENDINGS})")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?|[\w.-]+/")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
CODE = re.compile(r"`([^`]+)`")
BETWEEN_WORDS = re.compile(r"[\s(),;=]+")
LINK = re.compile(r"\]\((?!\w+:)([^)#]+)\)")
FILE_IN_PROSE = re.compile(rf"(?<![\w/<>~$}}.-])(?:[\w.-]+/)+\w[\w-]*\.(?:{ENDINGS})\b")
SETTING_IN_PROSE = re.compile(
    r"(?<![\w.`/])[a-z]+(?:\.[a-z]+)+\.(?:attempts|bytes|max|messages|ms|seconds|size)\b(?!\.\w)"
)
SOURCE = re.compile(r"\bSource:.*?(?:\n\n|\Z)", re.DOTALL)
"""A paragraph of sources, which names files of other projects."""
DECISION = re.compile(r"\bADR (\d{4})\b")

NOT_YET = "| missing |"
"""Ends a row of a promise that is still to be kept: what it names does not exist yet."""
FENCE = "```"
MODULES_FENCE = "```modules"
"""Begins a list of layers, in which every word before a number sign is a module of the broker."""

OUR_MODULE = re.compile(r"strandline(?:_analysis|_api|_cli|_operator)?(?:\.\w+)*")
IN_CONTRACTS = re.compile(r"[()\s|:]+")
CHOICE = re.compile(r"(.*)\{(.*)\}(.*)")


class Text(NamedTuple):
    """A text to check, with its file and line."""

    path: Path
    line: int
    words: str


def dangling_names(root: Path) -> list[str]:
    """Find names in documents, docstrings and house lists that do not exist in the tree."""
    things = NamedThings(root)
    found = [
        f"{text.path}:{text.line}: there is no {name}"
        for text in (*_documents(root), *_docstrings(root))
        for name in _dangling(things, text)
    ]
    found += [
        f"{entry.path}:{entry.line}: lists {entry.words}, which does not exist"
        for entry in (*_entries_of_rules(root), *_modules_of_project(root))
        if not _is_listed(things, entry.words)
    ]
    return found + list(_unmatched_patterns(root))


def _documents(root: Path) -> Iterator[Text]:
    below = (path for path in tree.files(root, DOCUMENT_FOLDER) if path.suffix == ".md")
    for path in (*map(Path, DOCUMENTS), *below):
        lines = tree.lines(root, path) if (root / path).is_file() else []
        if decisions.status_of(lines) == decisions.NOT_BUILT:
            continue
        is_drawing = False
        for number, line in enumerate(lines, start=1):
            if line.startswith(FENCE):
                is_drawing = line == MODULES_FENCE
            elif is_drawing:
                drawn = line.partition("#")[0].replace("|", " ").split()
                yield Text(path, number, " ".join(f"`strandline.{word}`" for word in drawn))
            elif not line.endswith(NOT_YET):
                yield Text(path, number, line)


def _docstrings(root: Path) -> Iterator[Text]:
    """Yield the docstrings of modules, classes, functions and attributes."""
    for path in tree.python_files(root):
        for node in tree.nodes(root, path):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                words = node.value.value
                if isinstance(words, str):
                    yield Text(path, node.lineno, words)


def _dangling(things: NamedThings, text: Text) -> Iterator[str]:
    for code in CODE.findall(text.words):
        words = [word for word in BETWEEN_WORDS.split(code) if word]
        for word in words:
            name = word.partition("::")[0].rstrip(".:")
            if not _exists(things, name, text.path, is_alone=len(words) == 1):
                yield name
    prose = CODE.sub(" ", text.words)
    for name in LINK.findall(prose):
        if not things.has_target(name, text.path.parent):
            yield name
    for name in FILE_IN_PROSE.findall(LINK.sub(" ", SOURCE.sub(" ", prose))):
        if not things.has_path(name, text.path.parent):
            yield name
    for name in SETTING_IN_PROSE.findall(prose):
        if not (things.has_setting(name) or things.has_file_name(name)):
            yield f"setting {name}"
    for number in DECISION.findall(text.words):
        if not things.has_decision(number):
            yield f"ADR {number}"


def _exists(things: NamedThings, name: str, where: Path, *, is_alone: bool) -> bool:
    """Tell whether a name in code style exists; text that is no name passes."""
    if FILE.fullmatch(name):
        # In a docstring `x.py` is a file of the same folder, in a document any file of that name.
        is_neighbour = where.suffix == name[-3:] == ".py"
        return things.has_path(name, where.parent) or (
            not is_neighbour and things.has_file_name(name)
        )
    if PATH.fullmatch(name):
        return things.has_path(name, where.parent)
    if DOTTED.fullmatch(name):
        return things.has_setting(name) or things.has_member(name, where.parent)
    if IDENTIFIER.fullmatch(name) and is_alone:
        return things.has_identifier(name)
    return True


def _entries_of_rules(root: Path) -> Iterator[Text]:
    """Yield the modules and paths that the house rules name."""
    for path in tree.python_files(root, HOUSE_RULES):
        for node in tree.nodes(root, path):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                folder = getattr(tree, tree.dotted(node.left).rpartition(".")[2], None)
                if isinstance(folder, Path) and isinstance(node.right, ast.Constant):
                    yield Text(path, node.lineno, str(folder / str(node.right.value)))
            elif isinstance(node, ast.Call) and tree.dotted(node.func) == "Path":
                yield from (
                    Text(path, node.lineno, str(each.value))
                    for each in node.args
                    if isinstance(each, ast.Constant)
                )
            elif isinstance(node, ast.Constant) and OUR_MODULE.fullmatch(str(node.value)):
                yield Text(path, node.lineno, str(node.value))


def _modules_of_project(root: Path) -> Iterator[Text]:
    """Yield the modules that import contracts and linter settings name."""
    for number, line in enumerate(_project(root).splitlines(), start=1):
        for quoted in re.findall(r'"([^"]+)"', line):
            for word in IN_CONTRACTS.split(quoted):
                if OUR_MODULE.fullmatch(word):
                    yield Text(PROJECT, number, word)


def _unmatched_patterns(root: Path) -> Iterator[str]:
    """Find patterns of the linter's exceptions that no file matches."""
    linter = tomllib.loads(_project(root)).get("tool", {}).get("ruff", {}).get("lint", {})
    for written in linter.get("per-file-ignores", {}):
        choice = CHOICE.fullmatch(written)
        names = choice[2].split(",") if choice else []
        for pattern in [f"{choice[1]}{name}{choice[3]}" for name in names] if choice else [written]:
            if not any(root.glob(pattern)):
                yield f"{PROJECT}: no file matches {pattern}"


def _is_listed(things: NamedThings, entry: str) -> bool:
    if OUR_MODULE.fullmatch(entry):
        return things.has_member(entry, Path())
    return things.has_path(entry, Path())


def _project(root: Path) -> str:
    return (root / PROJECT).read_text() if (root / PROJECT).is_file() else ""

"""Every name in the tree: of files, modules, members, settings, fields.

`references` uses it. An ambiguous name needs one match: a path may start at any package, and a
string in code counts as a name.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections import defaultdict
from pathlib import Path

from tests.house.rules import tree
from tests.house.rules.decisions import DECISIONS
from tests.house.rules.reach import CONFIG, DECLARERS

BEGINNINGS = (Path(), *tree.PACKAGES, *(package.parent for package in tree.PACKAGES))
"""The folders where a path or dotted name in a text may start, besides the text's own folder."""

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CRDS = Path("helm/strandline-crds/templates")
FIELDS_OF_OBJECTS = {"metadata", "spec", "status"}
WORD = re.compile(r"\w+")
HOUSE_TESTS = Path("tests/house")
SPELLED_LENGTH_MAX = 100
"""A longer string of code counts as prose, not as a name."""

KEY_OF_A_FIELD = re.compile(r"description: ([a-z]+(?:\.[a-z]+)+);")
"""Kafka's key, with which the description of a field begins."""
OF_OTHERS = {
    "socket.connection.setup.timeout.ms",  # a setting of librdkafka
    "fetch.min.bytes",  # of Kafka's consumers
    *("flush.messages", "partition.metadata"),  # Kafka's names of a topic setting and of a file
    "spark.read.format",
    *("true", "false", "null"),
}
"""Names that belong to other programs."""


class NamedThings:
    """All names of one tree, collected once."""

    def __init__(self, root: Path) -> None:
        self._paths: set[Path] = set()
        self._settings: set[str] = set()
        self._identifiers = {*keyword.kwlist, *OF_OTHERS}
        self._strings: set[str] = set()
        self._modules: dict[Path, dict[str, set[str]]] = {}
        self._classes: defaultdict[str, set[str]] = defaultdict(set)
        self._words_of_objects: set[str] = set()
        for path in tree.files(root):
            self._paths |= {path, *path.parents}
            if path.suffix == ".py":
                self._read_module(root, path)
            elif path.is_relative_to(CRDS):
                crd = (root / path).read_text()
                self._words_of_objects.update(WORD.findall(crd))
                self._settings.update(KEY_OF_A_FIELD.findall(crd))

    def has_path(self, name: str, own_folder: Path) -> bool:
        """Tell whether a path exists, relative to the text's folder or to one of BEGINNINGS."""
        return any(_normal(start / name) in self._paths for start in (own_folder, *BEGINNINGS))

    def has_target(self, link: str, own_folder: Path) -> bool:
        """Tell whether a link's target exists; links start at the text's folder alone."""
        return _normal(own_folder / link) in self._paths

    def has_file_name(self, name: str) -> bool:
        """Tell whether a file of the tree, or one that our code makes, has this name."""
        return name in self._strings or any(path.name == name for path in self._paths)

    def has_setting(self, name: str) -> bool:
        """Tell whether `config/` declares this key, or a field of an object has it."""
        return name in self._settings or name in OF_OTHERS

    def has_decision(self, number: str) -> bool:
        """Tell whether docs/adr has a page of this number."""
        return any(
            path.parent == DECISIONS and path.name.startswith(f"{number}-") for path in self._paths
        )

    def has_identifier(self, name: str) -> bool:
        """Tell whether code, a file or an object of Kubernetes uses this name."""
        return (
            name in self._identifiers
            or name in self._strings
            or name in self._words_of_objects
            or any(path.stem == name for path in self._paths)
        )

    def has_member(self, name: str, own_folder: Path) -> bool:
        """Tell whether a dotted name is a module, a member of one, of a class, or of an object."""
        first, *rest = name.split(".")
        if first in self._classes and rest[:1] and rest[0] in self._classes[first]:
            return True
        if first[0].isupper() or first in FIELDS_OF_OBJECTS:
            return {first, *rest} <= self._words_of_objects
        return any(self._is_below(start, [first, *rest]) for start in (own_folder, *BEGINNINGS))

    def _is_below(self, folder: Path, names: list[str]) -> bool:
        if not names:
            return folder in self._paths
        first, *rest = names
        if folder / first in self._paths and self._is_below(folder / first, rest):
            return True
        module = folder / f"{first}.py"
        if module in self._modules:
            return self._has(self._modules[module], rest)
        package = self._modules.get(folder / "__init__.py")
        return package is not None and self._has(package, names)

    @staticmethod
    def _has(members: dict[str, set[str]], names: list[str]) -> bool:
        """Tell whether a module has a member, or one of its classes has."""
        if not names:
            return True
        if names[0] in members:
            return len(names) == 1 or names[1] in members[names[0]]
        return any(names[0] in of_class for of_class in members.values())

    def _read_module(self, root: Path, path: Path) -> None:
        members: dict[str, set[str]] = {}
        for each in tree.parse(root, path).body:
            inner = _members(each) if isinstance(each, ast.ClassDef) else set()
            members.update(dict.fromkeys(_defined(each), inner))
            if isinstance(each, ast.ClassDef):
                self._classes[each.name] |= inner
        self._modules[path] = members
        docstrings = {n.value for n in tree.nodes(root, path) if isinstance(n, ast.Expr)}
        for node in tree.nodes(root, path):
            if isinstance(node, ast.Constant):
                # Names in a docstring, or in a planted offence, do not prove that they exist.
                if node not in docstrings and not path.is_relative_to(HOUSE_TESTS):
                    self._read_constant(node.value)
            else:
                self._read_node(node)
            if isinstance(node, ast.Call) and path.is_relative_to(CONFIG):
                self._settings.update(_declared(node))

    def _read_node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self._identifiers.add(node.id)
        elif isinstance(node, ast.Attribute):
            self._identifiers.add(node.attr)
        elif isinstance(node, ast.arg | ast.keyword):
            self._identifiers.add(node.arg or "")
        elif isinstance(node, DEFINITIONS):
            self._identifiers.add(node.name)

    def _read_constant(self, value: object) -> None:
        if isinstance(value, str) and len(value) <= SPELLED_LENGTH_MAX:
            self._strings |= {value, *WORD.findall(value)}


def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module or class binds."""
    if isinstance(node, DEFINITIONS):
        return {node.name}
    if isinstance(node, ast.AnnAssign):
        return {tree.dotted(node.target)}
    if isinstance(node, ast.Assign):
        return {tree.dotted(target) for target in node.targets}
    return set()


def _members(of_class: ast.ClassDef) -> set[str]:
    """Return the names that a class defines and that its methods set on self."""
    members = {name for each in of_class.body for name in _defined(each)}
    for node in ast.walk(of_class):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            bound = (name for name in _defined(node) if name.startswith("self."))
            members |= {name.removeprefix("self.") for name in bound}
    return members


def _declared(call: ast.Call) -> set[str]:
    """Return the key that a call in `config/` declares."""
    function = tree.dotted(call.func)
    keys = [each.value for each in call.keywords if each.arg == "key"]
    if function in DECLARERS:
        keys += call.args[:1]
    return {str(key.value) for key in keys if isinstance(key, ast.Constant)}


def _normal(path: Path) -> Path:
    """Return a path without `..`, without a look at the file system."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return Path(*parts)

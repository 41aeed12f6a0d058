"""Each value has one owner: machines change their own alone, and ownership claims are true.

A claim has one of these forms, in the docstring of a module (then about all its classes), of a
class, or below an alias (then about the classes that it joins):

    changed by `X` alone     `X` alone changes ...     changed by its own methods alone
    made by `X` alone        `X` alone makes ...
    used by `X` alone        `X` alone uses ...        called by `X` alone

"only" may stand for "alone", and "`X` and `Y`" for "`X`". X is a class, a function, a module or a
package; a claim about X holds for X's file or folder. Changed: outside of X no attribute of the
class is assigned, and no method is called that assigns one; if X is the class itself, any code may
call its methods. Made, and changed if the class is frozen: no object of the class is made outside
of X. Used, called: only X imports the module or the class.

The rule compares names, not types: an attribute or method counts as one of the class if the file
imports the class, or if no other class has one of that name.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tests.house.rules import tree
from tests.house.rules.layers import imports_of

_NAMES = r"`[\w.]+`(?: and `[\w.]+`)*"
PASSIVE = re.compile(
    rf"\b(changed|made|used|called) by (its own methods|{_NAMES}) (?:alone|only)\b", re.IGNORECASE
)
ACTIVE = re.compile(rf"({_NAMES}) alone (change|make|use|call)s?\b")
PARTICIPLES = {"change": "changed", "make": "made", "use": "used", "call": "called"}
LIKE_A_CLAIM = re.compile(r"\b(?:changed|used|called) by [^.;:]*?\b(?:alone|only)\b", re.IGNORECASE)
CHANGES_IN_PLACE = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem",
    "popleft", "remove", "setdefault", "sort", "update",
}  # fmt: skip
"""Methods that change lists, dicts, sets and deques."""

CHANGED_ANYWHERE = {
    "fault_counts": "a Counter: where a fault takes effect, it is counted",
    "path": "of the module sys: what the bench adds to find itself",
}
"""Attributes that may be changed in several files, with the reason."""

ONE_OWNER = tree.PURE
"""Folders in which only an object's own methods may change its attributes."""


@dataclass(frozen=True)
class OwnedClass:
    """A class that a claim may be about; `changers` are the methods that change its objects."""

    name: str
    path: Path
    is_frozen: bool
    members: frozenset[str]
    changers: frozenset[str]


@dataclass(frozen=True)
class Claim:
    """A claim of one docstring; it is about a whole module if `module` is set."""

    path: Path
    verb: str
    owner: str
    classes: tuple[OwnedClass, ...]
    module: str | None

    def __str__(self) -> str:
        return f"{self.path} says: {self.verb} by {self.owner} alone"


class Sources:
    """The shipped files, as far as claims need them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = list(tree.shipped_files(root))
        self.imports = {
            path: {
                target
                for _, target in imports_of(tree.nodes(root, path), tree.module_name(path), path)
            }
            for path in self.paths
        }
        self.calls: dict[Path, list[tuple[int, str]]] = {}
        self.changes: dict[Path, list[tuple[int, str]]] = {}
        for path in self.paths:
            nodes = tree.nodes(root, path)
            self.calls[path] = [
                (node.lineno, getattr(node.func, "attr", tree.dotted(node.func)))
                for node in nodes
                if isinstance(node, ast.Call)
            ]
            self.changes[path] = [
                (target.lineno, target.attr)
                for node in nodes
                for target in _changed(node)
                if not _is_of_self(target)
            ]
        self.classes: defaultdict[str, list[OwnedClass]] = defaultdict(list)
        self.functions: defaultdict[str, list[Path]] = defaultdict(list)
        for path in self.paths:
            for node in tree.parse(root, path).body:
                if isinstance(node, ast.ClassDef):
                    self.classes[node.name].append(_owned(node, path))
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self.functions[node.name].append(path)
        self.bearers = Counter(
            name for found in self.classes.values() for each in found for name in each.members
        )

    def places_of(self, owner: str) -> list[Path]:
        """Return the files or folders of a class, a function, a module or a package."""
        if owner in self.classes:
            return [each.path for each in self.classes[owner]]
        parts = tuple(owner.split("."))
        modules = [
            path for path in self.paths if path.with_suffix("").parts[-len(parts) :] == parts
        ]
        packages = {path.parent for path in self.paths if path.parts[-len(parts) - 1 : -1] == parts}
        return [*self.functions.get(owner, []), *modules] or sorted(packages)


def foreign_changes(root: Path) -> list[str]:
    """Find statements of a machine that change an attribute of another object.

    A method may change its own object and local values.
    """
    return [
        f"{path}:{attribute.lineno}: changes {tree.dotted(attribute)} of another object"
        for folder in ONE_OWNER
        for path in tree.python_files(root, folder)
        for node in tree.nodes(root, path)
        for attribute in _changed(node)
        if not _is_of_self(attribute)
    ]


def strayed_changes(root: Path) -> list[str]:
    """Find shipped statements that change an attribute of a class of another file.

    By name: an attribute that a class of this file has, too, counts as its own.
    """
    homes: defaultdict[str, set[Path]] = defaultdict(set)
    paths = list(tree.shipped_files(root))
    for path in paths:
        for node in tree.nodes(root, path):
            if isinstance(node, ast.ClassDef):
                for name in _attributes(node):
                    homes[name].add(path)
    return [
        f"{path}:{attribute.lineno}: changes {tree.dotted(attribute)}, which is not of this file"
        for path in paths
        for node in tree.nodes(root, path)
        for attribute in _changed(node)
        if homes[attribute.attr] and path not in homes[attribute.attr]
        if not _is_of_self(attribute) and attribute.attr not in CHANGED_ANYWHERE
    ]


def _attributes(node: ast.ClassDef) -> Iterator[str]:
    """Yield the fields that a class declares or gives to itself."""
    for each in ast.walk(node):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id
        yield from (changed.attr for changed in _changed(each) if _is_of_self(changed))


def broken_ownership(root: Path) -> list[str]:
    """Find ownership claims of docstrings that the code does not keep."""
    sources = Sources(root)
    offences: list[str] = []
    for path in sources.paths:
        for text, classes, module in _docstrings(sources, path):
            prose = " ".join(text.split())
            known = {found.start() for found in PASSIVE.finditer(prose)}
            offences += [
                f"{path}: names no owner: {found[0]}"
                for found in LIKE_A_CLAIM.finditer(prose)
                if found.start() not in known
            ]
            claimed = [(verb.lower(), owner) for verb, owner in PASSIVE.findall(prose)]
            claimed += [(PARTICIPLES[verb], owner) for owner, verb in ACTIVE.findall(prose)]
            for verb, owner in claimed:
                offences += _offences(sources, Claim(path, verb, owner, classes, module))
    return offences


def _offences(sources: Sources, claim: Claim) -> Iterator[str]:
    places = [claim.path.parent if claim.path.name == "__init__.py" else claim.path]
    for owner in re.findall(r"`([\w.]+)`", claim.owner):
        found = sources.places_of(owner)
        places += found
        if not found:
            yield f"{claim.path}: there is no owner {owner}"
    for path in sources.paths:
        if not any(path.is_relative_to(place) for place in places):
            if claim.verb in {"used", "called"}:
                broken = _uses(sources, path, claim)
            else:
                broken = _changes(sources, path, claim)
            yield from (f"{path}{what}; {claim}" for what in broken)


def _uses(sources: Sources, path: Path, claim: Claim) -> Iterator[str]:
    targets = [claim.module] if claim.module else [_full_name(each) for each in claim.classes]
    for target in targets:
        found = sources.imports[path]
        if any(each == target or each.startswith(f"{target}.") for each in found):
            yield f": imports {target}"


def _changes(sources: Sources, path: Path, claim: Claim) -> Iterator[str]:
    for owned in claim.classes:
        is_imported = _full_name(owned) in sources.imports[path]
        if claim.verb == "made" or owned.is_frozen:
            for line, function in sources.calls[path]:
                if is_imported and function == owned.name:
                    yield f":{line}: makes {owned.name}"
            continue
        found = [each for each in sources.changes[path] if each[1] in owned.members]
        if f"`{owned.name}`" not in claim.owner and "`" in claim.owner:
            found += [each for each in sources.calls[path] if each[1] in owned.changers]
        for line, name in found:
            if is_imported or sources.bearers[name] == 1:
                yield f":{line}: changes {owned.name}.{name}"


def _docstrings(
    sources: Sources, path: Path
) -> Iterator[tuple[str, tuple[OwnedClass, ...], str | None]]:
    """Yield the docstrings that may have a claim, and the classes that they are about."""
    module = tree.parse(sources.root, path)
    own = {e.name: e for found in sources.classes.values() for e in found if e.path == path}
    yield ast.get_docstring(module) or "", tuple(own.values()), tree.module_name(path)
    joined: dict[str, tuple[OwnedClass, ...]] = {name: (each,) for name, each in own.items()}
    for node, after in zip_longest(module.body, module.body[1:]):
        if isinstance(node, ast.ClassDef):
            yield ast.get_docstring(node) or "", (own[node.name],), None
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            names = [each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)]
            members = tuple(each for name in names for each in joined.get(name, ()))
            joined[tree.dotted(node.targets[0])] = members
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                yield str(after.value.value), members, None


def _owned(node: ast.ClassDef, path: Path) -> OwnedClass:
    fields = {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    changers = set()
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            changed = {
                target.attr
                for each in ast.walk(method)
                for target in _changed(each)
                if _is_of_self(target)
            }
            fields |= changed
            if changed and not method.name.startswith("__"):
                changers.add(method.name)
    changers -= CHANGES_IN_PLACE
    is_frozen = any("frozen=True" in ast.unparse(mark) for mark in node.decorator_list)
    return OwnedClass(
        name=node.name,
        path=path,
        is_frozen=is_frozen,
        members=frozenset(fields | changers),
        changers=frozenset(changers),
    )


def _changed(node: ast.AST) -> Iterator[ast.Attribute]:
    """Yield the attributes that a statement or call assigns, deletes or changes in place."""
    changed: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        for target in node.targets:
            changed += target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
        changed.append(node.target)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CHANGES_IN_PLACE
    ):
        changed.append(node.func.value)
    for each in changed:
        inner = each
        while isinstance(inner, ast.Subscript):
            inner = inner.value
        if isinstance(inner, ast.Attribute):
            yield inner


def _is_of_self(attribute: ast.Attribute) -> bool:
    return isinstance(attribute.value, ast.Name) and attribute.value.id == "self"


def _full_name(owned: OwnedClass) -> str:
    return f"{tree.module_name(owned.path)}.{owned.name}"

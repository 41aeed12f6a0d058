"""Modules must be used by the broker's process, and settings by code.

A module that no process imports, or a key that no code reads, promises what does not happen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.house.rules import tree
from tests.house.rules.layers import imports_of

ENTRY = "strandline.runtime.main"
DUMP_LOG = "strandline.dump_log"
DUMP_LOG_ENTRY = "strandline.dump_log.__main__"
CONFIG = tree.BROKER / "config"
BROKER_CONFIG = "BrokerConfig"
DECLARERS = {"fraction", "integer", "text"}
NOT_READERS = {"check"}
"""Methods of a concern that check a setting and do not use it otherwise."""


def unreached_modules(root: Path) -> list[str]:
    """Find modules of the broker's package that its entry imports neither directly nor indirectly.

    The broker's image holds this package, so a module that only others need belongs to them. What
    prints a log has an entry of its own in that image.

    Only imports that run with their module count. An import in a function does not, because the
    function may never be called; an import for type checking does not either.
    """
    modules = {tree.module_name(path): path for path in tree.python_files(root, tree.BROKER)}
    missing = [f"{entry}: missing" for entry in (ENTRY, DUMP_LOG_ENTRY) if entry not in modules]
    if missing:
        return missing
    reached = _reached(root, modules, ENTRY)
    printing = _reached(root, modules, DUMP_LOG_ENTRY)
    return [
        f"{path}: not reached from {DUMP_LOG_ENTRY if module.startswith(DUMP_LOG) else ENTRY}"
        for module, path in modules.items()
        if module not in (printing if module.startswith(DUMP_LOG) else reached)
    ]


def unread_settings(root: Path) -> list[str]:
    """Find settings that no code outside config/ reads, which have no effect.

    Code reads a setting if it takes the attribute from a concern. A value is the concern by its
    annotation, by its field in the broker's configuration, or by assignment from either. A call
    of a concern's method reads what the method takes from self, except for `check`.
    """
    classes = {
        node.name: node
        for path in tree.python_files(root, CONFIG)
        for node in tree.parse(root, path).body
        if isinstance(node, ast.ClassDef)
    }
    concerns = {name: found for name, node in classes.items() if (found := _declared(node))}
    if not concerns:
        return [f"{CONFIG}: declares no setting"]
    places = _fields_of_broker_config(classes.get(BROKER_CONFIG))
    taken: dict[str, set[str]] = {name: set() for name in concerns}
    for path in tree.shipped_files(root):
        if not path.is_relative_to(CONFIG):
            nodes = [n for n in tree.nodes(root, path) if isinstance(n, _TELLING)]
            words = {
                n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in nodes
            }
            for concern in concerns:
                place = places.get(concern, concern)
                if words & {concern, place}:
                    taken[concern].update(_Reader(concern, place).taken(nodes))
    for concern in concerns:
        taken[concern].update(_read_by_methods(classes[concern], taken[concern].copy()))
    return [
        f"{CONFIG}: no code obeys {key} ({concern}.{field})"
        for concern, settings in concerns.items()
        for field, key in settings.items()
        if field not in taken[concern]
    ]


_TELLING = (ast.arg, ast.Assign, ast.AnnAssign, ast.Attribute, ast.Name)


class _Reader:
    """Finds the names under which a module holds a concern."""

    def __init__(self, concern: str, place: str) -> None:
        self._concern = concern
        self._place = place
        self._names: set[str] = set()

    def taken(self, nodes: Sequence[ast.AST]) -> set[str]:
        """Return the attributes that a module takes from the concern."""
        before = -1
        while before < len(self._names):  # an assignment may come before that of its source
            before = len(self._names)
            for node in nodes:
                self._note(node)
        return {
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and self._is_concern(node.value)
        }

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.arg) and self._is_class(node.annotation):
            self._names.add(node.arg)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._note_pair(target, node.value)
        elif isinstance(node, ast.AnnAssign) and self._is_class(node.annotation):
            self._names.add(tree.dotted(node.target))

    def _note_pair(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for inner, given in zip(target.elts, value.elts, strict=False):
                self._note_pair(inner, given)
        elif self._is_concern(value):
            self._names.add(tree.dotted(target))

    def _is_concern(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return self._is_class(node.func)
        name = tree.dotted(node)
        return name in self._names or name.endswith(f".{self._place}")

    def _is_class(self, node: ast.expr | None) -> bool:
        return node is not None and tree.dotted(node) == self._concern


def _reached(root: Path, modules: dict[str, Path], entry: str) -> set[str]:
    reached: set[str] = set()
    waiting = [entry]
    while waiting:
        module = waiting.pop()
        if module in modules and module not in reached:
            reached.add(module)
            waiting += _imported(root, module, modules[module])
    return reached


def _imported(root: Path, module: str, path: Path) -> Iterator[str]:
    """Yield every name an import may mean: its packages, modules and members."""
    running = list(_running(tree.parse(root, path).body))
    for _, target in imports_of(running, module, path):
        parts = target.split(".")
        yield from (".".join(parts[: length + 1]) for length in range(len(parts)))


def _running(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run at the import of a module, including those in its blocks."""
    for node in statements:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and tree.dotted(node.test).endswith("TYPE_CHECKING"):
            yield from _running(node.orelse)
            continue
        for _, block in ast.iter_fields(node):
            if isinstance(block, list):
                yield from _running(each for each in block if isinstance(each, ast.stmt))
                for handler in block:
                    if isinstance(handler, ast.ExceptHandler):
                        yield from _running(handler.body)


def _declared(node: ast.ClassDef) -> dict[str, str]:
    """Return the settings of a concern, key by field."""
    return {
        each.target.id: str(each.value.args[0].value)
        for each in node.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and isinstance(each.value, ast.Call)
        and tree.dotted(each.value.func) in DECLARERS
        and each.value.args
        and isinstance(each.value.args[0], ast.Constant)
    }


def _fields_of_broker_config(node: ast.ClassDef | None) -> dict[str, str]:
    """Return each concern's field in the broker's configuration."""
    return {
        tree.dotted(each.annotation): tree.dotted(each.target)
        for each in (node.body if node else [])
        if isinstance(each, ast.AnnAssign)
    }


def _read_by_methods(concern: ast.ClassDef, called: set[str]) -> Iterator[str]:
    for method in concern.body:
        if isinstance(method, ast.FunctionDef) and method.name in called - NOT_READERS:
            for node in ast.walk(method):
                if isinstance(node, ast.Attribute) and tree.dotted(node.value) == "self":
                    yield node.attr

"""What code may not do: reach the outside world from the core, swallow errors, sleep in tests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.house.rules import tree

WORLDLY_BUILTINS = {
    "__import__", "breakpoint", "compile", "eval", "exec", "globals", "hash", "id", "input",
    "open", "print", "vars",
}  # fmt: skip
"""Builtins that reach the outside world; results of hash and id differ from run to run."""

MAY_CATCH_EVERYTHING = (
    tree.BROKER / "runtime/event_loop/driver.py",
    tree.BROKER / "kafka_listener/connection.py",
)
"""Files in which no exception may end the process: the driver and the edge to clients."""

MAY_SLEEP = tree.TESTS / "support/eventually.py"

TYPE_IGNORES_MAX = 20
TYPE_IGNORE = re.compile(r"#\s*type:\s*ignore(?P<code>\[[a-z-]+(, ?[a-z-]+)*\])?(?P<rest>.*)$")
REASON = re.compile(r"\s+#\s+\S+")


def impure(root: Path) -> list[str]:
    """Find async code in the pure machines, and code of theirs that reaches the outside world."""
    found = []
    for folder in tree.PURE:
        for path in tree.python_files(root, folder):
            found += [f"{path}:{line}: {what}" for line, what in _worldly(tree.nodes(root, path))]
    return found


def unfinished(root: Path) -> list[str]:
    """Find assert and NotImplementedError in shipped code, which must raise InvariantViolation."""
    found = []
    for path in tree.shipped_files(root):
        for node in tree.nodes(root, path):
            if isinstance(node, ast.Assert):
                found.append(f"{path}:{node.lineno}: assert; raise InvariantViolation")
            if isinstance(node, ast.Name) and node.id in {"NotImplementedError", "NotImplemented"}:
                found.append(f"{path}:{node.lineno}: {node.id}")
    return found


def swallowing(root: Path) -> list[str]:
    """Find handlers that catch everything, outside of the driver and the edges.

    A handler that cleans up and raises again is allowed.
    """
    found = []
    for path in tree.shipped_files(root):
        if path in MAY_CATCH_EVERYTHING:
            continue
        found += [
            f"{path}:{node.lineno}: catches everything"
            for node in tree.nodes(root, path)
            if isinstance(node, ast.ExceptHandler) and _catches_everything(node)
        ]
    return found


def sleeping(root: Path) -> list[str]:
    """Find tests that wait for time instead of a condition; yielding is allowed."""
    found = []
    for path in tree.python_files(root, tree.TESTS):
        if path == MAY_SLEEP:
            continue
        for node in tree.nodes(root, path):
            if isinstance(node, ast.Call) and tree.dotted(node.func) in {"time.sleep", "sleep"}:
                found.append(f"{path}:{node.lineno}: sleeps")
            if isinstance(node, ast.Call) and tree.dotted(node.func) == "asyncio.sleep":
                argument = node.args[0] if node.args else None
                if not (isinstance(argument, ast.Constant) and argument.value == 0):
                    found.append(f"{path}:{node.lineno}: sleeps")
    return found


def unexplained_type_ignores(root: Path) -> list[str]:
    """Find type ignores without code or reason, and too many of them altogether."""
    found = []
    count = 0
    for path in tree.python_files(root):
        for number, line in enumerate(tree.lines(root, path), start=1):
            match = TYPE_IGNORE.search(line)
            if match is None or _in_a_string(line, match.start()):
                continue
            count += 1
            if not match["code"]:
                found.append(f"{path}:{number}: type ignore without its code")
            elif not REASON.match(match["rest"]):
                found.append(f"{path}:{number}: type ignore without a reason")
    if count > TYPE_IGNORES_MAX:
        found.append(f"{count} type ignores, at most {TYPE_IGNORES_MAX}")
    return found


def _worldly(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in WORLDLY_BUILTINS:
                yield node.lineno, f"calls {node.func.id}"
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield node.lineno, "is asynchronous"
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield node.lineno, "keeps state outside its objects"


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(tree.dotted(each) in {"Exception", "BaseException"} for each in types)


def _in_a_string(line: str, position: int) -> bool:
    return line[:position].count('"') % 2 == 1

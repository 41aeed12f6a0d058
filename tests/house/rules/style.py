"""One way to write a module's logger, its imports from its own folder, and a log line's values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.rules import tree

LOGGER = "_log"


def many_ways(root: Path) -> list[str]:
    """Find loggers of another name, absolute imports in one folder, log values outside `fields`."""
    return [
        f"{path}:{line}: {what}"
        for path in tree.shipped_files(root)
        for line, what in _offences(tree.nodes(root, path), tree.module_name(path))
    ]


def _offences(nodes: tuple[ast.AST, ...], module: str) -> Iterator[tuple[int, str]]:
    folder = module.rpartition(".")[0]
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                if ast.unparse(call) == "logging.getLogger(__name__)" and name != LOGGER:
                    yield node.lineno, f"the logger of a module is {LOGGER}, not {name}"
            case ast.ImportFrom(level=0, module=str(origin)) if "." in folder:
                if origin.rpartition(".")[0] == folder:
                    yield node.lineno, f"a neighbour is imported as .{origin.rpartition('.')[2]}"
            case ast.keyword(arg="extra", value=value):
                if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "fields"):
                    yield value.lineno, "what a log line carries is given by extra=fields(...)"
            case _:
                pass

"""Files and functions are short, and public ones have docstrings."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.rules import tree

CORE_FILE_LINES_MAX = 300
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def too_long(root: Path) -> list[str]:
    """Find hand-written files and functions that are longer than their limit."""
    found = []
    for path in tree.python_files(root):
        pure = any(path.is_relative_to(folder) for folder in tree.PURE)
        limit = CORE_FILE_LINES_MAX if pure else FILE_LINES_MAX
        count = len(tree.lines(root, path))
        if count > limit:
            found.append(f"{path}: {count} lines, at most {limit}")
        for node in tree.nodes(root, path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    found.append(f"{path}:{node.lineno}: {node.name} has {length} lines")
    return found


def undocumented(root: Path) -> list[str]:
    """Find modules, public classes and public functions without a docstring.

    A test function needs none, because its name explains it; a test module needs one.
    """
    found = []
    for path in tree.python_files(root):
        module = tree.parse(root, path)
        if module.body and not ast.get_docstring(module):
            found.append(f"{path}: no module docstring")
        if not path.is_relative_to(tree.TESTS):
            found += [f"{path}:{line}: {name} has no docstring" for line, name in _bare(module)]
    return found


def _bare(scope: ast.Module | ast.ClassDef) -> list[tuple[int, str]]:
    bare: list[tuple[int, str]] = []
    for node in scope.body:
        if isinstance(node, _DEFINITIONS) and not node.name.startswith("_"):
            overload = any(tree.dotted(mark).endswith("overload") for mark in node.decorator_list)
            if not ast.get_docstring(node) and not overload:
                bare.append((node.lineno, node.name))
            if isinstance(node, ast.ClassDef):
                bare += _bare(node)
    return bare

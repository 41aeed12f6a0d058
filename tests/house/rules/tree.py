"""Reads the tree for the rules: which files are ours, and their syntax trees.

Generated code and folders that tools make are not ours.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOOL_FOLDERS = {"__pycache__", "build", "dist", "node_modules", "wheelhouse"}
OUR_HIDDEN_FOLDERS = {".ci", ".github"}
GENERATED_ENDINGS = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")

BROKER = Path("broker_image/strandline")
CHECKER = Path("cli/strandline_checker")
CLI = Path("cli/strandline_cli")
SIMULATION = Path("cli/strandline_simulation")
OPERATOR = Path("operator/strandline_operator")
API = Path("protos/strandline_api")
ANALYSIS = Path("spark/strandline_analysis")
PACKAGES = (BROKER, CHECKER, CLI, SIMULATION, OPERATOR, ANALYSIS, API)
TESTS = Path("tests")
PURE = (BROKER / "core", BROKER / "controller", BROKER / "controller_session")


def files(root: Path, under: Path = Path()) -> Iterator[Path]:
    """Yield every hand-written file below a folder, relative to root, in sorted order."""
    for folder, folders, names in os.walk(root / under):
        folders[:] = sorted(name for name in folders if _is_ours(name))
        for name in sorted(names):
            # In a worktree of git `.git` is a file, in a clone it is a folder.
            if not name.endswith(GENERATED_ENDINGS) and name != ".git":
                yield (Path(folder) / name).relative_to(root)


def python_files(root: Path, under: Path = Path()) -> Iterator[Path]:
    """Yield the hand-written Python files below a folder."""
    return (path for path in files(root, under) if path.suffix == ".py")


def shipped_files(root: Path) -> Iterator[Path]:
    """Yield the hand-written Python files that are part of the distribution."""
    for package in PACKAGES:
        yield from python_files(root, package)


@cache
def parse(root: Path, path: Path) -> ast.Module:
    """Return the syntax tree of a file; all rules share it, so a caller must not change it."""
    return ast.parse((root / path).read_text(), filename=str(path))


@cache
def nodes(root: Path, path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's syntax tree; the walk is cached, because most rules need it."""
    return tuple(ast.walk(parse(root, path)))


def forget() -> None:
    """Free the cache, because every garbage collection would visit its half a million objects."""
    nodes.cache_clear()
    parse.cache_clear()


def lines(root: Path, path: Path) -> list[str]:
    """Return the lines of a text file, none if it is not text."""
    try:
        return (root / path).read_text().splitlines()
    except UnicodeDecodeError:
        return []


def dotted(node: ast.expr) -> str:
    """Return the dotted name of an expression, "" if it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def module_name(path: Path) -> str:
    """Return the dotted name under which a shipped file is imported."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_ours(folder: str) -> bool:
    if folder.startswith("."):
        return folder in OUR_HIDDEN_FOLDERS
    return folder not in TOOL_FOLDERS and not folder.endswith(".egg-info")

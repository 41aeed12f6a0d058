"""Which single modules a package may import.

The layers are import contracts in pyproject.toml; this table is finer. It is checked against
direct imports alone, and imports for type checking count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.house.rules import tree

_VOCABULARY = (
    "strandline.core.events",
    "strandline.core.effects",
    "strandline.core.fetch_changes",
    "strandline.core.notices",
    "strandline.controller.events",
    "strandline.controller.effects",
    "strandline.controller.notices",
    "strandline.controller.store_events",
    "strandline.controller_session.events",
    "strandline.controller_session.effects",
    "strandline.controller_session.messages",
)
_GROUND = (
    "strandline.model",
    "strandline.backoff",
    "strandline.errors",
    "strandline.names",
    "strandline.config",
    "strandline.start_decision",
    "strandline.broker_interface",
)
_SHELL = (*_VOCABULARY, *_GROUND, "strandline.log_fields")
"""What a package that performs effects may import; unlike core and controller it logs."""

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "strandline.model": (),
    "strandline.backoff": (),
    "strandline.errors": (),
    "strandline.log_fields": (),
    "strandline.metric": (),
    "strandline.names": ("strandline.metric",),
    "strandline.broker_interface": ("strandline.model", "strandline.errors"),
    "strandline.start_decision": ("strandline.model", "strandline.errors"),
    "strandline.config": ("strandline.config", *_GROUND),
    "strandline.core": ("strandline.core", *_GROUND),
    "strandline.controller": ("strandline.controller", *_GROUND),
    "strandline.controller_session": (
        "strandline.controller_session",
        "strandline.core.events",
        "strandline.core.effects",
        "strandline.core.views",
        "strandline.controller.death_probes",
        "strandline.controller.effects",
        "strandline.controller.events",
        "strandline.controller.store_events",
        *_GROUND,
    ),
    "strandline.component_settings": (
        "strandline.core.settings",
        "strandline.controller.timing",
        "strandline.controller_session.timing",
        *_GROUND,
    ),
    "strandline.log": ("strandline.log", *_SHELL),
    "strandline.rpc": (
        "strandline.rpc",
        "strandline.controller_session.session_translation",
        "strandline_api",
        *_SHELL,
    ),
    "strandline.kafka_listener": ("strandline.kafka_listener", *_SHELL),
    "strandline.kube": ("strandline.kube", *_SHELL),
    "strandline.kube.objects": ("strandline.model", "strandline.errors"),
    "strandline_operator": (
        "strandline_operator",
        "strandline.model",
        "strandline.backoff",
        "strandline.errors",
        "strandline.log_fields",
        "strandline.names",
        "strandline.config",
        "strandline.kube",
        "strandline.controller.effects",
        "strandline.controller.lease_election",
        "strandline.controller.lease_observation",
        "strandline.controller.store_events",
        "strandline.controller.timing",
    ),
    "strandline_api": ("strandline_api",),
    "strandline_analysis": ("strandline_analysis", "strandline.names"),
    "strandline_cli": (
        "strandline_cli",
        "strandline.model",
        "strandline.errors",
        "strandline.names",
        "strandline.kube.objects",
        "strandline_checker",
        "strandline_operator.placement",
        "strandline_operator.rebalance",
    ),
    "strandline_checker": (
        "strandline_checker",
        "strandline.dump_log.scanned",
        "strandline.model",
        "strandline.errors",
    ),
    "strandline_cli.verbs": (
        "strandline_cli",
        "strandline_analysis",
        "strandline.dump_log",
        "strandline_simulation",
    ),
    "strandline_simulation": (
        "strandline_simulation",
        "strandline.core",
        "strandline.controller",
        "strandline.controller_session",
        "strandline.component_settings",
        *_GROUND,
    ),
}
"""A module's entry is its own or its nearest package's; runtime and dump_log may import all."""

ABOVE = ("strandline.runtime", "strandline.dump_log")
OURS = ("strandline", *(package.name for package in tree.PACKAGES if package != tree.BROKER))


def forbidden_imports(root: Path) -> list[str]:
    """Find imports of our own modules that the table above does not allow."""
    found = []
    for path in tree.shipped_files(root):
        module = tree.module_name(path)
        for line, target in imports_of(tree.nodes(root, path), module, path):
            if _is_in(target, OURS) and not _may_import(module, target):
                found.append(f"{path}:{line}: {module} may not import {target}")
    return found


def ambiguous_names(root: Path) -> list[str]:
    """Find modules and folders that could replace a module of Python."""
    found = []
    for path in tree.python_files(root):
        if path.name in {"types.py", "logging.py", "operator.py", "utils.py"}:
            found.append(f"{path}: a module of that name misleads")
        if path.parts[0] == "operator" and (path.name == "conftest.py" or len(path.parts) == 2):
            found.append(f"{path}: could replace Python's operator module")
    return found


def imports_of(nodes: Iterable[ast.AST], name: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, imported module or member) with relative imports resolved."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            for alias in node.names:
                yield node.lineno, f"{origin}.{alias.name}"


def _may_import(module: str, target: str) -> bool:
    if _is_in(module, ABOVE):
        return not _is_in(target, OURS[1:])
    above = module
    while above and above not in MAY_IMPORT:
        above = above.rpartition(".")[0]
    if above:
        return _is_in(target, MAY_IMPORT[above]) or target in MAY_IMPORT[above]
    return module == "strandline"


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)

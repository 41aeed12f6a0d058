"""No import circle among modules, so that a reader can read a module after all that it imports.

Import contracts are about packages; this rule is about the modules within them. Imports for type
checking count, because a module depends on the types that it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.house.rules import layers, tree


def import_circles(root: Path) -> list[str]:
    """Find one circle of modules that import each other; others show after it is gone."""
    try:
        TopologicalSorter(_imports(root)).prepare()
    except CycleError as error:
        # The sorter names each module before the one that imports it.
        circle = list(reversed(error.args[1]))
        return [f"import circle: {' -> '.join(circle)}"]
    return []


def _imports(root: Path) -> Mapping[str, set[str]]:
    """Return the modules of ours that each module of ours imports."""
    paths = {tree.module_name(path): path for path in tree.shipped_files(root)}
    for path in tree.python_files(root, tree.TESTS):
        paths[".".join(path.with_suffix("").parts).removesuffix(".__init__")] = path
    return {
        module: {
            nearest
            for _, target in layers.imports_of(tree.nodes(root, path), module, path)
            if (nearest := _nearest(target, paths)) not in {"", module}
        }
        for module, path in paths.items()
    }


def _nearest(target: str, modules: Mapping[str, Path]) -> str:
    """Return the module that an imported name belongs to, "" if it is none of ours."""
    while target and target not in modules:
        target = target.rpartition(".")[0]
    return target

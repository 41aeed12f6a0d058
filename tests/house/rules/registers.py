"""Lists that must agree with what they list: metrics, errors, requirements, verbs, protos."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.rules import tree

NAMES = tree.BROKER / "names.py"
ACCEPTANCE = Path("docs/acceptance")
ERRORS = tree.BROKER / "errors.py"
EXPORTER = tree.BROKER / "runtime/observability/metrics.py"
METRIC_NAME = re.compile(r"strandline_[a-z]+(?:_[a-z]+)+")
METRIC_CONSTANT = re.compile(r"[A-Z][A-Z_]+")
NOT_METRICS = re.compile(r"strandline_(?:analysis|api|checker|cli|operator|simulation)(?:\b|\.)")
READERS = (tree.ANALYSIS, tree.CLI)
"""Packages that read metrics and export none."""
REQUIREMENTS = {
    "analysis": Path("requirements/analysis.txt"),
    "broker": Path("requirements/broker.txt"),
    "cli": Path("hack/client/requirements.txt"),
    "operator": Path("requirements/operator.txt"),
    "dev": Path("requirements/dev.txt"),
}
REQUIREMENT = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<extras>[^]]+)\])?(?P<version>==[^\s;\\]+)"
)
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
VERB = re.compile(r"^(?P<verb>[a-z-]+):.*?(?P<help>## .+)?$", re.MULTILINE)
VERB_USE = re.compile(r"`make ((?!\.)[a-z][a-z-]*)\b")


def metric_names_elsewhere(root: Path) -> list[str]:
    """Find metric names spelled out in shipped code anywhere but in names.py."""
    return [
        f"{path}:{node.lineno}: {node.value} belongs in names.py"
        for path in tree.shipped_files(root)
        if path != NAMES
        for node in tree.nodes(root, path)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and METRIC_NAME.fullmatch(node.value)
        and not NOT_METRICS.match(node.value)
    ]


def metrics_without_exporter(root: Path) -> list[str]:
    """Find rows of names.py that no exporter names: neither the broker nor the operator."""
    if not (root / NAMES).is_file():
        return [f"{NAMES}: missing"]
    declared = {
        node.targets[0].id
        for node in tree.parse(root, NAMES).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and METRIC_CONSTANT.fullmatch(node.targets[0].id)
        and isinstance(node.value, ast.Call)
    }
    if not declared:
        return [f"{NAMES}: declares no metric"]
    if not (root / EXPORTER).is_file():
        return [f"{EXPORTER}: missing"]
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for path in tree.shipped_files(root)
        if path != NAMES and not any(path.is_relative_to(each) for each in READERS)
        for node in tree.nodes(root, path)
        if isinstance(node, ast.Attribute | ast.Name)
    }
    return [f"{NAMES}: no module exports {name}" for name in sorted(declared - used)]


def repeated_error_numbers(root: Path) -> list[str]:
    """Find error names that share a number, because an enum would make them one silently."""
    numbers: Counter[str] = Counter()
    for node in tree.nodes(root, ERRORS):
        if isinstance(node, ast.ClassDef) and node.name == "ErrorCode":
            numbers.update(
                ast.unparse(each.value) for each in node.body if isinstance(each, ast.Assign)
            )
    if not numbers:
        return [f"{ERRORS}: no ErrorCode"]
    return [f"{ERRORS}: number {number} twice" for number, times in numbers.items() if times > 1]


def loose_requirements(root: Path) -> list[str]:
    """Find unpinned dependencies, pins without hash, and lists older than pyproject.toml."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    found = []
    for image, path in REQUIREMENTS.items():
        text = tree.lines(root, path) if (root / path).is_file() else []
        pins = {
            f"{match['name']}{match['version']}".lower()
            for line in text
            if (match := REQUIREMENT.match(line))
        }
        wanted = [*project["dependencies"], *extras.get(image, [])]
        for each in wanted:
            if each.startswith(f"{project['name']}["):
                continue
            if "==" not in each:
                found.append(f"pyproject.toml: {each} is not pinned")
            elif each.lower() not in pins:
                found.append(f"{path}: lacks {each}; make requirements, or hack/images pin")
        for line, after in itertools.pairwise([*text, ""]):
            if line.startswith("-"):
                found.append(f"{path}: an option: {line}")
            if REQUIREMENT.match(line) and not HASH.match(after):
                found.append(f"{path}: no hash: {line}")
    return found


def lost_extras(root: Path) -> list[str]:
    """Find packages that are pinned without an extra that another package asks for.

    pip refuses such a list as soon as the pinned package has a newer release: it takes that one for
    the name with the extra, and finds no pin and no hash. The packages' own metadata tell who asks.
    """
    found = []
    for path in REQUIREMENTS.values():
        pinned = {
            canonicalize_name(match["name"]): set((match["extras"] or "").split(",")) - {""}
            for line in (tree.lines(root, path) if (root / path).is_file() else [])
            if (match := REQUIREMENT.match(line))
        }
        found += [
            f"{path}: {package} asks for {requirement.name}[{lacking}]"
            for package, extras in pinned.items()
            for requirement in _asked_for(package, extras)
            for lacking in requirement.extras
            - pinned.get(canonicalize_name(requirement.name), set())
        ]
    return found


def _asked_for(package: str, extras: set[str]) -> list[Requirement]:
    """Return what a package with some of its extras asks for here; nothing if it is not here."""
    try:
        asked = [Requirement(each) for each in requires(package) or []]
    except PackageNotFoundError:
        return []
    return [
        each
        for each in asked
        if each.marker is None
        or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def loosened_types(root: Path) -> list[str]:
    """Find a type checker that is not strict, or an exception beyond libraries without types."""
    mypy = tomllib.loads((root / "pyproject.toml").read_text()).get("tool", {}).get("mypy", {})
    found = [] if mypy.get("strict") is True else ["pyproject.toml: mypy is not strict"]
    found += [
        f"pyproject.toml: mypy.{key} = {mypy[key]}" for key in sorted(mypy) if mypy[key] is False
    ]
    for override in mypy.get("overrides", []):
        rest = {**override}
        modules = rest.pop("module")
        if rest != {"ignore_missing_imports": True}:
            found.append(f"pyproject.toml: mypy is loosened for {modules}: {rest}")
        found += [f"pyproject.toml: mypy is loosened for {each}" for each in modules if each == "*"]
    return found


def wrong_verbs(root: Path) -> list[str]:
    """Find verbs without a help text, and documents that name a missing verb.

    Only the lists of promises may name future verbs.
    """
    makefile = (root / "Makefile").read_text()
    verbs = {match["verb"]: match["help"] for match in VERB.finditer(makefile)}
    found = [f"Makefile: {verb} has no help text" for verb, text in verbs.items() if not text]
    if "help" not in verbs:
        found.append("Makefile: no help")
    for path in tree.files(root):
        if path.suffix == ".md" and not path.is_relative_to(ACCEPTANCE):
            found += [
                f"{path}: no verb `make {verb}`"
                for verb in VERB_USE.findall((root / path).read_text())
                if verb not in verbs
            ]
    return found


def stale_generated_code(root: Path) -> list[str]:
    """Find generated protobuf code that differs from what `make proto` generates."""
    sources = [path for path in tree.files(root, Path("protos")) if path.suffix == ".proto"]
    if not sources:
        return ["protos: no source"]
    with tempfile.TemporaryDirectory() as made:
        command = ["make", "proto", f"PY={sys.executable}", f"PROTO_OUT={made}"]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            return [f"make proto: {done.stderr.strip()}"]
        fresh = {p.relative_to(made): p.read_text() for p in Path(made).rglob("*_pb2*.py*")}
    kept = {
        p.relative_to(root / "protos"): p.read_text()
        for p in (root / "protos").rglob("*_pb2*.py*")
        if "__pycache__" not in p.parts
    }
    return [
        f"protos/{path}: not what its source makes; run make proto"
        for path in sorted(fresh.keys() | kept.keys())
        if fresh.get(path) != kept.get(path)
    ]

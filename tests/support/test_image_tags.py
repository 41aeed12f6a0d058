"""The tag of an image changes with its content, and with nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.commands import REPOSITORY, run

MADE_OF = (
    ".dockerignore",
    "LICENSE",
    "README.md",
    "broker_image",
    "cli",
    "hack",
    "operator",
    "protos",
    "pyproject.toml",
    "requirements",
    "spark",
)


IMAGES = ("broker", "operator", "client", "prometheus", "analysis")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy the inputs of the images, without the caches that tools leave there."""
    caches = shutil.ignore_patterns("__pycache__", ".*_cache")
    for name in MADE_OF:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=caches)
        else:
            shutil.copy2(source, tmp_path / name)
    return tmp_path


def tag(tree: Path, name: str) -> str:
    return run([str(tree / "hack" / "images"), "tag", name]).strip()


def append(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize(
    "changed",
    [
        "broker_image/Dockerfile",
        "broker_image/strandline/added.py",
        "hack/build-requirements.txt",
        "protos/strandline_api/added.py",
        "pyproject.toml",
        "requirements/broker.txt",
    ],
)
def test_a_changed_source_changes_the_tag(tree: Path, changed: str) -> None:
    before = tag(tree, "broker")
    assert before.startswith("localhost/strandline-broker:")
    assert tag(tree, "broker") == before
    append(tree / changed, "# changed\n")
    assert tag(tree, "broker") != before


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("broker_image/strandline/model.py", False),
        ("broker_image/strandline/names.py", True),
        ("spark/strandline_analysis/added.py", True),
    ],
)
def test_only_names_of_the_broker_matter_to_the_analysis(
    tree: Path, changed: str, matters: bool
) -> None:
    before = tag(tree, "analysis")
    append(tree / changed, "# changed\n")
    assert (tag(tree, "analysis") != before) == matters


@pytest.mark.parametrize(
    "changed",
    [
        "README.md",
        "operator/Dockerfile",
        "requirements/operator.txt",
        "broker_image/strandline/__pycache__/model.cpython-313.pyc",
        "broker_image/strandline/.mypy_cache/cache.db",
    ],
)
def test_a_file_outside_the_image_does_not_change_the_tag(tree: Path, changed: str) -> None:
    before = tag(tree, "broker")
    append(tree / changed, "# changed\n")
    assert tag(tree, "broker") == before


def test_a_tool_changes_the_clients_image_alone(tree: Path) -> None:
    before = {name: tag(tree, name) for name in ("broker", "client", "operator", "analysis")}
    append(tree / "cli/strandline_cli/added.py", "# changed\n")
    assert [name for name in before if tag(tree, name) != before[name]] == ["client"]


def test_the_operators_code_is_not_in_the_brokers_image(tree: Path) -> None:
    before = {name: tag(tree, name) for name in ("broker", "operator")}
    append(tree / "operator/strandline_operator/added.py", "# changed\n")
    assert [name for name in before if tag(tree, name) != before[name]] == ["operator"]


@pytest.mark.parametrize(
    ("packages", "changed"),
    [
        ("packages=kcat ;;", {"client"}),
        ("packages=python3,python3-pip,python3-venv,ca-certificates,tini", set(IMAGES)),
    ],
    ids=["of the client alone", "of the one below all"],
)
def test_a_changed_recipe_of_a_base_changes_the_tags_of_the_images_on_it(
    tree: Path, packages: str, changed: set[str]
) -> None:
    before = {name: tag(tree, name) for name in IMAGES}
    recipes = tree / "hack" / "cluster" / "base-images"
    text = recipes.read_text()
    assert text.count(packages) == 1
    recipes.write_text(text.replace(packages, packages.replace("=", "=strace,")))
    assert {name for name in before if tag(tree, name) != before[name]} == changed

"""hack/images knows everything that a Dockerfile copies: it alone is in the build's context."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.commands import REPOSITORY

SCRIPT = REPOSITORY / "hack" / "images"
BUILT = ("broker", "operator", "client", "analysis")


def inputs(image: str) -> tuple[Path, list[str]]:
    """Return an image's Dockerfile, and the paths that its build may copy from."""
    text = SCRIPT.read_text()
    describe = text[text.index("describe() {") : text.index("\nversion()")]
    told = subprocess.run(
        [
            "bash",
            "-c",
            f'{describe}\ndescribe {image}; printf "%s\\n" "$dockerfile" "${{sources[@]}}"',
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    dockerfile, *sources = told.stdout.split()
    return REPOSITORY / dockerfile, sources


def lacking(dockerfile: str, sources: list[str]) -> list[str]:
    """Return what is copied from the context and not among the sources."""
    copied = [
        path
        for words in map(str.split, dockerfile.splitlines())
        if words[:1] == ["COPY"] and not words[1].startswith("--from")
        for path in words[1:-1]
        if not path.startswith("--")
    ]
    assert copied
    return [
        path
        for path in copied
        if not any(path == source or path.startswith(f"{source}/") for source in sources)
    ]


@pytest.mark.parametrize("image", BUILT)
def test_a_dockerfile_copies_what_the_script_gives_it(image: str) -> None:
    dockerfile, sources = inputs(image)
    assert lacking(dockerfile.read_text(), sources) == []


def test_a_path_that_the_script_does_not_know_is_found() -> None:
    dockerfile, sources = inputs("analysis")
    assert lacking(f"{dockerfile.read_text()}\nCOPY a/b.py /build/\n", sources) == ["a/b.py"]

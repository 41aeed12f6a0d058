"""Images go into every node of the test cluster, and a node that refuses one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import REPOSITORY, CommandError, run

SCRIPT = """
HERE=$1; . "$HERE/lib.sh"; . "$HERE/nodes.sh"
ctr_in() { echo "$1" >>"$imported"; [ "$1" != worker7 ] || [ "$refuses" = no ]; }
archive=$2 imported=$3 refuses=$4
load_images "$(seq -f worker%g 100)" "$archive"
"""
"""Its imports end at once, so that most have ended before the script waits for them."""


def load(folder: Path, *, refuses: str) -> list[str]:
    """Load an archive into a hundred nodes; return those that were asked to import it."""
    archive, imported = folder / "image.tar", folder / f"imported-{refuses}"
    archive.touch()
    scripts = REPOSITORY / "hack" / "cluster"
    run(["bash", "-c", SCRIPT, "load", *map(str, (scripts, archive, imported)), refuses])
    return sorted(imported.read_text().split())


def test_images_go_into_every_node(tmp_path: Path) -> None:
    assert load(tmp_path, refuses="no") == sorted(f"worker{number}" for number in range(1, 101))


def test_one_node_that_refuses_an_image_fails_the_load(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="importing images failed"):
        load(tmp_path, refuses="yes")

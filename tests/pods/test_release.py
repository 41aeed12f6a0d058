"""A release: its files belong together, and a room without a network can install from them."""

from __future__ import annotations

import json
import re
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.support.commands import REPOSITORY, programs, run

pytestmark = pytest.mark.pods

NAMES = ("broker", "operator")
RELEASE_SECONDS = 900


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release of the images that a cluster needs, and return its folder."""
    out = tmp_path_factory.mktemp("dist")
    environment = {"OUT": str(out), "PYTHON": sys.executable}
    run(
        [str(REPOSITORY / "hack" / "release"), *NAMES],
        env=environment,
        limit_seconds=RELEASE_SECONDS,
    )
    (folder,) = (each for each in out.iterdir() if each.is_dir())
    with tarfile.open(out / f"{folder.name}.tar") as archive:
        packed = {each.name for each in archive if each.isfile()}
    assert packed == {str(each.relative_to(out)) for each in folder.rglob("*") if each.is_file()}
    return folder


def template(chart: Path, *options: str) -> str:
    version = programs().parent.name.removeprefix("kube-")
    helm = [str(programs() / "helm"), "template", "strandline", str(chart)]
    return run([*helm, f"--kube-version={version}", *options])


def test_every_file_has_its_digest(release: Path) -> None:
    run(["bash", "-c", f"cd {release} && sha256sum --check --strict digests.txt"])
    listed = {line.split()[1] for line in (release / "digests.txt").read_text().splitlines()}
    files = {f"./{each.relative_to(release)}" for each in release.rglob("*") if each.is_file()}
    assert listed == files - {"./digests.txt"}


def test_the_packed_charts_run_the_images_that_are_beside_them(release: Path) -> None:
    saved = set()
    for archive in (release / "images").iterdir():
        with tarfile.open(archive) as opened:
            manifest = opened.extractfile("manifest.json")
            assert manifest is not None
            saved |= {tag for image in json.load(manifest) for tag in image["RepoTags"]}
    (chart,) = release.glob("strandline-[0-9]*.tgz")
    rendered = template(chart, f"--values={release / 'images.yaml'}")
    deployments = [
        each for each in yaml.safe_load_all(rendered) if each and each["kind"] == "Deployment"
    ]
    used = {c["image"] for d in deployments for c in d["spec"]["template"]["spec"]["containers"]}
    assert used <= saved
    assert all(reference in rendered for reference in saved)
    (definitions,) = release.glob("strandline-crds-*.tgz")
    assert template(definitions).count("kind: CustomResourceDefinition") == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_bill_of_materials_names_every_pinned_package(release: Path, name: str) -> None:
    bill = json.loads((release / "sbom" / f"{name}.cdx.json").read_text())
    pinned = re.findall(
        r"^([\w.-]+)==(\S+)",
        (REPOSITORY / "requirements" / f"{name}.txt").read_text(),
        re.MULTILINE,
    )
    assert {(each["name"], each["version"]) for each in bill["components"]} >= set(pinned)


def test_the_guide_names_the_architecture_and_those_that_were_not_tried(release: Path) -> None:
    guide = (release / "INSTALL.txt").read_text()
    architecture = run(["uname", "-m"]).strip()
    assert f"for {architecture}; not tried for:" in guide
    assert "helm install strandline-crds" in guide

"""Our images and how they come to the nodes of a cluster.

Under hack/ a script imports them into the nodes; with kind, docker builds them and kind loads
them. A user's cluster pulls them from a repository, or a command loads an archive.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from .clusters import KIND_NAME, Cluster
from .commands import BUILD_SECONDS, RunFailed, Say, run, script

NAMES = ("broker", "operator", "client")
CHART_IMAGES = ("broker", "operator", "analysis")
"""Of the images that we build, those that the chart runs."""
VALUES = "images.yaml"
DOCKERFILES = {
    "broker": "broker_image/Dockerfile",
    "operator": "operator/Dockerfile",
    "client": "hack/client/Dockerfile",
    "analysis": "spark/Dockerfile",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSource:
    """Where a user's cluster gets images: a repository, or a command that loads them."""

    repository: str = ""
    load: str = ""

    def check(self) -> None:
        """Raise RunFailed if there is neither a repository nor a command."""
        if not (self.repository or self.load):
            raise RunFailed(
                "CLUSTER=current needs IMAGES=<repository> with strandline-broker, "
                "strandline-operator, strandline-client and strandline-analysis in it, or "
                "LOAD='command' that brings an image archive into the cluster"
            )

    def movable(self, cluster: Cluster) -> Collection[str]:
        """Return the images whose tag a `make push` moves; other tags never move."""
        return DOCKERFILES if cluster.kind == "current" and self.repository else ()

    def advice(self, cluster: Cluster) -> str:
        """Return the remedy for nodes of this cluster that lack an image."""
        if cluster.kind != "current":
            return ""
        if self.repository:
            return (
                f"make push IMAGES={self.repository} builds ours with docker and pushes them; the "
                "nodes pull them without a secret, and Prometheus from docker.io"
            )
        return f"LOAD='{self.load}' must bring an archive to every node of the cluster"


def load_images(
    root: Path,
    cluster: Cluster,
    names: Sequence[str],
    say: Say,
    *,
    source: ImageSource,
    node: str = "",
) -> dict[str, str]:
    """Build images and load them into every node, or into one; name -> reference.

    A repository has them already; a command that loads archives chooses the nodes itself.
    """
    images = root / "hack" / "images"
    if cluster.kind == "hack":
        where = ("--nodes", node) if node else ()
        printed = script(images, "load", *where, *names, say=say)
        return dict(zip(names, printed[-len(names) :], strict=True))
    if cluster.kind == "kind":
        return {name: _kind_image(root, name, say, node) for name in names}
    if source.repository:
        return {name: _in_repository(root, source.repository, name) for name in names}
    script(images, "save", *names, say=say)
    references = {}
    for name in names:
        archive = run([str(images), "archive", name]).strip()
        say(f"  {source.load} {archive}")
        run([*shlex.split(source.load), archive], limit_seconds=BUILD_SECONDS)
        references[name] = run([str(images), "tag", name]).strip()
    return references


def push_images(root: Path, repository: str, say: Say) -> None:
    """Build our images with docker and push them to the repository of a demo."""
    if not repository:
        raise RunFailed("make push needs IMAGES=<repository>, as in example.org/team")
    for name in DOCKERFILES:
        reference = _in_repository(root, repository, name)
        run(["docker", "tag", _docker_build(root, name, say), reference])
        say(f"  docker push {reference}")
        run(["docker", "push", "--quiet", reference], limit_seconds=BUILD_SECONDS)
    write_values(root, {name: _in_repository(root, repository, name) for name in DOCKERFILES})
    say(f"  {VALUES} names them for helm install --values")


def write_values(folder: Path, references: dict[str, str]) -> None:
    """Write the values of the chart that choose these images; name -> reference."""
    values = {}
    for name in CHART_IMAGES:
        if name in references:
            repository, _, tag = references[name].rpartition(":")
            values[name] = {"image": {"repository": repository, "tag": tag}}
    (folder / VALUES).write_text(yaml.safe_dump(values), encoding="utf-8")


def _kind_image(root: Path, name: str, say: Say, node: str) -> str:
    """Build with docker; the tag names the content, so a changed image has another tag."""
    built = _docker_build(root, name, say)
    reference = f"localhost/strandline-{name}:{_version(root)}-{built.removeprefix('sha256:')[:12]}"
    run(["docker", "tag", built, reference])
    say(f"  kind load {reference}")
    load = ["kind", "load", "docker-image", reference, "--name", KIND_NAME]
    if node:
        load += ["--nodes", node]
    run(load, limit_seconds=BUILD_SECONDS)
    return reference


def _docker_build(root: Path, name: str, say: Say) -> str:
    """Build an image and return its id."""
    say(f"  docker build {name}")
    command = ["docker", "build", "--quiet", "--file", str(root / DOCKERFILES[name]), str(root)]
    return run(command, limit_seconds=BUILD_SECONDS).strip()


def _in_repository(root: Path, repository: str, name: str) -> str:
    return f"{repository.rstrip('/')}/strandline-{name}:{_version(root)}"


def _version(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])

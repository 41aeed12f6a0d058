"""Where the demo runs, and how our images get there.

`kind` if docker and kind work, else the Kubernetes under hack/cluster, or with CLUSTER=current
the cluster of the user's current context, copied once into a kubeconfig of our own. Everything
made here is noted in a state file, so that `demo-down` removes that and no more.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from strandline.errors import StrandlineError

from .kubectl import CommandFailed, Kubernetes, run

NAMESPACE = "strandline-demo"
RELEASE = "strandline"
KIND_NAME = "strandline"
IMAGES = ("broker", "operator", "client")
DOCKERFILES = {
    "broker": "broker_image/Dockerfile",
    "operator": "operator/Dockerfile",
    "client": "hack/client/Dockerfile",
    "analysis": "spark/Dockerfile",
}
WORKERS = 3
BUILD_SECONDS = 3600.0
"""Bound of one script: installing compiles Kubernetes on a machine that never did."""
_OWN_CLOCK = re.compile(r"^\[ *[0-9.]+s\] ")


class DemoFailed(StrandlineError):
    """The demo cannot go on; the message tells a person what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cluster the demo may use; started tells that the demo made it."""

    kind: str
    kubeconfig: str
    programs: str
    started: bool
    made_crds: bool = False

    def kubernetes(self) -> Kubernetes:
        """Return the way to talk to it."""
        programs = Path(self.programs) if self.programs else None
        return Kubernetes(Path(self.kubeconfig), NAMESPACE, programs)


def cache_folder(name: str = "demo") -> Path:
    """Return where the demo, or another by its name, keeps its state and its files."""
    cache = os.environ.get("STRANDLINE_CACHE") or Path.home() / ".cache" / "strandline"
    folder = Path(cache) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def remember(place: Place) -> None:
    """Note what `demo-down` will have to remove."""
    (cache_folder() / "state.json").write_text(json.dumps(asdict(place)), encoding="utf-8")


def remembered() -> Place | None:
    """Return what the last demo noted, None if there is nothing to remove."""
    try:
        noted = json.loads((cache_folder() / "state.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Place(**noted)


def forget() -> None:
    """Note that nothing is left."""
    (cache_folder() / "state.json").unlink(missing_ok=True)


def choose(root: Path, wanted: str, say: Callable[[str], None]) -> Place:
    """Find or start the cluster.

    Raises:  DemoFailed naming everything that is missing
    """
    kind = wanted or ("kind" if _kind_works() else "hack")
    before = remembered()
    if before is not None and before.kind != kind:
        raise DemoFailed(f"an earlier demo is up (CLUSTER={before.kind}): make demo-down first")
    started_before = before is not None and before.started
    match kind:
        case "hack":
            place = hack_cluster(root, say)
        case "kind":
            place = _kind_cluster(root, say)
        case "current":
            place = _current_cluster()
        case _:
            raise DemoFailed(f"CLUSTER={wanted}: must be kind, hack, current, or not set")
    if started_before:
        place = Place(**{**asdict(place), "started": True})
    return place


def load_images(
    root: Path,
    place: Place,
    names: Sequence[str],
    say: Callable[[str], None],
    *,
    node: str = "",
) -> dict[str, str]:
    """Build images and bring them to every node, or under hack/ to one; return name -> reference.

    With IMAGES=<repository> they are there already.
    """
    if place.kind == "hack":
        where = ("--nodes", node) if node else ()
        printed = script(root / "hack" / "images", "load", *where, *names, say=say)
        return dict(zip(names, printed[-len(names) :], strict=True))
    if place.kind == "kind":
        return {name: _kind_image(root, name, say) for name in names}
    if repository := os.environ.get("IMAGES", ""):
        version = _version(root)
        return {name: f"{repository}/strandline-{name}:{version}" for name in names}
    load = os.environ.get("LOAD", "")
    script(root / "hack" / "images", "save", *names, say=say)
    references = {}
    for name in names:
        archive = run([str(root / "hack" / "images"), "archive", name]).strip()
        say(f"  {load} {archive}")
        run([*shlex.split(load), archive], limit_seconds=BUILD_SECONDS)
        references[name] = run([str(root / "hack" / "images"), "tag", name]).strip()
    return references


def remove_cluster(root: Path, place: Place, say: Callable[[str], None]) -> None:
    """Take down a cluster that the demo started."""
    if place.kind == "hack":
        script(root / "hack" / "cluster" / "down", say=say)
    elif place.kind == "kind":
        run(["kind", "delete", "cluster", "--name", KIND_NAME], limit_seconds=BUILD_SECONDS)


def _kind_works() -> bool:
    for command in (("docker", "info"), ("kind", "version"), ("kubectl", "version", "--client")):
        try:
            run(command, limit_seconds=20)
        except CommandFailed:
            return False
    return shutil.which("helm") is not None


def hack_cluster(root: Path, say: Callable[[str], None]) -> Place:
    """Find or start the cluster under hack/; started is false if it was up.

    Raises:  DemoFailed naming everything that is missing
    """
    check = subprocess.run([root / ".ci" / "machine"], capture_output=True, text=True, check=False)
    if check.returncode != 0:
        also = "(Or docker, kind, kubectl and helm, all working.)"
        raise DemoFailed(f"{check.stderr.strip()}\n{also}")
    scripts = root / "hack" / "cluster"
    script(scripts / "install", say=say)
    printed = script(scripts / "up", "--workers", str(WORKERS), say=say)
    sourced = f'. "{scripts}/env.sh"; echo "$KUBECONFIG"; dirname "$(command -v kubectl)"'
    kubeconfig, programs = run(["bash", "-c", sourced]).splitlines()
    started = not any("already up" in line for line in printed)
    return Place(kind="hack", kubeconfig=kubeconfig, programs=programs, started=started)


def _kind_cluster(root: Path, say: Callable[[str], None]) -> Place:
    kubeconfig = cache_folder() / "kind.kubeconfig"
    exists = KIND_NAME in run(["kind", "get", "clusters"]).split()
    if exists:
        run(["kind", "export", "kubeconfig", "--name", KIND_NAME, "--kubeconfig", str(kubeconfig)])
    else:
        say("  kind create cluster")
        config = root / "kind-config.yaml"
        run(
            [
                *("kind", "create", "cluster", "--name", KIND_NAME, "--wait", "180s"),
                *("--config", str(config), "--kubeconfig", str(kubeconfig)),
            ],
            limit_seconds=BUILD_SECONDS,
        )
    return Place(kind="kind", kubeconfig=str(kubeconfig), programs="", started=not exists)


def _current_cluster() -> Place:
    missing = [name for name in ("kubectl", "helm") if shutil.which(name) is None]
    if missing:
        raise DemoFailed(f"CLUSTER=current needs {' and '.join(missing)} in PATH")
    if not (os.environ.get("IMAGES") or os.environ.get("LOAD")):
        raise DemoFailed(
            "CLUSTER=current needs IMAGES=<repository> with strandline-broker, "
            "strandline-operator, strandline-client and strandline-analysis in it, or "
            "LOAD='command' that brings an image archive into the cluster"
        )
    content = run(["kubectl", "config", "view", "--minify", "--flatten", "--raw"])
    kubeconfig = cache_folder() / "current.kubeconfig"
    if remembered() is not None and kubeconfig.exists() and kubeconfig.read_text() != content:
        raise DemoFailed("an earlier demo is up in another cluster: make demo-down first")
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(content, encoding="utf-8")
    return Place(kind="current", kubeconfig=str(kubeconfig), programs="", started=False)


def _kind_image(root: Path, name: str, say: Callable[[str], None]) -> str:
    """Build with docker; the tag is the content's, so a changed image is another one."""
    say(f"  docker build {name}")
    built = run(
        ["docker", "build", "--quiet", "--file", str(root / DOCKERFILES[name]), str(root)],
        limit_seconds=BUILD_SECONDS,
    ).strip()
    reference = f"localhost/strandline-{name}:{_version(root)}-{built.removeprefix('sha256:')[:12]}"
    run(["docker", "tag", built, reference])
    run(
        ["kind", "load", "docker-image", reference, "--name", KIND_NAME],
        limit_seconds=BUILD_SECONDS,
    )
    return reference


def _version(root: Path) -> str:
    for line in (root / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("version = "):
            return line.partition("=")[2].strip().strip('"')
    raise DemoFailed("pyproject.toml names no version")


def script(program: Path, *args: str, say: Callable[[str], None]) -> list[str]:
    """Run one of our scripts, showing its lines as they come, and return them."""
    lines: list[str] = []
    with subprocess.Popen(
        [str(program), *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        if process.stdout is not None:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                # Our scripts count their own seconds; one clock on a screen is enough.
                say(f"  {_OWN_CLOCK.sub('', lines[-1])}")
    if process.returncode != 0:
        raise DemoFailed(f"{program.name} failed with status {process.returncode}")
    return lines

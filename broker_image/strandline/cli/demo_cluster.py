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
from collections.abc import Callable, Collection, Sequence
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
KIND_NEEDS = (
    ("docker", "info"),
    ("kind", "version"),
    ("kubectl", "version", "--client"),
    ("helm", "version"),
)
WORKERS = 3
BUILD_SECONDS = 3600.0
"""Bound of one script: installing compiles Kubernetes on a machine that never did."""
_OWN_CLOCK = re.compile(r"^\[ *[0-9.]+s\] ")


class DemoFailed(StrandlineError):
    """The demo cannot go on; the message tells a person what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoEnvironment:
    """The Kubernetes cluster the demo uses; started tells that the demo made it."""

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


def remember(environment: DemoEnvironment) -> None:
    """Note what `demo-down` will have to remove."""
    _state().write_text(json.dumps(asdict(environment)), encoding="utf-8")


def remembered() -> DemoEnvironment | None:
    """Return what the last demo noted, None if there is nothing to remove."""
    try:
        noted = json.loads(_state().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return DemoEnvironment(**noted)


def forget() -> None:
    """Note that nothing is left, and keep no copy of how to reach a cluster."""
    for path in (_state(), _kubeconfig("kind"), _kubeconfig("current")):
        path.unlink(missing_ok=True)


def _state() -> Path:
    return cache_folder() / "state.json"


def _kubeconfig(kind: str) -> Path:
    """Return where the demo keeps its own copy of how to reach a cluster of this kind."""
    return cache_folder() / f"{kind}.kubeconfig"


def choose(root: Path, wanted: str, say: Callable[[str], None]) -> DemoEnvironment:
    """Find or start the cluster.

    Raises:  DemoFailed naming everything that is missing
    """
    kind = wanted or ("hack" if _kind_lacks() else "kind")
    before = remembered()
    if before is not None and before.kind != kind:
        raise DemoFailed(f"an earlier demo is up (CLUSTER={before.kind}): make demo-down first")
    started_before = before is not None and before.started
    match kind:
        case "hack":
            environment = hack_cluster(root, say)
        case "kind":
            environment = _kind_cluster(root, say)
        case "current":
            environment = _current_cluster()
        case _:
            raise DemoFailed(f"CLUSTER={wanted}: must be kind, hack, current, or not set")
    if started_before:
        environment = DemoEnvironment(**{**asdict(environment), "started": True})
    return environment


def load_images(
    root: Path,
    environment: DemoEnvironment,
    names: Sequence[str],
    say: Callable[[str], None],
    *,
    node: str = "",
) -> dict[str, str]:
    """Build images and bring them to every node, or under hack/ to one; return name -> reference.

    With IMAGES=<repository> they are there already.
    """
    if environment.kind == "hack":
        where = ("--nodes", node) if node else ()
        printed = script(root / "hack" / "images", "load", *where, *names, say=say)
        return dict(zip(names, printed[-len(names) :], strict=True))
    if environment.kind == "kind":
        return {name: _kind_image(root, name, say) for name in names}
    if repository := os.environ.get("IMAGES", ""):
        return {name: _in_repository(root, repository, name) for name in names}
    load = os.environ.get("LOAD", "")
    script(root / "hack" / "images", "save", *names, say=say)
    references = {}
    for name in names:
        archive = run([str(root / "hack" / "images"), "archive", name]).strip()
        say(f"  {load} {archive}")
        run([*shlex.split(load), archive], limit_seconds=BUILD_SECONDS)
        references[name] = run([str(root / "hack" / "images"), "tag", name]).strip()
    return references


def push_images(root: Path, repository: str, say: Callable[[str], None]) -> None:
    """Build our images with docker and push them to where IMAGES=<repository> looks for them."""
    if not repository:
        raise DemoFailed("make push needs IMAGES=<repository>, as in example.org/team")
    for name in DOCKERFILES:
        reference = _in_repository(root, repository, name)
        run(["docker", "tag", _docker_build(root, name, say), reference])
        say(f"  docker push {reference}")
        run(["docker", "push", "--quiet", reference], limit_seconds=BUILD_SECONDS)


def movable(environment: DemoEnvironment) -> Collection[str]:
    """Return the images whose tag a `make push` moves; elsewhere a tag tells the content."""
    return DOCKERFILES if environment.kind == "current" and os.environ.get("IMAGES") else ()


def how_images_come(environment: DemoEnvironment) -> str:
    """Say what a person can do where the nodes of this environment lack an image."""
    if environment.kind != "current":
        return ""
    if repository := os.environ.get("IMAGES", ""):
        return (
            f"make push IMAGES={repository} builds ours with docker and pushes them; the nodes "
            "pull them without a secret, and Prometheus from docker.io"
        )
    return f"LOAD='{os.environ.get('LOAD', '')}' must bring an archive to every node of the cluster"


def remove_cluster(root: Path, environment: DemoEnvironment, say: Callable[[str], None]) -> None:
    """Take down a cluster that the demo started."""
    if environment.kind == "hack":
        script(root / "hack" / "cluster" / "down", say=say)
    elif environment.kind == "kind":
        # With the kubeconfig of our own: kind would else look into the user's.
        where = ("--name", KIND_NAME, "--kubeconfig", environment.kubeconfig)
        run(["kind", "delete", "cluster", *where], limit_seconds=BUILD_SECONDS)


def _kind_lacks() -> list[str]:
    """Return what each program that kind needs says if it does not work here."""
    lacks = []
    for command in KIND_NEEDS:
        try:
            run(command, limit_seconds=20)
        except CommandFailed as error:
            lacks.append(f"  - {error}")
    return lacks


def hack_cluster(root: Path, say: Callable[[str], None]) -> DemoEnvironment:
    """Find or start the cluster under hack/; started is false if it was up.

    Raises:  DemoFailed naming everything that is missing
    """
    check = subprocess.run([root / ".ci" / "machine"], capture_output=True, text=True, check=False)
    if check.returncode != 0:
        also = ["Or docker, kind, kubectl and helm, all working:", *_kind_lacks()]
        raise DemoFailed("\n".join([check.stderr.strip(), *also]))
    scripts = root / "hack" / "cluster"
    script(scripts / "install", say=say)
    printed = script(scripts / "up", "--workers", str(WORKERS), say=say)
    sourced = f'. "{scripts}/env.sh"; echo "$KUBECONFIG"; dirname "$(command -v kubectl)"'
    kubeconfig, programs = run(["bash", "-c", sourced]).splitlines()
    started = not any("already up" in line for line in printed)
    return DemoEnvironment(kind="hack", kubeconfig=kubeconfig, programs=programs, started=started)


def _kind_cluster(root: Path, say: Callable[[str], None]) -> DemoEnvironment:
    if lacks := _kind_lacks():
        raise DemoFailed("\n".join(["CLUSTER=kind needs what does not work here:", *lacks]))
    kubeconfig = _kubeconfig("kind")
    exists = KIND_NAME in run(["kind", "get", "clusters"]).split()
    environment = DemoEnvironment(
        kind="kind", kubeconfig=str(kubeconfig), programs="", started=not exists
    )
    if exists:
        run(["kind", "export", "kubeconfig", "--name", KIND_NAME, "--kubeconfig", str(kubeconfig)])
    else:
        say("  kind create cluster")
        # Before it is made: half a cluster, after an interruption, has to go as well.
        remember(environment)
        config = root / "kind-config.yaml"
        run(
            [
                *("kind", "create", "cluster", "--name", KIND_NAME, "--wait", "180s"),
                *("--config", str(config), "--kubeconfig", str(kubeconfig)),
            ],
            limit_seconds=BUILD_SECONDS,
        )
    return environment


def _current_cluster() -> DemoEnvironment:
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
    kubeconfig = _kubeconfig("current")
    if remembered() is not None and kubeconfig.exists() and kubeconfig.read_text() != content:
        raise DemoFailed("an earlier demo is up in another cluster: make demo-down first")
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(content, encoding="utf-8")
    return DemoEnvironment(kind="current", kubeconfig=str(kubeconfig), programs="", started=False)


def _kind_image(root: Path, name: str, say: Callable[[str], None]) -> str:
    """Build with docker; the tag is the content's, so a changed image is another one."""
    built = _docker_build(root, name, say)
    reference = f"localhost/strandline-{name}:{_version(root)}-{built.removeprefix('sha256:')[:12]}"
    run(["docker", "tag", built, reference])
    say(f"  kind load {reference}")
    run(
        ["kind", "load", "docker-image", reference, "--name", KIND_NAME],
        limit_seconds=BUILD_SECONDS,
    )
    return reference


def _docker_build(root: Path, name: str, say: Callable[[str], None]) -> str:
    """Build an image and return its id."""
    say(f"  docker build {name}")
    command = ["docker", "build", "--quiet", "--file", str(root / DOCKERFILES[name]), str(root)]
    return run(command, limit_seconds=BUILD_SECONDS).strip()


def _in_repository(root: Path, repository: str, name: str) -> str:
    return f"{repository.rstrip('/')}/strandline-{name}:{_version(root)}"


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

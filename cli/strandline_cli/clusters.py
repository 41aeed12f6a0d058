"""The Kubernetes that a demo or a bench runs on: found, started, remembered, taken down.

`kind` if docker and kind work, else the Kubernetes under hack/cluster, or with CLUSTER=current
the cluster of the user's current context, copied once into a kubeconfig of our own. Everything
made here is noted in a state file, so that `demo-down` removes that and no more.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from .commands import BUILD_SECONDS, CommandFailed, RunFailed, Say, run, script
from .kubectl import Kubernetes

KINDS = ("kind", "hack", "current")
KIND_NAME = "strandline"
KIND_NEEDS = (
    ("docker", "info"),
    ("kind", "version"),
    ("kubectl", "version", "--client"),
    ("helm", "version"),
)
WORKERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kubernetes cluster; kind is one of KINDS.

    started tells that we started it; made_crds that our release brought the definitions.
    """

    kind: str
    kubeconfig: str
    programs: str
    started: bool
    made_crds: bool = False

    def kubernetes(self, namespace: str) -> Kubernetes:
        """Return the way to talk to a namespace of it."""
        programs = Path(self.programs) if self.programs else None
        return Kubernetes(Path(self.kubeconfig), namespace, programs)


def cache_folder(name: str = "demo") -> Path:
    """Return where the demo, or another by its name, keeps its state and its files."""
    cache = os.environ.get("STRANDLINE_CACHE") or Path.home() / ".cache" / "strandline"
    folder = Path(cache) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def remember(cluster: Cluster) -> None:
    """Note what `demo-down` will have to remove."""
    _state().write_text(json.dumps(asdict(cluster)), encoding="utf-8")


def remembered() -> Cluster | None:
    """Return what the last demo noted, None if there is nothing to remove."""
    try:
        noted = json.loads(_state().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Cluster(**noted)


def forget() -> None:
    """Note that nothing is left, and keep no copy of how to reach a cluster."""
    for path in (_state(), _kubeconfig("kind"), _kubeconfig("current")):
        path.unlink(missing_ok=True)


def _state() -> Path:
    return cache_folder() / "state.json"


def _kubeconfig(kind: str) -> Path:
    """Return where the demo keeps its own copy of how to reach a cluster of this kind."""
    return cache_folder() / f"{kind}.kubeconfig"


def choose(root: Path, wanted: str, say: Say) -> Cluster:
    """Find or start the cluster; wanted is one of KINDS, or empty for the first that works.

    Raises:  RunFailed naming everything that is missing
    """
    kind = wanted or ("hack" if _kind_lacks() else "kind")
    before = remembered()
    if before is not None and before.kind != kind:
        raise RunFailed(f"an earlier demo is up (CLUSTER={before.kind}): make demo-down first")
    started_before = before is not None and before.started
    match kind:
        case "hack":
            cluster = hack_cluster(root, say)
        case "kind":
            cluster = _kind_cluster(root, say)
        case _:
            cluster = _current_cluster()
    if started_before:
        return replace(cluster, started=True)
    return cluster


def remove_cluster(root: Path, cluster: Cluster, say: Say) -> None:
    """Take down a cluster that the demo started."""
    if cluster.kind == "hack":
        script(root / "hack" / "cluster" / "down", say=say)
    elif cluster.kind == "kind":
        # With the kubeconfig of our own: kind would else look into the user's.
        where = ("--name", KIND_NAME, "--kubeconfig", cluster.kubeconfig)
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


def hack_cluster(root: Path, say: Say) -> Cluster:
    """Find or start the cluster under hack/; started is false if it was up.

    Raises:  RunFailed naming everything that is missing
    """
    check = subprocess.run([root / ".ci" / "machine"], capture_output=True, text=True, check=False)
    if check.returncode != 0:
        also = ["Or docker, kind, kubectl and helm, all working:", *_kind_lacks()]
        raise RunFailed("\n".join([check.stderr.strip(), *also]))
    scripts = root / "hack" / "cluster"
    script(scripts / "install", say=say)
    printed = script(scripts / "up", "--workers", str(WORKERS), say=say)
    sourced = f'. "{scripts}/env.sh"; echo "$KUBECONFIG"; dirname "$(command -v kubectl)"'
    kubeconfig, programs = run(["bash", "-c", sourced]).splitlines()
    started = not any("already up" in line for line in printed)
    return Cluster(kind="hack", kubeconfig=kubeconfig, programs=programs, started=started)


def _kind_cluster(root: Path, say: Say) -> Cluster:
    if lacks := _kind_lacks():
        raise RunFailed("\n".join(["CLUSTER=kind needs what does not work here:", *lacks]))
    kubeconfig = _kubeconfig("kind")
    exists = KIND_NAME in run(["kind", "get", "clusters"]).split()
    cluster = Cluster(kind="kind", kubeconfig=str(kubeconfig), programs="", started=not exists)
    if exists:
        run(["kind", "export", "kubeconfig", "--name", KIND_NAME, "--kubeconfig", str(kubeconfig)])
    else:
        say("  kind create cluster")
        # Before it is made: half a cluster, after an interruption, has to go as well.
        remember(cluster)
        config = root / "kind-config.yaml"
        run(
            [
                *("kind", "create", "cluster", "--name", KIND_NAME, "--wait", "180s"),
                *("--config", str(config), "--kubeconfig", str(kubeconfig)),
            ],
            limit_seconds=BUILD_SECONDS,
        )
    return cluster


def _current_cluster() -> Cluster:
    missing = [name for name in ("kubectl", "helm") if shutil.which(name) is None]
    if missing:
        raise RunFailed(f"CLUSTER=current needs {' and '.join(missing)} in PATH")
    content = run(["kubectl", "config", "view", "--minify", "--flatten", "--raw"])
    kubeconfig = _kubeconfig("current")
    if remembered() is not None and kubeconfig.exists() and kubeconfig.read_text() != content:
        raise RunFailed("an earlier demo is up in another cluster: make demo-down first")
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(content, encoding="utf-8")
    return Cluster(kind="current", kubeconfig=str(kubeconfig), programs="", started=False)

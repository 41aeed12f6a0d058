"""The Kubernetes that a demo or a bench runs on: found, started, remembered, taken down.

The demo takes `kind` if docker and kind work, else the Kubernetes under hack/cluster; with
CLUSTER=current it takes that of the user's current context, copied into a kubeconfig of our own.
A state file lists everything that the demo made, so that `demo-down` removes that and no more.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from .commands import BUILD_SECONDS, CommandFailed, RunFailed, Say, run, script
from .kubectl import Kubernetes

KINDS = ("kind", "hack", "current")
KIND_NAME = "strandline"
KIND_NEEDS = ("docker info", "kind version", "kubectl version --client", "helm version")
WORKERS = 3
STATE = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kubernetes cluster; kind is one of KINDS, programs the folder of kubectl and helm, or "".

    started tells that we started it, made_crds that our release brought the definitions.
    """

    kind: str
    kubeconfig: str
    programs: str
    started: bool
    made_crds: bool = False

    def kubernetes(self, namespace: str) -> Kubernetes:
        """Return kubectl and helm for one namespace of the cluster."""
        programs = Path(self.programs) if self.programs else None
        return Kubernetes(Path(self.kubeconfig), namespace, programs)


def cache_folder(name: str = "demo") -> Path:
    """Return the folder of the demo's state and files, or of another tool's by its name."""
    cache = os.environ.get("STRANDLINE_CACHE") or Path.home() / ".cache" / "strandline"
    folder = Path(cache) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def remember(cluster: Cluster) -> None:
    """Write the cluster to the state file, so that `demo-down` can remove what the demo made."""
    (cache_folder() / STATE).write_text(json.dumps(asdict(cluster)), encoding="utf-8")


def remembered() -> Cluster | None:
    """Return the cluster of the last demo, None if there is nothing to remove."""
    try:
        return Cluster(**json.loads((cache_folder() / STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def forget() -> None:
    """Remove the state file and our copy of the kubeconfig: nothing is left to remove."""
    for name in (STATE, "kind.kubeconfig", "current.kubeconfig"):
        (cache_folder() / name).unlink(missing_ok=True)


def choose(root: Path, wanted: str, say: Say, *, images: Sequence[str] = ()) -> Cluster:
    """Find or start the cluster that is wanted, "" for the first that works; else RunFailed.

    images are those of ours that the caller loads next: the Kubernetes under hack/ is compiled
    while they are made.
    """
    kind = wanted or ("hack" if _kind_lacks() else "kind")
    before = remembered()
    if before is not None and before.kind != kind:
        raise RunFailed(f"an earlier demo is up (CLUSTER={before.kind}): make demo-down first")
    match kind:
        case "hack":
            cluster = hack_cluster(root, say, images)
        case "kind":
            cluster = _kind_cluster(root, say)
        case _:
            cluster = _current_cluster()
    started_before = before is not None and before.started
    return replace(cluster, started=cluster.started or started_before)


def remove_cluster(root: Path, cluster: Cluster, say: Say) -> None:
    """Take down a cluster that the demo started."""
    if cluster.kind == "hack":
        script(root / "hack" / "cluster" / "down", say=say)
    elif cluster.kind == "kind":
        # With our own kubeconfig: otherwise kind would use the user's.
        where = ("--name", KIND_NAME, "--kubeconfig", cluster.kubeconfig)
        run(["kind", "delete", "cluster", *where], limit_seconds=BUILD_SECONDS)


def _kind_lacks() -> list[str]:
    """Return the errors of those programs of KIND_NEEDS that do not work here."""
    lacks = []
    for command in KIND_NEEDS:
        try:
            run(command.split(), limit_seconds=20)
        except CommandFailed as error:
            lacks.append(f"  - {error}")
    return lacks


def hack_cluster(root: Path, say: Say, images: Sequence[str] = ()) -> Cluster:
    """Find or start the cluster under hack/; RunFailed names everything that is missing."""
    check = subprocess.run([root / ".ci" / "machine"], capture_output=True, text=True, check=False)
    if check.returncode != 0:
        also = ["Or docker, kind, kubectl and helm, all working:", *_kind_lacks()]
        raise RunFailed("\n".join([check.stderr.strip(), *also]))
    script(root / "hack" / "prepare", *images, say=say)
    scripts = root / "hack" / "cluster"
    printed = script(scripts / "up", "--workers", str(WORKERS), say=say)
    sourced = f'. "{scripts}/env.sh"; echo "$KUBECONFIG"; dirname "$(command -v kubectl)"'
    kubeconfig, programs = run(["bash", "-c", sourced]).splitlines()
    started = not any("already up" in line for line in printed)
    return Cluster(kind="hack", kubeconfig=kubeconfig, programs=programs, started=started)


def _kind_cluster(root: Path, say: Say) -> Cluster:
    if lacks := _kind_lacks():
        raise RunFailed("\n".join(["CLUSTER=kind needs what does not work here:", *lacks]))
    kubeconfig = cache_folder() / "kind.kubeconfig"
    where = ("--name", KIND_NAME, "--kubeconfig", str(kubeconfig))
    exists = KIND_NAME in run(["kind", "get", "clusters"]).split()
    cluster = Cluster(kind="kind", kubeconfig=str(kubeconfig), programs="", started=not exists)
    if exists:
        run(["kind", "export", "kubeconfig", *where])
        return cluster
    say("  kind create cluster")
    # Before kind makes the cluster: `demo-down` must also remove what an interrupted run made.
    remember(cluster)
    config = ("--config", str(root / "kind-config.yaml"))
    create = ["kind", "create", "cluster", "--wait", "180s", *config, *where]
    run(create, limit_seconds=BUILD_SECONDS)
    return cluster


def _current_cluster() -> Cluster:
    missing = [name for name in ("kubectl", "helm") if shutil.which(name) is None]
    if missing:
        raise RunFailed(f"CLUSTER=current needs {' and '.join(missing)} in PATH")
    content = run(["kubectl", "config", "view", "--minify", "--flatten", "--raw"])
    kubeconfig = cache_folder() / "current.kubeconfig"
    if remembered() is not None and kubeconfig.exists() and kubeconfig.read_text() != content:
        raise RunFailed("an earlier demo is up in another cluster: make demo-down first")
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(content, encoding="utf-8")
    return Cluster(kind="current", kubeconfig=str(kubeconfig), programs="", started=False)

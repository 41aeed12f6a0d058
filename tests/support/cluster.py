"""A real Kubernetes with nodes for tests that need pods, Services, volumes and lost nodes.

Runs the scripts of `hack/cluster` and `hack/images`. Uses a cluster that is already up and
leaves it up, so that a developer's runs are short; otherwise starts one with three workers and
takes it down at the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.support import audited
from tests.support.api_server import ApiServer
from tests.support.commands import (
    CLUSTER_SCRIPTS,
    COMMAND_LIMIT_SECONDS,
    IMAGES_SCRIPT,
    REPOSITORY,
    CommandError,
    programs,
    run,
)

WORKERS = 3
"""One node for each of three brokers, besides the control plane's node."""
WORKERS_FOR_FIVE = 4
"""One node for each of five brokers, the control plane's among them."""

UP_LIMIT_SECONDS = 300
"""Bound of a start, which takes 15 to 55 s with four nodes."""

IMAGES_LIMIT_SECONDS = 1800
"""Bound of building and loading images, base images included, with nothing cached."""

RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""A container's securityContext that the restricted pod security standard accepts."""


class Cluster(ApiServer):
    """The cluster whose state folder is STRANDLINE_RUN, or the default one."""

    def __init__(self) -> None:
        super().__init__(Path(os.environ.get("STRANDLINE_RUN") or "/var/lib/strandline-cluster"))
        self.started_here = False
        self.used_since = datetime.now(tz=UTC).isoformat()

    @classmethod
    def running_or_started(cls, workers: int = WORKERS) -> Cluster:
        """Return the cluster that is up, or start one with so many nodes beside the first."""
        cluster = cls()
        if not cluster.is_up():
            _script("up", "--workers", str(workers), limit_seconds=UP_LIMIT_SECONDS)
            cluster.started_here = True
        return cluster

    def is_up(self) -> bool:
        """Tell whether a start has completed and the API server is ready."""
        if not (self.folder / "ready").exists():
            return False
        try:
            return self.kubectl("get", "--raw", "/readyz") == "ok"
        except CommandError:
            return False

    def release(self) -> None:
        """Keep what the audit log shows, and end the cluster if `running_or_started` started it."""
        audited.collect(self.folder / "log", since=self.used_since)
        self.reader.close()
        if self.started_here:
            _script("down", limit_seconds=UP_LIMIT_SECONDS)

    def load_images(
        self, *names: str, nodes: Sequence[str] = (), root: Path = REPOSITORY
    ) -> dict[str, str]:
        """Build changed images, import them into all or these nodes; return name -> reference.

        root is the tree that they are built of, this one or that of another revision.
        """
        chosen = ["--nodes", ",".join(nodes)] if nodes else []
        command = [str(root / IMAGES_SCRIPT.relative_to(REPOSITORY)), "load", *chosen, *names]
        printed = run(command, limit_seconds=IMAGES_LIMIT_SECONDS)
        references = printed.splitlines()[-len(names) :]
        return dict(zip(names, references, strict=True))

    def helm(self, *args: str, limit_seconds: int = COMMAND_LIMIT_SECONDS) -> str:
        """Run helm as cluster administrator and return what it printed.

        Raises: CommandError with helm's message
        """
        command = [str(programs() / "helm"), f"--kubeconfig={self.kubeconfig}", *args]
        return run(command, limit_seconds=limit_seconds)

    def create_restricted_namespace(self, name: str) -> None:
        """Create a namespace that takes only pods of the restricted pod security standard."""
        self.kubectl("create", "namespace", name)
        self.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")

    def exec(self, namespace: str, pod: str, *command: str, container: str | None = None) -> str:
        """Run a command in a pod's container, by default its first, and return its output."""
        chosen = ["-c", container] if container else []
        return self.kubectl("exec", "-n", namespace, pod, *chosen, "--", *command)

    def node(self, verb: str, *args: str) -> str:
        """Run a verb of hack/cluster/node: cut, heal, partition, kill, start, freeze and more."""
        return _script("node", verb, *args, limit_seconds=COMMAND_LIMIT_SECONDS)

    @contextmanager
    def forwarded(self, ports: Sequence[int], node: str) -> Iterator[None]:
        """Let ports of this machine's 127.0.0.1 lead to those of a node, as kind maps them."""
        address = self.get("node", node)["status"]["addresses"][0]["address"]
        try:
            for port in ports:
                _forward("out", str(port), f"{address}:{port}")
            yield
        finally:
            for port in ports:
                _forward("stop", str(port))

    @contextmanager
    def load_balancer(self) -> Iterator[None]:
        """Let Services of type LoadBalancer have addresses of this machine, as a platform would."""
        _script("load-balancer", "start", limit_seconds=COMMAND_LIMIT_SECONDS)
        try:
            yield
        finally:
            _script("load-balancer", "stop", limit_seconds=COMMAND_LIMIT_SECONDS)

    @contextmanager
    def policies(self) -> Iterator[None]:
        """Let the pods that run now receive only what the NetworkPolicies of now allow."""
        _script("policies", "enforce", limit_seconds=COMMAND_LIMIT_SECONDS)
        try:
            yield
        finally:
            _script("policies", "lift", limit_seconds=COMMAND_LIMIT_SECONDS)

    def nodes(self) -> list[str]:
        """Return the names of all nodes, the control plane's first."""
        return [line.split()[0] for line in self.node("list").splitlines()]

    def images_of(self, node: str) -> list[str]:
        """Return the references of the images that a node has."""
        return self._containerd(node, "images", "ls", "-q").splitlines()

    def tag_image(self, node: str, reference: str, newer: str) -> None:
        """Give an image of a node one more reference."""
        self._containerd(node, "images", "tag", "--force", reference, newer)

    def _containerd(self, node: str, *args: str) -> str:
        socket = self.folder / "nodes" / node / "containerd.sock"
        command = ["ctr", f"--address={socket}", "--namespace=k8s.io", *args]
        return run(command, limit_seconds=COMMAND_LIMIT_SECONDS)


def _forward(*args: str) -> None:
    _script("forward", *args, limit_seconds=COMMAND_LIMIT_SECONDS)


def _script(name: str, *args: str, limit_seconds: int) -> str:
    return run([str(CLUSTER_SCRIPTS / name), *args], limit_seconds=limit_seconds)

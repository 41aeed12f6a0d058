"""One bundle for a bug report: objects, logs, metrics and versions of a namespace, in a tar.gz.

No Secret is asked for, and no record: logs of brokers hold none, and no log of a partition is
read. A part that cannot be had becomes a line of the bundle's index, and the rest is collected.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from strandline.kube.objects import CLUSTER_LABEL

from .cluster_view import HTTP_PORT
from .commands import CommandFailed
from .kubectl import ApiProxy, Kubernetes, Object

INDEX = "index.txt"
OBJECT_KINDS = (
    "brokerclusters.strandline.dev",
    "replicatedtopics.strandline.dev",
    "partitions.strandline.dev",
    "brokers.strandline.dev",
    "configmaps",
    "pods",
    "statefulsets",
    "deployments",
    "services",
    "persistentvolumeclaims",
    "poddisruptionbudgets",
    "leases",
    "events",
)
"""What is asked for in the namespace; never Secrets."""
LOG_LINES_MAX = 10_000
"""The last lines of each container's log."""
LOG_BYTES_MAX = 8 << 20
"""Of these lines, so many bytes."""
OF_OTHERS_TOO = frozenset(
    {"configmaps", "pods", "statefulsets", "deployments", "services", "persistentvolumeclaims"}
)
"""Kinds that strangers have in the same namespace: only ours are taken."""
PART_BYTES_MAX = 32 << 20
"""A part that is larger is cut, and the index says so."""
BUNDLE_BYTES_MAX = 512 << 20
"""All parts together, uncompressed; later ones are left out."""
PODS_MAX = 200
METRICS_LIMIT_SECONDS = 5.0
HIDDEN = "(left out)"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""It repeats the object, with values of variables that are left out of the object."""


@dataclass(slots=True, kw_only=True)
class Bundle:
    """A bundle that is being written; lines is its index, total the bytes of its parts."""

    archive: tarfile.TarFile
    folder: str
    lines: list[str] = field(default_factory=list)
    total: int = 0

    def add(self, name: str, get: Callable[[], str]) -> None:
        """Add a part, or say in the index why it is not there."""
        if self.total >= BUNDLE_BYTES_MAX:
            self.lines.append(f"{name}: left out, the bundle has {self.total} bytes")
            return
        try:
            content = get().encode()
        except (OSError, CommandFailed, ValueError, KeyError) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            self.lines.append(f"{name}: not to be had: {why}")
            return
        cut = f", cut from {len(content)} bytes" if len(content) > PART_BYTES_MAX else ""
        # The end of a log is what matters; of objects, whole ones come first either way.
        self.put(name, content[-PART_BYTES_MAX:] if cut else content)
        self.lines.append(f"{name}: {min(len(content), PART_BYTES_MAX)} bytes{cut}")

    def put(self, name: str, content: bytes) -> None:
        """Write a file into the archive."""
        entry = tarfile.TarInfo(f"{self.folder}/{name}")
        entry.size, entry.mtime = len(content), int(datetime.now(UTC).timestamp())
        self.archive.addfile(entry, io.BytesIO(content))
        self.total += len(content)


def write_report(kubernetes: Kubernetes, path: Path, *, operator_namespace: str = "") -> list[str]:
    """Write the bundle and return the lines of its index.

    Raises:  OSError if the file cannot be written; FileExistsError if it is there already
    """
    folder = path.name.removesuffix(".gz").removesuffix(".tar")
    # Only this user may read it, until they hand it on.
    path.touch(mode=0o600, exist_ok=False)
    with tarfile.open(path, "w:gz") as archive:
        bundle = Bundle(archive=archive, folder=folder)
        bundle.add("versions.txt", lambda: _versions(kubernetes))
        _add_namespace(bundle, kubernetes, "")
        if operator_namespace not in {"", kubernetes.namespace}:
            _add_namespace(bundle, kubernetes.in_namespace(operator_namespace), "operator/")
        index = [
            f"strandline report of namespace {kubernetes.namespace}, {datetime.now(UTC):%FT%TZ}",
            *bundle.lines,
        ]
        bundle.put(INDEX, ("\n".join(index) + "\n").encode())
    return index


def _add_namespace(bundle: Bundle, kubernetes: Kubernetes, prefix: str) -> None:
    for kind in OBJECT_KINDS:
        bundle.add(f"{prefix}objects/{kind}.json", partial(_objects, kubernetes, kind))
    try:
        pods = [each for each in kubernetes.get("pods")["items"] if _is_ours(each)]
    except CommandFailed as error:
        bundle.lines.append(f"{prefix}logs: not to be had: {error}")
        pods = []
    for pod in pods[:PODS_MAX]:
        _add_logs(bundle, kubernetes, prefix, pod)
    if len(pods) > PODS_MAX:
        bundle.lines.append(f"{prefix}logs: {len(pods) - PODS_MAX} more pods are left out")
    _add_metrics(bundle, kubernetes, prefix)


def _add_logs(bundle: Bundle, kubernetes: Kubernetes, prefix: str, pod: Object) -> None:
    name = pod["metadata"]["name"]
    restarted = {
        each["name"]
        for each in pod.get("status", {}).get("containerStatuses", ())
        if each["restartCount"] > 0
    }
    for container in (each["name"] for each in pod["spec"]["containers"]):
        bounds = [f"--tail={LOG_LINES_MAX}", f"--limit-bytes={LOG_BYTES_MAX}"]
        words = ["logs", name, "-c", container, "--timestamps", *bounds]
        for suffix, options in (("", []), (".previous", ["--previous"])):
            if suffix and container not in restarted:
                continue
            part = f"{prefix}logs/{name}.{container}{suffix}.log"
            bundle.add(part, partial(kubernetes.kubectl, *words, *options))


def _add_metrics(bundle: Bundle, kubernetes: Kubernetes, prefix: str) -> None:
    """Add the pages of metrics of all brokers."""
    try:
        brokers = [each["metadata"]["name"] for each in kubernetes.get("brokers")["items"]]
        proxy = ApiProxy(kubernetes)
    except CommandFailed as error:
        bundle.lines.append(f"{prefix}metrics: not to be had: {error}")
        return
    with closing(proxy):
        for broker in brokers[:PODS_MAX]:
            path = f"/api/v1/namespaces/{kubernetes.namespace}/pods/{broker}:{HTTP_PORT}"
            bundle.add(
                f"{prefix}metrics/{broker}.txt",
                partial(proxy.get, f"{path}/proxy/metrics", limit_seconds=METRICS_LIMIT_SECONDS),
            )


def _is_ours(found: Object) -> bool:
    labels = found["metadata"].get("labels", {})
    return CLUSTER_LABEL in labels or labels.get("app.kubernetes.io/name") == "strandline"


def _objects(kubernetes: Kubernetes, kind: str) -> str:
    found = kubernetes.get(kind)["items"]
    ours = [each for each in found if kind not in OF_OTHERS_TOO or _is_ours(each)]
    return json.dumps([cleaned(each) for each in ours], indent=1, sort_keys=True)


def cleaned(found: Object) -> Object:
    """Return an object without values of variables, which people put passwords into."""
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    if LAST_APPLIED in metadata.get("annotations", {}):
        metadata["annotations"] = {**metadata["annotations"], LAST_APPLIED: HIDDEN}
    return {key: _without_values(value) for key, value in {**found, "metadata": metadata}.items()}


def _without_values(value: object) -> object:
    if isinstance(value, list):
        return [_without_values(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: [_hide_value(each) for each in inner]
        if key == "env" and isinstance(inner, list)
        else _without_values(inner)
        for key, inner in value.items()
    }


def _hide_value(variable: object) -> object:
    if not isinstance(variable, dict) or "value" not in variable:
        return variable
    return {**variable, "value": HIDDEN}


def _versions(kubernetes: Kubernetes) -> str:
    try:
        ours = version("strandline")
    except PackageNotFoundError:
        ours = "not installed, run from the tree"
    return f"strandline {ours}\n{kubernetes.kubectl('version', '-o', 'yaml')}"

"""What the demo looks at before it touches a user's own cluster, and whose namespace it may use.

Every look is a read, or asks the API server what the user may do: a refusal here
has changed nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

from .commands import CommandFailed, RunFailed, Say, run
from .kubectl import Kubernetes, Object

NEEDED = (
    ("create", "namespaces", ""),
    ("create", "customresourcedefinitions.apiextensions.k8s.io", ""),
    ("create", "clusterroles.rbac.authorization.k8s.io", ""),
    ("create", "validatingadmissionpolicies.admissionregistration.k8s.io", ""),
    ("create", "deployments.apps", "in its namespace"),
    ("create", "roles.rbac.authorization.k8s.io", "in its namespace"),
    ("create", "pods/exec", "in its namespace"),
    ("get", "pods/proxy", "in its namespace"),
)
"""Verb and resource that the demo cannot do without, and where, if not in the whole cluster."""
OURS = "strandline.dev/demo"
"""Label of the namespace that the demo made; another one is neither used nor removed."""
LEVEL = {"pod-security.kubernetes.io/enforce": "restricted"}
"""Label that sets the pod security level of the demo's namespace. It is the strictest one, so all
that the demo starts gets along with whatever a cluster has for others."""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NOT_READY = "node.kubernetes.io/not-ready"
BROKERS = 3
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What `uname -m` says, and what a node says of the same processor."""
YES = {"y", "yes"}

Ask = Callable[[str], str]
"""Shows a sentence and returns the answer."""


def check(kubernetes: Kubernetes, say: Say, *, builds_here: bool) -> None:
    """Show context and server, and look for what the demo needs.

    builds_here tells that the images are of this machine's architecture.

    Raises:  RunFailed with a line for each thing that is missing
    """
    config = json.loads(kubernetes.kubectl("config", "view", "--minify", "-o", "json"))
    server = config["clusters"][0]["cluster"]["server"]
    say(f"  context {config['current-context']}, server {server}, namespace {kubernetes.namespace}")
    lacks = [
        *_refused(kubernetes),
        *_storage(kubernetes),
        *_nodes(kubernetes, say, builds_here=builds_here),
    ]
    if lacks:
        listed = "\n".join(f"  - {each}" for each in lacks)
        raise RunFailed(f"this cluster cannot run the demo; nothing was changed:\n{listed}")


def agree(kubernetes: Kubernetes, *, agreed: bool, ask: Ask | None = None) -> None:
    """Ask a person whether the demo may use this cluster; agreed says that it was said before.

    Raises:  RunFailed if the answer is no, or if there is nobody to ask
    """
    if agreed:
        return
    if ask is None:
        if not sys.stdin.isatty():
            raise RunFailed("nobody is here to agree: YES=1 lets the demo use this cluster")
        ask = input
    text = (
        f"Make the namespace {kubernetes.namespace} and the definitions of strandline.dev here, "
        "and remove them with `make demo-down`? [y/N] "
    )
    if ask(text).strip().lower() not in YES:
        raise RunFailed("nothing was changed")


def check_namespace(kubernetes: Kubernetes) -> None:
    """Raise RunFailed if somebody else made a namespace of the demo's name."""
    name = kubernetes.namespace
    found = kubernetes.kubectl("get", "namespace", name, "--ignore-not-found", "-o", "json")
    if found and OURS not in json.loads(found)["metadata"].get("labels", {}):
        raise RunFailed(
            f"the namespace {name} was not made by a demo (it lacks the label {OURS}), so nothing "
            f"in it is touched; if it may go: kubectl delete namespace {name}"
        )


def make_namespace(kubernetes: Kubernetes) -> None:
    """Make the namespace with a known level, and the label that lets a later demo remove it."""
    name = kubernetes.namespace
    labelled: Object = {"name": name, "labels": {OURS: "true", **LEVEL}}
    kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": labelled})


def _refused(kubernetes: Kubernetes) -> list[str]:
    """Return a sentence for each thing that this user may not do."""
    sentences = []
    for verb, resource, where in NEEDED:
        kind, _, subresource = resource.partition("/")
        asked = ["auth", "can-i", verb, kind, "--quiet"]
        if subresource:
            asked.append(f"--subresource={subresource}")
        if not where:
            asked.append("--all-namespaces")
        try:
            kubernetes.kubectl(*asked)
        except CommandFailed:
            place = where or "in the cluster"
            sentences.append(f"you may not {verb} {resource} {place}: ask its administrator")
    return sentences


def _storage(kubernetes: Kubernetes) -> list[str]:
    classes = kubernetes.get("storageclasses")["items"]
    for each in classes:
        if each["metadata"].get("annotations", {}).get(DEFAULT_CLASS) == "true":
            return []
    names = ", ".join(each["metadata"]["name"] for each in classes) or "none"
    return [f"no StorageClass is the default (there are: {names}): brokers would get no volume"]


def _nodes(kubernetes: Kubernetes, say: Say, *, builds_here: bool) -> list[str]:
    ready = [each for each in kubernetes.get("nodes")["items"] if _takes_pods(each)]
    if not ready:
        return ["no node is ready and takes pods"]
    if len(ready) < BROKERS:
        say(f"  {len(ready)} of {BROKERS} nodes: brokers share nodes, a lost node may lose records")
    if not builds_here:
        return []
    ours = run(["uname", "-m"]).strip()
    ours = ARCHITECTURES.get(ours, ours)
    others = sorted({_architecture(each) for each in ready} - {ours})
    if not others:
        return []
    return [f"nodes of the architecture {', '.join(others)}, and the images made here are {ours}"]


def _takes_pods(node: Object) -> bool:
    conditions: Sequence[Object] = node["status"].get("conditions", [])
    taints: Sequence[Object] = node["spec"].get("taints", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    # The taint of a node that is not ready goes a moment after its condition.
    closed = any(
        each["effect"] != "PreferNoSchedule" and each["key"] != NOT_READY for each in taints
    )
    return ready and not closed and not node["spec"].get("unschedulable", False)


def _architecture(node: Object) -> str:
    return str(node["status"]["nodeInfo"]["architecture"])

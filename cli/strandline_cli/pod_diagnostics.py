"""Why pods do not start, in the words of the scheduler and of the nodes.

A pod whose image no registry has looks like a slow one until a time limit ends the wait. Asked
early, with one pod for each image, the cluster tells in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from strandline.errors import StrandlineError

from .commands import CommandFailed, Say
from .kubectl import Kubernetes, Object
from .load_pod import IMAGE_USER, RESTRICTED

LABEL = "strandline.dev/image"
ACCOUNT = "image-check"
LIMIT_SECONDS = 1200.0
"""Bound of bringing all images to a node; the analysis alone is a gigabyte."""
GIVE_UP_SECONDS = 25.0
"""A node asks again 10 s after it was refused, so one answer that got lost is not the end."""
POLL_SECONDS = 1.0
STARTING = ("ContainerCreating", "PodInitializing")


class ImagesMissing(StrandlineError):
    """The cluster cannot run an image; the message has a line for each."""


def check_images(
    kubernetes: Kubernetes,
    images: Mapping[str, str],
    say: Say,
    *,
    movable: Collection[str] = (),
) -> dict[str, str]:
    """Run each image once on some node; return name -> reference when all ran.

    A node that has an image keeps it when its tag moves. So those of movable are pulled anew, and
    their references name the content found: every node then runs that and nothing older.

    Raises:  ImagesMissing for those that a node asked for more than once, and does not run
    """
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(ACCOUNT)}
    pods = [_pod(name, image, moves=name in movable) for name, image in images.items()]
    kubernetes.apply(account, *pods)
    try:
        ended = _until_all_ran(kubernetes, images, say)
    finally:
        kubernetes.kubectl("delete", "pods,serviceaccounts", "-l", LABEL)
    fixed = {name: fixed_reference(images[name], ended[name]) for name in movable if name in images}
    return {**images, **fixed}


def fixed_reference(reference: str, pod: Object) -> str:
    """Return a reference by the digest under which a pod's node pulled it, as given without one."""
    _, _, digest = pod["status"]["containerStatuses"][0]["imageID"].rpartition("@")
    repository = reference.rpartition(":")[0]
    return f"{repository}@{digest}" if digest.startswith("sha256:") else reference


def explain(kubernetes: Kubernetes) -> list[str]:
    """Return a line for each pod of the namespace that something keeps from running."""
    try:
        pods = kubernetes.get("pods")["items"]
    except CommandFailed:
        return []
    found = ((pod["metadata"]["name"], diagnose(pod)) for pod in pods)
    return [f"  pod {name}: {reason}" for name, reason in found if reason]


def diagnose(pod: Object) -> str:
    """Return what keeps a pod from running, empty if nothing does or it is not known yet."""
    return _unscheduled(pod) or _not_run(pod)


def _unscheduled(pod: Object) -> str:
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return _sentence(condition)
    return ""


def _not_run(pod: Object) -> str:
    for container in pod["status"].get("containerStatuses", []):
        waiting = container["state"].get("waiting")
        if waiting and waiting.get("reason", STARTING[0]) not in STARTING:
            return _sentence(waiting)
        ended = container["state"].get("terminated")
        if ended and ended["exitCode"] != 0:
            return _sentence({"message": f"exit code {ended['exitCode']}", **ended})
    return ""


def _sentence(state: Object) -> str:
    return ": ".join(state[key] for key in ("reason", "message") if state.get(key))


def _until_all_ran(
    kubernetes: Kubernetes, images: Mapping[str, str], say: Say
) -> dict[str, Object]:
    deadline = time.monotonic() + LIMIT_SECONDS
    since: dict[str, float] = {}
    causes: dict[str, str] = {}
    while time.monotonic() < deadline:
        items = kubernetes.get("pods", "-l", LABEL)["items"]
        pods = {pod["metadata"]["labels"][LABEL]: pod for pod in items}
        if all(pods[name]["status"]["phase"] == "Succeeded" for name in images):
            return pods
        refused = {name: why for name in images if (why := _not_run(pods[name]))}
        # The first answer tells the cause; later ones tell that the node waits.
        for name in refused.keys() - causes.keys():
            causes[name] = f"  {images[name]}: {refused[name]}"
            say(f"  {images[name]}: {refused[name].partition(':')[0]}, asked again")
        since = {name: since.get(name, time.monotonic()) for name in refused}
        if since and time.monotonic() - min(since.values()) > GIVE_UP_SECONDS:
            raise ImagesMissing(_sentences(causes[name] for name in sorted(since)))
        time.sleep(POLL_SECONDS)
    # No node may have had room for them; one may still be pulling.
    late = (f"  {images[name]}: {diagnose(pods[name]) or 'not yet pulled'}" for name in images)
    raise ImagesMissing(_sentences(late))


def _sentences(lines: Iterable[str]) -> str:
    return "\n".join(["the cluster does not run:", *lines])


def _metadata(name: str) -> Object:
    return {"name": name, "labels": {LABEL: name}}


def _pod(name: str, image: str, *, moves: bool) -> Object:
    """Return a pod that passes the restricted standard and ends at once."""
    container = {
        "name": "ask",
        "image": image,
        "imagePullPolicy": "Always" if moves else "IfNotPresent",
        "command": ["true"],
        "securityContext": {**RESTRICTED, "runAsUser": IMAGE_USER},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"image-{name}", "labels": {LABEL: name}},
        "spec": {
            "serviceAccountName": ACCOUNT,
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }

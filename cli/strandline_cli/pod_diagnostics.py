"""Why pods do not start, in the words of the scheduler and of the nodes.

A pod with a missing image looks like a slow pod until a time limit ends the wait. One pod for each
image, started early, shows the missing image in seconds.
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
"""Bound of loading all images into a node; the analysis alone is 625 MiB."""
GIVE_UP_SECONDS = 25.0
"""A node asks again 10 s after a refusal, so one lost response does not end the check."""
POLL_SECONDS = 1.0
STARTING = ("ContainerCreating", "PodInitializing")


class ImagesMissing(StrandlineError):
    """The cluster cannot run an image; the message has a line for each."""


def check_images(
    kubernetes: Kubernetes, images: Mapping[str, str], say: Say, *, movable: Collection[str] = ()
) -> dict[str, str]:
    """Run each image once on some node; return name -> reference when all ran.

    A node that has an image keeps it when its tag moves. So the images in movable are pulled anew,
    and their references name the content found: every node then runs that content.

    Raises:  ImagesMissing for the images that no node runs, although a node asked more than once
    """
    metadata = {"name": ACCOUNT, "labels": {LABEL: ACCOUNT}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    pods = [_pod(name, image, moves=name in movable) for name, image in images.items()]
    kubernetes.apply(account, *pods)
    try:
        ended = _until_all_ran(kubernetes, images, say)
    finally:
        kubernetes.kubectl("delete", "pods,serviceaccounts", "-l", LABEL)
    fixed = {name: fixed_reference(images[name], ended[name]) for name in movable if name in images}
    return {**images, **fixed}


def fixed_reference(reference: str, pod: Object) -> str:
    """Return a reference with the digest that the pod's node pulled, unchanged without one."""
    _, _, digest = pod["status"]["containerStatuses"][0]["imageID"].rpartition("@")
    repository = reference.rpartition(":")[0]
    return f"{repository}@{digest}" if digest.startswith("sha256:") else reference


def explain(kubernetes: Kubernetes) -> list[str]:
    """Return a line for each pod of the namespace that cannot run."""
    try:
        pods = kubernetes.get("pods")["items"]
    except CommandFailed:
        return []
    found = ((pod["metadata"]["name"], diagnose(pod)) for pod in pods)
    return [f"  pod {name}: {reason}" for name, reason in found if reason]


def diagnose(pod: Object) -> str:
    """Return why a pod does not run, empty if it runs or the cause is not known yet."""
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return _sentence(condition)
    return _not_run(pod)


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
        # The first response names the cause; later ones say that the node waits.
        for name in refused.keys() - causes.keys():
            causes[name] = f"  {images[name]}: {refused[name]}"
            say(f"  {images[name]}: {refused[name].partition(':')[0]}, asked again")
        since = {name: since.get(name, time.monotonic()) for name in refused}
        if since and time.monotonic() - min(since.values()) > GIVE_UP_SECONDS:
            raise _missing(causes[name] for name in sorted(since))
        time.sleep(POLL_SECONDS)
    # Perhaps no node had room for them, or a node is still pulling.
    late = (f"  {images[name]}: {diagnose(pods[name]) or 'not yet pulled'}" for name in images)
    raise _missing(late)


def _missing(lines: Iterable[str]) -> ImagesMissing:
    return ImagesMissing("\n".join(["the cluster does not run:", *lines]))


def _pod(name: str, image: str, *, moves: bool) -> Object:
    """Return a pod that passes the restricted standard and ends at once."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"image-{name}", "labels": {LABEL: name}},
        "spec": {
            "serviceAccountName": ACCOUNT,
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "ask",
                    "image": image,
                    "imagePullPolicy": "Always" if moves else "IfNotPresent",
                    "command": ["true"],
                    "securityContext": {**RESTRICTED, "runAsUser": IMAGE_USER},
                }
            ],
        },
    }

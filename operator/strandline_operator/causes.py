"""Why brokers are not ready: their pods, volume claims, and Events about these, in sentences.

`reconcile` asks before it plans for a cluster that lacks brokers, and again from time to time: no
watch tells of Events. What Kubernetes says is quoted, never judged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from strandline.errors import CoordinationError
from strandline.kube.api import ApiClient, Object
from strandline.log_fields import fields

from . import kinds, resources
from .observed import DesiredCluster, FoundPod, ObservedCluster
from .pods import told

_log = logging.getLogger(__name__)

ASKED_MAX: Final = 3
"""Pods and claims whose Events are read in one pass; the others mostly have the same cause."""
WAITS_FOR_POD: Final = ("WaitForFirstConsumer", "WaitForPodScheduled")
"""Reasons of Events about a claim that gets its volume where its pod gets a node."""


class CauseReader:
    """Reads volume claims and Events of one namespace."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def read(self, cluster: DesiredCluster, observed: ObservedCluster) -> tuple[str, ...]:
        """Return a sentence for each broker that is not ready and about which something is known.

        A read that fails leaves out what it would have told: it must not stop the pass.
        """
        missing = [name for name in _pod_names(cluster) if name not in _names(observed.pods)]
        sentences = []
        if missing:
            about = await self._event("StatefulSet", cluster.ref.name, type="Warning")
            sentences += [f"there is no pod {missing[0]}" + (f": {about}" if about else "")]
        waiting = [pod for pod in observed.pods if not pod.is_ready]
        claims = await self._claims(cluster) if waiting else {}
        for pod in waiting[:ASKED_MAX]:
            sentence = await self._of_pod(pod, claims)
            sentences += [sentence] if sentence else []
        return tuple(sentences)

    async def _of_pod(self, pod: FoundPod, claims: Mapping[str, Object]) -> str:
        """Return why a pod is not ready, "" if nothing is known: it only starts."""
        for name in pod.claims:
            claim = claims.get(name)
            phase = "missing" if claim is None else str((claim.get("status") or {}).get("phase"))
            if phase == "Bound":
                continue
            # Kubernetes tells of a claim that nobody can fill in Events that are no warnings.
            event = await self._event("PersistentVolumeClaim", name)
            if pod.cause and event.startswith(WAITS_FOR_POD):
                break
            cause = event or pod.cause
            return f"pod {pod.name} waits for claim {name}, which is {phase}" + (
                f": {cause}" if cause else ""
            )
        cause = pod.cause or await self._event("Pod", pod.name, type="Warning")
        return f"pod {pod.name}: {cause}" if cause else ""

    async def _claims(self, cluster: DesiredCluster) -> dict[str, Object]:
        labels = resources.pod_selector(cluster)
        selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        found = await self._list(kinds.CLAIM, {"labelSelector": selector})
        return {kinds.name_of(each): each for each in found}

    async def _event(self, kind: str, name: str, **also: str) -> str:
        """Return the latest Event about an object, "" if there is none; also are more fields."""
        chosen = {"involvedObject.kind": kind, "involvedObject.name": name, **also}
        selector = ",".join(f"{key}={value}" for key, value in chosen.items())
        found = await self._list(kinds.EVENT, {"fieldSelector": selector})
        return latest(found)

    async def _list(self, kind: kinds.Kind, selector: Mapping[str, str]) -> tuple[Object, ...]:
        try:
            listed = await self._api.list(kind.resource, self._namespace, selector=selector)
        except CoordinationError as error:
            _log.warning(
                "cause not read", extra=fields(kind=kind.resource.plural, cause=str(error))
            )
            return ()
        return listed.items


def latest(events: Iterable[Object]) -> str:
    """Return reason and message of the latest of these Events, "" without any."""

    def when(event: Object) -> tuple[str, str]:
        metadata: dict[str, Any] = event["metadata"]
        at = event.get("lastTimestamp") or event.get("eventTime")
        return str(at or metadata.get("creationTimestamp") or ""), str(metadata["name"])

    ordered = sorted(events, key=when)
    return told(ordered[-1].get("reason"), ordered[-1].get("message")) if ordered else ""


def _pod_names(cluster: DesiredCluster) -> list[str]:
    return [f"{cluster.ref.name}-{broker_id}" for broker_id in cluster.broker_ids]


def _names(pods: Iterable[FoundPod]) -> set[str]:
    return {pod.name for pod in pods}

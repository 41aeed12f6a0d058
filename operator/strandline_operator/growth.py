"""Growth of the brokers' volumes: what claims ask for, what they have, and what is to be done.

    spec.storage.size grows -> each bound claim asks for it -> the StatefulSet goes without its pods
      -> the next pass makes it again with the larger template -> Kubernetes enlarges the volumes

Each step follows from what is there, so an operator that was killed between two of them goes on.
No step needs a broker that is ready: volumes may be full. Nothing shrinks (ADR 0053).

Pure; called by `plan` and `status`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.kube.api import Object
from strandline.model import BrokerId

from . import kinds
from .actions import Action, GrowClaim, PostEvent, ReleasePods
from .conditions import (
    VOLUMES_CANNOT_GROW,
    VOLUMES_GROWN,
    VOLUMES_TOO_SMALL,
    Readiness,
    listed,
)
from .observed import (
    DesiredCluster,
    FoundClaim,
    FoundObject,
    ObservedCluster,
    Ownership,
)
from .pod_settings import canonical_quantity, quantity_bytes
from .pods import storage_of

BYTES_MAX: Final = (1 << 63) - 1
"""The greatest size that a status can show; no volume is that large."""
GROWING: Final = "Growing"
"""Reason of VolumesTooSmall while Kubernetes is at work."""


def template_size(desired: DesiredCluster, observed: ObservedCluster) -> str:
    """Return the size of the claims of brokers to come: a StatefulSet's own as long as it is."""
    found = _stateful_set(desired, observed)
    size = "" if found is None else _template_of(found)
    return size or desired.storage_size


def actions(desired: DesiredCluster, observed: ObservedCluster) -> list[Action]:
    """Return what makes volumes larger: the claims first, because the API server may refuse one."""
    wanted = quantity_bytes(desired.storage_size)
    size = canonical_quantity(desired.storage_size)
    planned: list[Action] = [
        GrowClaim(
            body=_larger(claim, size), storage_class=claim.storage_class, former=claim.requested
        )
        for claim in _claims(desired, observed).values()
        # Kubernetes lets nobody change a claim that has no volume yet.
        if claim.is_bound and quantity_bytes(claim.requested) < wanted
    ]
    found = _stateful_set(desired, observed)
    template = "" if found is None else _template_of(found)
    if found is not None and template and quantity_bytes(template) < wanted:
        why = f"its template asks for {template} of {size}"
        planned.append(ReleasePods(stateful_set=found.ref, why=why))
    return planned


def too_small(
    desired: DesiredCluster, observed: ObservedCluster, obstacle: Readiness | None
) -> Readiness | None:
    """Judge the volumes: which are smaller than wanted, and why they stay so; None if none is.

    obstacle is what keeps the operator from its work.
    """
    wanted = quantity_bytes(desired.storage_size)
    small = [
        _sentence(claim)
        for claim in _claims(desired, observed).values()
        if quantity_bytes(claim.capacity or claim.requested) < wanted
    ]
    if not small:
        return None
    message = f"spec.storage.size is {desired.storage_size}: {listed(small)}"
    if obstacle is not None and obstacle.reason == VOLUMES_CANNOT_GROW:
        message = f"{message}; {obstacle.message}"
        return Readiness(ready=True, reason=VOLUMES_CANNOT_GROW, message=message)
    return Readiness(ready=True, reason=GROWING, message=message)


def events(desired: DesiredCluster, observed: ObservedCluster) -> list[PostEvent]:
    """Return an Event if the last volume has become large enough."""
    before = observed.status.conditions.get(VOLUMES_TOO_SMALL)
    if before is None or before.reason != GROWING or too_small(desired, observed, None):
        return []
    message = f"all volumes have at least spec.storage.size, which is {desired.storage_size}"
    return [PostEvent(about=desired.ref, reason=VOLUMES_GROWN, message=message, is_warning=False)]


def volumes(desired: DesiredCluster, observed: ObservedCluster) -> Mapping[BrokerId, Object]:
    """Return what the status shows of each broker's volume, in bytes."""
    wanted = quantity_bytes(desired.storage_size)
    rows: dict[BrokerId, Object] = {}
    for broker_id, claim in _claims(desired, observed).items():
        most = max(wanted, quantity_bytes(claim.requested))
        rows[broker_id] = {"wantedBytes": min(most, BYTES_MAX)}
        if claim.capacity:
            rows[broker_id]["bytes"] = min(quantity_bytes(claim.capacity), BYTES_MAX)
    return rows


def storage_status(desired: DesiredCluster, observed: ObservedCluster) -> Object:
    """Return the largest size that a claim asks for: spec.storage.size may go back to it."""
    sizes = [claim.requested for claim in _claims(desired, observed).values()]
    return {"storage": {"size": max(sizes, key=quantity_bytes)}} if sizes else {}


def _claims(desired: DesiredCluster, observed: ObservedCluster) -> dict[BrokerId, FoundClaim]:
    """Return the claims of the cluster's brokers: those of its label and of their names."""
    by_name = {claim.ref.name: claim for claim in observed.claims if not claim.is_terminating}
    names = {broker_id: f"data-{desired.ref.name}-{broker_id}" for broker_id in desired.broker_ids}
    return {each: by_name[name] for each, name in names.items() if name in by_name}


def _stateful_set(desired: DesiredCluster, observed: ObservedCluster) -> FoundObject | None:
    """Return the cluster's own StatefulSet; None if there is none, or it is being deleted."""
    ownership, found = observed.parts.get(
        (kinds.STATEFUL_SET.kind, desired.ref.name), (Ownership.LEAVING, None)
    )
    return found if ownership in (Ownership.OURS, Ownership.ORPHAN) else None


def _template_of(stateful_set: FoundObject) -> str:
    templates = (stateful_set.whole.get("spec") or {}).get("volumeClaimTemplates") or [{}]
    return storage_of(((templates[0].get("spec") or {}).get("resources") or {}).get("requests"))


def _larger(claim: FoundClaim, size: str) -> Object:
    """Return the claim's request alone, for this very state of this very claim."""
    metadata = {
        "name": claim.ref.name,
        "uid": claim.ref.uid,
        "resourceVersion": claim.resource_version,
    }
    spec = {"resources": {"requests": {"storage": size}}}
    return {**kinds.CLAIM.type_meta, "metadata": metadata, "spec": spec}


def _sentence(claim: FoundClaim) -> str:
    name = claim.ref.name
    if not claim.is_bound:
        return f"{name} asks for {claim.requested} and has no volume yet"
    pending = f", {claim.pending}" if claim.pending else ""
    return f"{name} has {claim.capacity or 'nothing'} and asks for {claim.requested}{pending}"

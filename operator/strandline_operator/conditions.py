"""Conditions: what is true of a cluster or topic, why, and the sentence for people.

Pure; the words that `cluster_health` and `status` share. `Ready` is the roll-up of the conditions
whose loss costs clients something; the others warn (ADR 0046). docs/health.md tells people what to
do about each.

Source:  Kubernetes API conventions, conditions; kstatus: Stalled and Reconciling, True or absent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from strandline.kube.api import Object
from strandline.model import (
    NO_LEADER,
    STATE_LOST,
    UNCLEAN_LAST_REPLICA,
    PartitionState,
    StoredPartition,
)

from .observed import FoundStatus

MESSAGE_LENGTH_MAX: Final = 1_024
NAMED_MAX: Final = 10
"""Partitions or pods that one sentence names; it counts the others."""

READY: Final = "Ready"
RECONCILED: Final = "Reconciled"
"""Everything that the operator wants to write is written."""
AVAILABLE: Final = "Available"
"""There is a controller, and each partition has a leader."""
MIN_ISR_MET: Final = "MinIsrMet"
"""No partition has fewer in-sync replicas than min.insync.replicas."""
SPREAD_MET: Final = "SpreadMet"
"""Each broker has a node of its own, and replicas are in different racks as far as possible."""
CONFIG_APPLIED: Final = "ConfigApplied"
"""Each broker works with the present configuration (ADR 0056)."""
PODS_CURRENT: Final = "PodsCurrent"
"""Each broker's pod is of the StatefulSet's latest revision."""
ROLLING: Final = "Rolling"
"""Pods of older revisions are being replaced, or wait for that (ADR 0051)."""
SCALING: Final = "Scaling"
"""Brokers are being added or removed (ADR 0059)."""
DISRUPTION_ALLOWED: Final = "DisruptionAllowed"
"""The loss of one more broker would break no min ISR (ADR 0047)."""
VOLUMES_TOO_SMALL: Final = "VolumesTooSmall"
"""Volumes are smaller than spec.storage.size (ADR 0053); absent otherwise."""
VOLUMES_GROWN: Final = "VolumesGrown"
"""Reason of the Event that tells the end of it."""
VOLUMES_CANNOT_GROW: Final = "VolumesCannotGrow"
"""The API server refuses larger volumes."""
BROKER_FAILED: Final = "BrokerFailed"
"""Brokers ended because of a disk or a bug, running again or not; absent otherwise."""
STALLED: Final = "Stalled"
"""The operator cannot go on unless somebody changes something; absent otherwise (kstatus)."""
RECONCILING: Final = "Reconciling"
"""The operator is not done, and needs nobody for that; absent otherwise (kstatus)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether something is as it should be, why, and the sentence for people.

    ready is None while that is unknown. refused marks a state that only a user can change; the
    operator posts an Event for it, too.
    """

    reason: str
    message: str
    ready: bool | None = False
    refused: bool = False


def condition(
    kind: str, readiness: Readiness, *, generation: int, found: FoundStatus, now: str
) -> Object:
    """Return a condition as it is stored; its time changes only when its status does."""
    status = {True: "True", False: "False", None: "Unknown"}[readiness.ready]
    before = found.conditions.get(kind)
    return {
        "type": kind,
        "status": status,
        "reason": readiness.reason,
        "message": readiness.message[:MESSAGE_LENGTH_MAX],
        "observedGeneration": generation,
        "lastTransitionTime": before.since if before and before.status == status else now,
    }


def reconciled(obstacle: Readiness | None) -> dict[str, Readiness]:
    """Return Reconciled, and Stalled or Reconciling if something keeps the operator from it."""
    if obstacle is None:
        done = Readiness(ready=True, reason="AllApplied", message="everything wanted is written")
        return {RECONCILED: done}
    kept_from = Readiness(reason=obstacle.reason, message=obstacle.message)
    at_work = Readiness(ready=True, reason=obstacle.reason, message=obstacle.message)
    return {RECONCILED: kept_from, STALLED if obstacle.refused else RECONCILING: at_work}


def min_isr_met(partitions: Iterable[StoredPartition]) -> Readiness:
    """Judge whether records with acks=all are taken by all partitions that were ever led."""
    states = {each.name: each.state for each in partitions if each.state is not None}
    under = {
        name: state for name, state in states.items() if len(state.isr) < state.min_insync_replicas
    }
    if under:
        told = listed(f"{name} ({in_sync(state)})" for name, state in under.items())
        message = f"too few replicas are in sync, so records with acks=all are refused: {told}"
        return Readiness(reason="UnderMinIsr", message=message)
    message = "every partition has at least min.insync.replicas replicas in sync"
    return Readiness(ready=True, reason="EnoughInSync", message=message)


def in_sync(state: PartitionState) -> str:
    """Return the ISR of a partition beside its minimum, for a sentence."""
    return (
        f"ISR {sorted(state.isr_ids)} of {sorted(state.replicas)}, min {state.min_insync_replicas}"
    )


def without_leader(partition: StoredPartition) -> str:
    """Name a partition without a leader, and what it waits for, as far as its status says.

    The return of one of the brokers is enough: members of the last ISR and eligible leaders have
    every committed record, and the controller keeps none among them that lost data (ADR 0030).
    """
    state = partition.state
    if state is None or state.leader != NO_LEADER:
        return partition.name
    if state.reason in {STATE_LOST, UNCLEAN_LAST_REPLICA}:
        return f"{partition.name} ({state.reason})"
    brokers = sorted(entry.broker_id for entry in state.candidates)
    if not brokers:
        return partition.name
    return f"{partition.name} (waits for broker {' or '.join(map(str, brokers))})"


def listed(names: Iterable[str]) -> str:
    """Return names for a sentence: some in order, and how many there are beside them."""
    ordered = sorted(names)
    rest = len(ordered) - NAMED_MAX
    return ", ".join(ordered[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")

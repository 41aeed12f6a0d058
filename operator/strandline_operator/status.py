"""What the operator says about clusters and topics: counts and conditions.

Pure; called by `plan`. A condition's time moves only when its status does, so that an
unchanged situation gives an unchanged status and no write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from strandline.kube.api import Object

MESSAGE_LENGTH_MAX: Final = 1_024
READY: Final = "Ready"
CONFLICT: Final = "Conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether an object is ready, why, and the sentence for people.

    refused marks what only a user can change; it is posted as an Event, too.
    """

    ready: bool
    reason: str
    message: str
    refused: bool = False


def condition(kind: str, readiness: Readiness, owner: Object, now: str) -> Object:
    """Return a condition of an object, keeping the time of the last change of its status."""
    status = "True" if readiness.ready else "False"
    found = condition_of(owner, kind)
    same = found.get("status") == status
    return {
        "type": kind,
        "status": status,
        "reason": readiness.reason,
        "message": readiness.message[:MESSAGE_LENGTH_MAX],
        "observedGeneration": owner["metadata"].get("generation", 0),
        "lastTransitionTime": found["lastTransitionTime"] if same else now,
    }


def condition_of(value: Object, kind: str) -> Object:
    """Return a condition of an object, {} if it does not have it."""
    for found in status_of(value).get("conditions") or []:
        if found.get("type") == kind:
            return dict(found)
    return {}


def status_of(value: Object) -> dict[str, Any]:
    """Return the status of an object, {} if it has none."""
    return value.get("status") or {}


def partition_counts(partitions: Iterable[Object], total: int) -> dict[str, int]:
    """Count partitions; one without a leader, a status or an object is offline."""
    counts = dict.fromkeys(
        ("total", "online", "offline", "underReplicated", "underMinIsr", "atMinIsr"), 0
    )
    counts["total"] = total
    for partition in partitions:
        state = status_of(partition)
        if not state:
            continue
        isr, needed = len(state["isr"]), state["minInsyncReplicas"]
        counts["online"] += state["leader"] >= 0
        counts["underReplicated"] += isr < len(state["replicas"])
        counts["underMinIsr"] += isr < needed
        counts["atMinIsr"] += isr == needed
    counts["offline"] = total - counts["online"]
    return counts


def broker_rows(
    ids: Iterable[int], brokers: dict[int, Object], partitions: Iterable[Object]
) -> list[dict[str, int]]:
    """Return one row for each broker: its epoch, and the partitions it leads and keeps."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for partition in partitions:
        state = status_of(partition)
        if state:
            leaders[state["leader"]] += 1
            replicas.update(state["replicas"])
    rows = []
    for broker_id in ids:
        row = {"id": broker_id, "leaders": leaders[broker_id], "replicas": replicas[broker_id]}
        registered = status_of(brokers.get(broker_id, {}))
        if registered:
            row["epoch"] = registered["brokerEpoch"]
        rows.append(row)
    return rows


def cluster_readiness(*, ready: int, desired: int, controller: object) -> Readiness:
    """Judge a cluster whose objects are all in place."""
    if ready < desired:
        return Readiness(
            ready=False, reason="BrokersNotReady", message=f"{ready} of {desired} brokers are ready"
        )
    if controller is None:
        return Readiness(
            ready=False, reason="NoController", message="no broker has become the controller yet"
        )
    return Readiness(
        ready=True, reason="AllBrokersReady", message=f"all {desired} brokers are ready"
    )


def topic_readiness(counts: dict[str, int]) -> Readiness:
    """Judge a topic whose Partitions are all created."""
    total, online = counts["total"], counts["online"]
    if online < total:
        message = f"{online} of {total} partitions have a leader"
        return Readiness(ready=False, reason="PartitionsOffline", message=message)
    message = f"all {total} partitions have a leader"
    return Readiness(ready=True, reason="AllPartitionsOnline", message=message)

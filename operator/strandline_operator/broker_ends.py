"""Brokers that ended because of a failed log directory or a broken invariant, as people hear of it.

Pure; called by `plan` and `status`. The end of a process comes before a scrape, and the next one
knows nothing of it: the pod alone still tells, for as long as there is no later end.
"""

from __future__ import annotations

from .actions import PostEvent
from .conditions import BROKER_FAILED, NAMED_MAX, Readiness
from .observed import BrokerEnd, DesiredCluster, ObservedCluster


def broker_failed(observed: ObservedCluster) -> Readiness | None:
    """Return the condition while pods tell of such ends, None if none does."""
    ends = _ends(observed)
    if not ends:
        return None
    reasons = {end.reason for _, end in ends}
    # A bug of ours comes first: it may be in every broker.
    reason = min(reasons)
    told = ", ".join(_named(pod, end) for pod, end in ends)
    message = f"brokers ended, whether they run again or not; see `kubectl logs POD -p`: {told}"
    return Readiness(ready=True, reason=reason, message=message)


def end_events(desired: DesiredCluster, observed: ObservedCluster) -> list[PostEvent]:
    """Return an Event for each end that the status does not name yet."""
    written = observed.status.written.get("conditions") or []
    before = " ".join(each["message"] for each in written if each["type"] == BROKER_FAILED)
    return [
        PostEvent(about=desired.ref, reason=end.reason, message=f"{_named(pod, end)}: {end.words}")
        for pod, end in _ends(observed)
        if _named(pod, end) not in before
    ]


def _ends(observed: ObservedCluster) -> list[tuple[str, BrokerEnd]]:
    """Return the latest such ends, as many as a sentence names."""
    found = [(pod.name, pod.end) for pod in observed.pods if pod.end is not None]
    return sorted(found, key=lambda each: (each[1].at, each[0]), reverse=True)[:NAMED_MAX]


def _named(pod: str, end: BrokerEnd) -> str:
    return f"{pod} at {end.at} ({end.reason})"

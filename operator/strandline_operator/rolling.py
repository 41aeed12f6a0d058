"""Which broker's pod is replaced next, and what its replacement waits for.

Pure; called by `plan`, which makes an eviction of the choice and a condition of the reason. One
disruption at a time: nothing is taken before all brokers are there and all replicas in sync. A pod
that serves nobody is no disruption, so what is stuck in a revision that was given up goes at once;
a broker that reads its logs is not stuck (ADR 0051).

Source:  Strimzi's KafkaRoller: unready first, the active controller last (ADR 0051).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from strandline.model import BrokerId

from .conditions import Readiness, listed
from .disruption import not_in_sync
from .kinds import PAUSE_ROLLING_ANNOTATION
from .observed import DesiredCluster, FoundPod, ObservedCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingStep:
    """What the condition Rolling says, and the pod to replace now, None while the roll waits.

    needs_in_sync tells whether that pod may go only while all replicas are in sync.
    """

    readiness: Readiness
    restart: FoundPod | None = None
    needs_in_sync: bool = True


def rolling_step(
    desired: DesiredCluster,
    observed: ObservedCluster,
    obstacle: Readiness | None,
    *,
    is_written: bool,
) -> RollingStep:
    """Choose the next pod to replace.

    obstacle is what keeps the operator from writing the cluster's objects, None if they are;
    is_written tells whether the StatefulSet is as desired: before, its latest revision is not
    the wanted one.
    """
    if obstacle is not None:
        message = f"no pod is replaced while Reconciled is not True: {obstacle.message}"
        return RollingStep(readiness=Readiness(ready=None, reason="NotReconciled", message=message))
    if not (is_written and observed.revision and observed.is_revision_current):
        message = "the StatefulSet of the present spec has no revision yet"
        return RollingStep(
            readiness=Readiness(ready=None, reason="RevisionUnknown", message=message)
        )
    names = {f"{desired.ref.name}-{each}": each for each in desired.broker_ids}
    pods = {names[pod.name]: pod for pod in observed.pods if pod.name in names}
    old = {each: pod for each, pod in pods.items() if pod.revision not in ("", observed.revision)}
    if not old:
        message = f"no pod is of another revision than {observed.revision}"
        return RollingStep(readiness=Readiness(reason="RollingDone", message=message))
    if desired.is_rolling_paused:
        message = f"annotation {PAUSE_ROLLING_ANNOTATION} keeps pods of older revisions: "
        return _waits(reason="Paused", message=message + listed(pod.name for pod in old.values()))
    fresh = [pod for pod in pods.values() if pod.revision == observed.revision]
    idle = sorted(each for each, pod in old.items() if _serves_nobody(each, pod, observed))
    # A pod that goes, or has gone, is the one that tries the revision.
    is_untried = len(old) == len(names) and not any(pod.is_terminating for pod in old.values())
    if idle and (any(map(_is_up, fresh)) or is_untried):
        step = _restarts(idle[0], old, observed, why="it is not ready and serves nobody")
        return replace(step, needs_in_sync=False)
    return _next_serving(desired.broker_ids, pods, old, observed)


def _next_serving(
    broker_ids: Collection[BrokerId],
    pods: Mapping[BrokerId, FoundPod],
    old: Mapping[BrokerId, FoundPod],
    observed: ObservedCluster,
) -> RollingStep:
    """Choose among the brokers that clients use, or say what has to be waited for."""
    chosen = min(old, key=lambda each: (old[each].is_ready, each == observed.controller_id, each))
    stays = f"; until then {old[chosen].name} stays"
    reading = [each for each, pod in sorted(pods.items()) if _reads_logs(each, pod, observed)]
    if reading:
        message = f"brokers {reading} read their logs, which no orderly stop proves"
        return _waits(reason="WaitingForLogs", message=message + stays)
    for each in broker_ids:
        wait = _missing(each, pods.get(each))
        if wait and (each != chosen or pods[each].is_terminating):
            return _waits(reason="WaitingForPod", message=f"{wait}{stays}")
    unknown = [each for each in broker_ids if not _is_registered(each, pods[each], observed)]
    if unknown:
        message = f"brokers {unknown} did not register from their pods yet"
        return _waits(reason="WaitingForRegistration", message=message + stays)
    behind = not_in_sync(observed.partitions)
    if behind:
        message = f"not all replicas are in sync: {behind}"
        return _waits(reason="WaitingForInSync", message=message + stays)
    if old[chosen].is_ready and observed.evictions_allowed < 1:
        message = "the disruption budget allows no eviction"
        return _waits(reason="WaitingForBudget", message=message + stays)
    why = "all replicas are in sync"
    if not old[chosen].is_ready:
        why = "it is not ready, so it goes first"
    elif chosen == observed.controller_id:
        why = "it is the controller, so it goes last"
    return _restarts(chosen, old, observed, why=why)


def _missing(broker_id: BrokerId, pod: FoundPod | None) -> str:
    """Return what the cluster lacks of a broker's pod, "" if it is there and ready."""
    if pod is None:
        return f"broker {broker_id} has no pod"
    if pod.is_terminating:
        return f"pod {pod.name} is being deleted"
    if pod.is_ready:
        return ""
    return f"pod {pod.name} of revision {pod.revision} is not ready" + (
        f": {pod.cause}" if pod.cause else ""
    )


def _serves_nobody(broker_id: BrokerId, pod: FoundPod, observed: ObservedCluster) -> bool:
    """Tell whether a pod cannot run, or its broker has not come so far as to register."""
    if pod.is_ready or pod.is_terminating:
        return False
    if pod.is_stuck:
        return True
    is_known = _is_registered(broker_id, pod, observed) or _reads_logs(broker_id, pod, observed)
    return not is_known


def _reads_logs(broker_id: BrokerId, pod: FoundPod, observed: ObservedCluster) -> bool:
    """Tell whether a broker reads its logs: a restart would make it begin anew.

    What an earlier process of the pod said counts for nothing once its container cannot run.
    """
    is_told = observed.reading_pods.get(broker_id) == pod.uid
    return is_told and not (pod.is_ready or pod.is_stuck or pod.is_terminating)


def _is_registered(broker_id: BrokerId, pod: FoundPod, observed: ObservedCluster) -> bool:
    return observed.registered_pods.get(broker_id) == pod.uid


def _is_up(pod: FoundPod) -> bool:
    return pod.is_ready and not pod.is_terminating


def _waits(*, reason: str, message: str) -> RollingStep:
    return RollingStep(readiness=Readiness(ready=True, reason=reason, message=message))


def _restarts(
    broker_id: BrokerId, old: Mapping[BrokerId, FoundPod], observed: ObservedCluster, *, why: str
) -> RollingStep:
    message = (
        f"broker {broker_id} restarts for revision {observed.revision}: {why}; "
        f"{len(old) - 1} older pods after it"
    )
    readiness = Readiness(ready=True, reason="Restarting", message=message)
    return RollingStep(readiness=readiness, restart=old[broker_id])

"""Objects deleted by hand, under load: how soon they are back, and the gap that it caused.

The clock begins when the bench first sees the object's deletion, announced or done, and ends when
it first sees the successor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from strandline.kube.objects import CLUSTER_LABEL
from strandline_cli.commands import NotRecovered
from strandline_cli.kubectl_watch import KubectlWatch, TimedWatchEvent
from strandline_cli.release import BROKERS
from strandline_cli.under_load import UnderLoad

from .failover import note_quiet
from .figures import CASCADE_GAP, CASCADE_READY, SERVICE_BACK, SET_BACK, Figure
from .run import TOPIC, BenchRun

BACK_SECONDS = 60.0
CASCADE_SECONDS = 240.0
"""Time for three brokers that end at once, so that none can take over, to start anew."""
SERVICES = ("default-bootstrap", "default-brokers")
STATEFUL_SET = "default"


def delete_objects(run: BenchRun, loaded: UnderLoad) -> None:
    """Delete both Services, then the StatefulSet without its pods, then with them."""
    for service in SERVICES:
        _delete(run, SERVICE_BACK, "service", service)
    uid = _delete(run, SET_BACK, "statefulset", STATEFUL_SET, "--cascade=orphan")
    if not run.screen.wait(lambda: _owners(run) == {uid}, BACK_SECONDS):
        raise NotRecovered("the new StatefulSet did not adopt the pods")
    note_quiet(run, loaded)
    _delete_with_pods(run, loaded)


def _delete(run: BenchRun, figure: Figure, kind: str, name: str, *options: str) -> str:
    """Delete an object, note when its successor was there, and return the successor's uid."""
    kubernetes = run.kubernetes
    with KubectlWatch(kubernetes, kind, name) as watch:
        uid = watch.until(lambda _: True, BACK_SECONDS).uid
        kubernetes.kubectl("delete", kind, name, "--wait=false", *options)
        going = watch.until(lambda seen: _goes(seen, uid), BACK_SECONDS)
        gone = watch.until(lambda seen: seen.event == "DELETED", BACK_SECONDS)
        back = watch.until(lambda seen: seen.uid != uid, BACK_SECONDS)
        run.note(figure, back.at - going.at, object=f"{kind}/{name}", absent=back.at - gone.at)
        return back.uid


def _delete_with_pods(run: BenchRun, loaded: UnderLoad) -> None:
    """Delete the StatefulSet with all of its pods, the default; note how it comes back."""
    kubernetes, view = run.kubernetes, loaded.view
    old = {pod.uid for pod in view.seen().pods.values()}
    recovered: list[float] = []

    def wait(condition: Callable[[], bool], seconds: float) -> bool:
        """Wait as usual, and note when every pod was new and ready and every ISR full."""

        def look() -> bool:
            seen = view.seen()
            new = [pod for pod in seen.pods.values() if pod.ready and pod.uid not in old]
            if not recovered and len(new) == BROKERS and seen.has_full_isrs:
                recovered.append(time.monotonic())
            return condition()

        return loaded.wait(look, seconds)

    with (
        KubectlWatch(kubernetes, "statefulset", STATEFUL_SET) as sets,
        KubectlWatch(kubernetes, "rtopic", TOPIC) as topic,
    ):
        uid = sets.until(lambda _: True, BACK_SECONDS).uid
        topic.until(lambda seen: seen.ready, BACK_SECONDS)
        fault_seen = replace(loaded, wait=wait).fault(
            "delete the StatefulSet with its pods",
            lambda: kubernetes.kubectl("delete", "statefulset", STATEFUL_SET, "--wait=false"),
            limit_seconds=CASCADE_SECONDS,
        )
        if not recovered:
            raise NotRecovered("pods outlived their StatefulSet: the run shows nothing")
        going = sets.until(lambda seen: _goes(seen, uid), BACK_SECONDS)
        # The condition Ready may be old: with every broker gone, no broker reports a change.
        unready_at = max((seen.at for seen in topic.seen() if not seen.ready), default=0.0)
        ready = topic.until(lambda seen: seen.ready, BACK_SECONDS, after=unready_at)
    recovery_seconds = max(recovered[0], ready.at) - going.at
    run.note(CASCADE_READY, recovery_seconds, was_unready=unready_at > 0)
    run.note(CASCADE_GAP, fault_seen.longest_gap_ms / 1000, gaps_ms=fault_seen.gaps_ms)
    run.note_starts(after=CASCADE_READY)


def _goes(seen: TimedWatchEvent, uid: str) -> bool:
    return seen.uid == uid and (seen.deleting or seen.event == "DELETED")


def _owners(run: BenchRun) -> set[str]:
    """Return the uids of what owns the brokers' pods, "" for a pod that nothing owns."""
    pods = run.kubernetes.get("pods", "-l", f"{CLUSTER_LABEL}=default")["items"]
    return {
        owner["uid"]
        for pod in pods
        for owner in pod["metadata"].get("ownerReferences", [{"uid": ""}])
    }

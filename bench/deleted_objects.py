"""Objects that are deleted by hand, under load: how soon they are back, and what it cost.

The clock of an object that comes back begins with the first sight of its deletion, be it
announced or done, and ends with the first sight of its successor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from strandline.kube.objects import CLUSTER_LABEL
from strandline_cli.cluster_view import ClusterView
from strandline_cli.faults import NotRecovered
from strandline_cli.kubectl import Kubernetes
from strandline_cli.kubectl_watch import KubectlWatch, TimedWatchEvent
from strandline_cli.topics import BROKERS
from strandline_cli.under_load import UnderLoad, Wait

from .failover import note_quiet
from .figures import (
    CASCADE_GAP,
    CASCADE_READY,
    SERVICE_BACK,
    SET_BACK,
    Figure,
)
from .run import TOPIC, BenchRun, note_starts

BACK_SECONDS = 60.0
CASCADE_SECONDS = 240.0
"""Three brokers end at once, no broker is left to take over, and three pods start anew."""
SERVICES = ("default-bootstrap", "default-brokers")
STATEFUL_SET = "default"


def delete_objects(run: BenchRun, loaded: UnderLoad) -> None:
    """Delete both Services, then the StatefulSet without its pods, then with them."""
    for service in SERVICES:
        _delete(run, SERVICE_BACK, "service", service)
    uid = _delete(run, SET_BACK, "statefulset", STATEFUL_SET, "--cascade=orphan")
    if not run.environment.screen.wait(lambda: _owners(run) == {uid}, BACK_SECONDS):
        raise NotRecovered("the new StatefulSet did not adopt the pods")
    note_quiet(run, loaded)
    _delete_with_pods(run, loaded)


def _delete(run: BenchRun, figure: Figure, kind: str, name: str, *options: str) -> str:
    """Delete an object, note when its successor was there, and return the successor's uid."""
    with KubectlWatch(run.environment.kubernetes, kind, name) as watch:
        uid = watch.until(lambda _: True, BACK_SECONDS).uid
        run.environment.kubernetes.kubectl("delete", kind, name, "--wait=false", *options)
        going = watch.until(lambda seen: _goes(seen, uid), BACK_SECONDS)
        gone = watch.until(lambda seen: seen.event == "DELETED", BACK_SECONDS)
        back = watch.until(lambda seen: seen.uid != uid, BACK_SECONDS)
        run.note(figure, back.at - going.at, object=f"{kind}/{name}", absent=back.at - gone.at)
        return back.uid


def _delete_with_pods(run: BenchRun, loaded: UnderLoad) -> None:
    """Delete the StatefulSet and, as is the default, all of its pods; note how it comes back."""
    kubernetes = run.environment.kubernetes
    clock = _RecoveryClock(loaded.view, loaded.wait)
    with (
        KubectlWatch(kubernetes, "statefulset", STATEFUL_SET) as sets,
        KubectlWatch(kubernetes, "rtopic", TOPIC) as topic,
    ):
        uid = sets.until(lambda _: True, BACK_SECONDS).uid
        topic.until(lambda seen: seen.ready, BACK_SECONDS)
        fault_seen = loaded.fault(
            "delete the StatefulSet with its pods",
            partial(_delete_set, kubernetes),
            wait=clock.wait,
            limit_seconds=CASCADE_SECONDS,
        )
        if clock.recovered_at is None:
            raise NotRecovered("pods outlived their StatefulSet: the run shows nothing")
        going = sets.until(lambda seen: _goes(seen, uid), BACK_SECONDS)
        # Ready alone says little here: with every broker gone no broker is left to say otherwise.
        unready_at = _last_unready(topic)
        ready = topic.until(lambda seen: seen.ready, BACK_SECONDS, after=unready_at)
    run.note(
        CASCADE_READY,
        max(clock.recovered_at, ready.at) - going.at,
        was_unready=unready_at > 0,
    )
    run.note(CASCADE_GAP, fault_seen.longest_gap_ms / 1000, gaps_ms=fault_seen.gaps_ms)
    note_starts(run, after=CASCADE_READY.key)


class _RecoveryClock:
    """Waits, and notes when every pod was a new one and ready, and every ISR full."""

    def __init__(self, view: ClusterView, wait: Wait) -> None:
        self._view = view
        self._wait = wait
        self._old = {pod.uid for pod in view.seen().pods.values()}
        self.recovered_at: float | None = None

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait as the one given at the start does."""

        def look() -> bool:
            if self.recovered_at is None and self._is_recovered():
                self.recovered_at = time.monotonic()
            return condition()

        return self._wait(look, seconds)

    def _is_recovered(self) -> bool:
        seen = self._view.seen()
        new = [pod for pod in seen.pods.values() if pod.ready and pod.uid not in self._old]
        return len(new) == BROKERS and seen.has_full_isrs


def _delete_set(kubernetes: Kubernetes) -> None:
    kubernetes.kubectl("delete", "statefulset", STATEFUL_SET, "--wait=false")


def _last_unready(topic: KubectlWatch) -> float:
    """Return when a topic was last seen not Ready, 0 if it never was."""
    return max((seen.at for seen in topic.seen() if not seen.ready), default=0.0)


def _goes(seen: TimedWatchEvent, uid: str) -> bool:
    return seen.uid == uid and (seen.deleting or seen.event == "DELETED")


def _owners(run: BenchRun) -> set[str]:
    """Return the uids of what owns the brokers' pods, "" for a pod that nothing owns."""
    pods = run.environment.kubernetes.get("pods", "-l", f"{CLUSTER_LABEL}=default")["items"]
    return {
        owner["uid"]
        for pod in pods
        for owner in pod["metadata"].get("ownerReferences", [{"uid": ""}])
    }

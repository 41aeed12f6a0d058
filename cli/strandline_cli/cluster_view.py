"""A view of a cluster through its API server: objects, pods, metrics.

Its threads poll and keep the newest picture and a time line of changes. Offsets come from each
partition leader's metrics through the API server's pod proxy; a broker that does not respond only
leaves gaps in the picture.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from prometheus_client.parser import text_string_to_metric_families

from strandline import names

from .commands import CommandFailed
from .kubectl import ApiProxy, Kubernetes, Object

POLL_SECONDS = 0.1
METRICS_SECONDS = 1.0
API_LIMIT_SECONDS = 2.0
METRICS_LIMIT_SECONDS = 1.0
HTTP_PORT = 8080
EVENTS_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSeen:
    """A Partition's status; leader is -1 without one."""

    number: int
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()

    @property
    def has_full_isr(self) -> bool:
        """True if every replica is in the ISR and one of them leads."""
        return self.leader >= 0 and set(self.isr) == set(self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeen:
    """A broker's pod; restarts counts starts of its container after the first."""

    uid: str
    ready: bool
    restarts: int
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    """One picture; controller is -1 while none is recorded.

    offsets holds (high watermark, log end offset) by broker and partition.
    """

    partitions: dict[int, PartitionSeen]
    pods: dict[str, PodSeen]
    controller: int = -1
    controller_epoch: int = -1
    offsets: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    @property
    def has_full_isrs(self) -> bool:
        """True if there are partitions and each has its full ISR."""
        return bool(self.partitions) and all(each.has_full_isr for each in self.partitions.values())


def partition_of(found: Object) -> PartitionSeen:
    """Return the picture of a Partition object; without a status it has no leader."""
    spec, status = found["spec"], found.get("status", {})
    return PartitionSeen(
        number=spec["partition"],
        leader=status.get("leader", -1),
        leader_epoch=status.get("leaderEpoch", -1),
        isr=tuple(status.get("isr", ())),
        replicas=tuple(status.get("replicas", ())),
    )


def pod_of(found: Object) -> PodSeen:
    """Return the picture of a broker's pod."""
    status = found.get("status", {})
    containers = status.get("containerStatuses", ())
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return PodSeen(
        uid=found["metadata"]["uid"],
        ready=conditions.get("Ready") == "True" and "deletionTimestamp" not in found["metadata"],
        restarts=sum(each["restartCount"] for each in containers),
        image=found["spec"]["containers"][0]["image"],
    )


def differences(before: ClusterSeen, after: ClusterSeen, topic: str) -> list[str]:
    """Return the changes between two pictures, a sentence each."""
    said: list[str] = []
    for number, new in sorted(after.partitions.items()):
        old = before.partitions.get(number)
        if old is not None:
            said += partition_changes(f"{topic}-{number}", old, new)
    if after.controller_epoch != before.controller_epoch and after.controller >= 0:
        said.append(f"broker {after.controller} is controller, epoch {after.controller_epoch}")
    for name in sorted(before.pods.keys() | after.pods.keys()):
        said += pod_changes(name, before.pods.get(name), after.pods.get(name))
    return said


def partition_changes(name: str, old: PartitionSeen, new: PartitionSeen) -> list[str]:
    """Return what changed of a partition's leader and ISR, a sentence each."""
    said: list[str] = []
    if new.leader_epoch != old.leader_epoch:
        said.append(f"{name}: leader {old.leader} -> {new.leader}, epoch {new.leader_epoch}")
    was, now = set(old.isr), set(new.isr)
    for moved, brokers in (("left", was - now), ("joined", now - was)):
        if brokers:
            listed = ", ".join(str(broker) for broker in sorted(brokers))
            said.append(f"{name}: {listed} {moved} the ISR, now {list(new.isr)}")
    return said


def pod_changes(name: str, old: PodSeen | None, new: PodSeen | None) -> list[str]:
    """Return what changed of a pod, a sentence at most; None is a pod that is not there."""
    if new is None:
        return [f"pod {name} is gone"]
    if old is None or old.uid != new.uid:
        return [f"pod {name} is a new one"]
    if old.restarts < new.restarts:
        return [f"pod {name}: container started again"]
    if new.ready and not old.ready:
        return [f"pod {name} is ready"]
    return [f"pod {name} is not ready"] if old.ready and not new.ready else []


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """A sentence, and its time in seconds since the view began."""

    at_seconds: float
    text: str


class ClusterView:
    """The newest picture of a BrokerCluster and one topic, kept up to date until closed."""

    def __init__(self, kubernetes: Kubernetes, *, topic: str, cluster: str = "default") -> None:
        self.topic = topic
        self.cluster = cluster
        self._ours = f"/apis/strandline.dev/v1alpha1/namespaces/{kubernetes.namespace}"
        self._pods = f"/api/v1/namespaces/{kubernetes.namespace}/pods"
        self._proxy = ApiProxy(kubernetes)
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._seen = ClusterSeen(partitions={}, pods={})
        self._offsets: dict[tuple[int, int], tuple[int, int]] = {}
        self._events: deque[TimelineEvent] = deque(maxlen=EVENTS_MAX)
        self._changed: set[int] = set()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._poll, args=(self._look, POLL_SECONDS), daemon=True),
            threading.Thread(target=self._poll, args=(self._measure, METRICS_SECONDS), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def seen(self) -> ClusterSeen:
        """Return the newest picture."""
        with self._lock:
            return replace(self._seen, offsets=dict(self._offsets))

    def events(self) -> list[TimelineEvent]:
        """Return the last events of the time line; their times rise."""
        with self._lock:
            return list(self._events)

    def say(self, text: str) -> None:
        """Add a sentence to the time line."""
        with self._lock:
            at_seconds = time.monotonic() - self._started
            self._events.append(TimelineEvent(at_seconds=at_seconds, text=text))

    def mark(self) -> None:
        """Forget which partitions changed so far."""
        with self._lock:
            self._changed = set()

    def changed_since_mark(self) -> list[int]:
        """Return the partitions whose leader or ISR changed since the last `mark`."""
        with self._lock:
            return sorted(self._changed)

    def close(self) -> None:
        """Stop polling."""
        self._closed.set()
        for thread in self._threads:
            thread.join()
        self._proxy.close()

    def _poll(self, look: Callable[[], None], seconds: float) -> None:
        while not self._closed.wait(seconds):
            try:
                look()
            except (OSError, CommandFailed, ValueError, KeyError):
                continue

    def _get(self, path: str) -> Object:
        found: Object = json.loads(self._proxy.get(path, limit_seconds=API_LIMIT_SECONDS))
        return found

    def _look(self) -> None:
        partitions = self._get(f"{self._ours}/partitions")
        cluster = self._get(f"{self._ours}/brokerclusters/{self.cluster}")
        labelled = f"labelSelector=strandline.dev%2Fcluster%3D{self.cluster}"
        pods = self._get(f"{self._pods}?{labelled}")
        controller = cluster.get("status", {}).get("controller", {})
        after = ClusterSeen(
            partitions={
                each["spec"]["partition"]: partition_of(each)
                for each in partitions["items"]
                if each["spec"]["topicName"] == self.topic
            },
            pods={each["metadata"]["name"]: pod_of(each) for each in pods["items"]},
            controller=controller.get("brokerId", -1),
            controller_epoch=controller.get("epoch", -1),
        )
        before, self._seen = self._seen, after
        changed = {
            number
            for number, new in after.partitions.items()
            if (old := before.partitions.get(number)) is not None
            and (new.leader_epoch, new.isr) != (old.leader_epoch, old.isr)
        }
        with self._lock:
            self._changed |= changed
        for text in differences(before, after, self.topic) if before.pods else ():
            self.say(text)

    def _measure(self) -> None:
        for pod in list(self._seen.pods):
            broker = int(pod.rpartition("-")[2])
            path = f"{self._pods}/{pod}:{HTTP_PORT}/proxy/metrics"
            try:
                text = self._proxy.get(path, limit_seconds=METRICS_LIMIT_SECONDS)
            except (OSError, CommandFailed):
                continue
            found = offsets_of(text, self.topic)
            with self._lock:
                self._offsets |= {(broker, number): found[number] for number in found}


def offsets_of(metrics: str, topic: str) -> dict[int, tuple[int, int]]:
    """Return (high watermark, log end offset) by partition from a broker's metrics."""
    families = list(text_string_to_metric_families(metrics))

    def values_of(metric: str) -> dict[int, int]:
        return {
            int(sample.labels[names.PARTITION]): int(sample.value)
            for family in families
            if family.name == metric
            for sample in family.samples
            if sample.labels[names.TOPIC] == topic
        }

    watermarks = values_of(names.PARTITION_HIGH_WATERMARK.name)
    ends = values_of(names.PARTITION_LOG_END_OFFSET.name)
    return {number: (watermarks[number], ends[number]) for number in watermarks.keys() & ends}

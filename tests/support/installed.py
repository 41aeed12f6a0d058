"""The chart installed in a namespace of its own on a real cluster, for tests that break pods.

It watches the cluster and runs the load with the demo's own modules, so that a test judges what
a user sees.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from strandline_checker.judge import HistoryVerdict
from strandline_cli import release, under_load
from strandline_cli.assignments import Assignments
from strandline_cli.cluster_view import ClusterView
from strandline_cli.commands import CommandFailed
from strandline_cli.elect import ElectionWishes, elect
from strandline_cli.kubectl import Kubernetes
from strandline_cli.load_pod import LoadPod, bootstrap, manifest
from strandline_cli.release import BROKERS, PARTITIONS
from strandline_cli.verdict import ACKED_MIN, FaultSeen
from strandline_operator.kinds import TOPIC_ID_LABEL
from strandline_operator.resources import DATA_PATH
from tests.support.broker_group import FAULT_LIMIT_MS
from tests.support.cluster import Cluster
from tests.support.commands import programs
from tests.support.eventually import NotWithinDeadline, eventually
from tests.support.strandline_objects import CHART, install_crds

KCAT = f"kcat -b {bootstrap()}"
READY_LIMIT_SECONDS = 120
IN_SYNC_LIMIT_MS = 90_000
HELM_LIMIT_SECONDS = 130


class Installed:
    """A release, and the topics and loads of the tests that share it.

    Its operator lives in the namespace home, and watches the one that has topics and brokers; by
    default they are the same.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        images: dict[str, str],
        *more: str,
        chart: Path = CHART,
        home: str = "",
    ) -> None:
        self.cluster = cluster
        self.images = images
        self.kubernetes = Kubernetes(cluster.kubeconfig, namespace, programs())
        self.home = self.kubernetes.in_namespace(home or namespace)
        # They belong to the whole cluster, so a release of another namespace may own them.
        install_crds(cluster)
        self.helm("install", images, *more, chart=chart)

    def helm(self, verb: str, images: dict[str, str], *more: str, chart: Path = CHART) -> None:
        """Install or upgrade the release with these images and more values."""
        values = ["defaultCluster.spec.timing=demo"]
        values += [*release.image_values(images, "broker", "operator"), *more]
        if self.home.namespace != self.kubernetes.namespace:
            values += [f"watchNamespaces={{{self.kubernetes.namespace}}}"]
        self.home.helm(
            *(verb, release.RELEASE, str(chart), "--wait", "--timeout=120s"),
            *(f"--set={value}" for value in values),
            limit_seconds=HELM_LIMIT_SECONDS,
        )

    def create_topic(self, name: str) -> None:
        """Apply a topic like that of the examples; wait until all are in sync and lead their share.

        Ready takes a leader and the min ISR: the last broker may be about to start, and others lead
        for it then.
        """
        release.apply_topic(self.kubernetes, name)
        self.wait_ready(name)
        eventually(lambda: len(self.led(name)) == PARTITIONS, IN_SYNC_LIMIT_MS, "full ISRs")
        wishes = ElectionWishes(words=(name,), wait_seconds=READY_LIMIT_SECONDS)
        assert elect(Assignments(self.kubernetes), wishes, print)

    def wait_ready(self, topic: str) -> None:
        """Wait until a topic's condition Ready is true."""
        self.kubernetes.wait_ready(f"rtopic/{topic}", READY_LIMIT_SECONDS)

    def topic_id(self, topic: str) -> str:
        """Return the id of the topic that has this name now."""
        return str(self.kubernetes.get("rtopic", topic)["status"]["topicId"])

    def led(self, topic: str) -> set[int]:
        """Return the numbers of the topic's partitions that have a leader and a full ISR."""
        found = self.kubernetes.get("partitions", "-l", f"{TOPIC_ID_LABEL}={self.topic_id(topic)}")
        return {
            int(each["spec"]["partition"])
            for each in found["items"]
            if each.get("status", {}).get("leader", -1) >= 0
            and len(each["status"]["isr"]) == BROKERS
        }

    def write(self, client: str, topic: str, partition: int, text: str) -> None:
        """Write one record with kcat in a load's pod, acknowledged by the whole ISR."""
        send = f"echo {text} | {KCAT} -P -t {topic} -p {partition} -X acks=all"
        self.kubernetes.exec(client, "sh", "-ec", send, container="keeper")

    def read(self, client: str, topic: str, partition: int) -> list[str]:
        """Return a partition from its beginning with kcat, as `offset text`."""
        receive = f"{KCAT} -C -q -e -t {topic} -p {partition} -o beginning -f '%o %s\\n'"
        return self.kubernetes.exec(client, "sh", "-ec", receive, container="keeper").splitlines()

    def log_folders(self) -> list[str]:
        """Return the names of the log folders of all brokers."""
        return [
            name
            for broker in range(BROKERS)
            for name in self.kubernetes.exec(f"default-{broker}", "ls", DATA_PATH).split()
        ]

    def broker_status(self, broker: int) -> dict[str, Any]:
        """Return the status of a Broker object."""
        found: dict[str, Any] = self.kubernetes.get("brokers.strandline.dev", f"default-{broker}")
        status: dict[str, Any] = found["status"]
        return status

    def wait_images(self, image: str, within_ms: int) -> None:
        """Wait until every broker has a ready pod of this image, and all replicas are in sync."""

        def is_so() -> bool:
            found = self.kubernetes.get("pods", "-l", "app.kubernetes.io/component=broker")["items"]
            images = [each["spec"]["containers"][0]["image"] for each in found]
            ready = self.kubernetes.get("brokercluster", "default")["status"]["conditions"]
            rolling = next(each for each in ready if each["type"] == "Rolling")
            return images == [image] * BROKERS and rolling["reason"] == "RollingDone"

        eventually(is_so, within_ms, f"pods of {image}", retry_on=(CommandFailed, KeyError))
        self.kubernetes.wait_ready("brokercluster/default", READY_LIMIT_SECONDS)

    def set_version(self, version: str) -> None:
        """Name the version of the cluster's brokers."""
        patch = json.dumps({"spec": {"version": version}})
        self.kubernetes.kubectl(
            *("patch", "brokercluster", "default", "--type=merge", f"--patch={patch}")
        )

    def cluster_version(self) -> tuple[str, str]:
        """Return version and image that the cluster's status shows."""
        status = self.kubernetes.get("brokercluster", "default")["status"]
        return status["version"], status["image"]

    def node_of(self, broker: int) -> str:
        """Return the node of a broker's pod."""
        found = self.kubernetes.get("pod", f"default-{broker}")
        return str(found["spec"]["nodeName"])

    def operator_pods(self) -> list[str]:
        """Return the names of the operator's pods, including those that are ending."""
        found = self.home.get("pods", "-l", "app.kubernetes.io/component=operator")
        return [each["metadata"]["name"] for each in found["items"]]

    @contextmanager
    def under_load(self, topic: str) -> Iterator[UnderLoad]:
        """Create a topic and keep writing to it while the context lasts."""
        self.create_topic(topic)
        kubernetes, pod = self.kubernetes, f"load-{topic}"
        client = manifest(self.images["client"], name=pod, topic=topic)
        load = LoadPod(kubernetes, on_control_node(client))
        view = ClusterView(kubernetes, topic=topic)
        try:
            run = UnderLoad(kubernetes=kubernetes, view=view, load=load, wait=_wait)
            run.wait_healthy(READY_LIMIT_SECONDS)
            run.wait_for_acks(1_000, READY_LIMIT_SECONDS)
            yield run
        finally:
            load.close()
            view.close()
            kubernetes.kubectl("delete", "pod", pod, "--wait=false")


@contextmanager
def release_of(
    cluster: Cluster, title: str, *values: str, apart: bool = False
) -> Iterator[Installed]:
    """Provide a release with these values in a restricted namespace of its own.

    If it is apart, its operator has another namespace than its brokers.
    """
    images = cluster.load_images("broker", "operator", "client")
    namespace = f"{title}-{uuid.uuid4().hex[:8]}"
    home = f"{namespace}-home" if apart else namespace
    made = dict.fromkeys((namespace, home))
    for each in made:
        cluster.create_restricted_namespace(each)
    try:
        yield Installed(cluster, namespace, images, *values, home=home)
    finally:
        if apart:
            # A namespace does not hold the right to list nodes.
            there = Kubernetes(cluster.kubeconfig, home, programs())
            there.helm("uninstall", release.RELEASE, "--ignore-not-found")
        cluster.kubectl("delete", "namespace", *made, "--wait=false")


class UnderLoad(under_load.UnderLoad):
    """A topic under load, and the checks of its faults and of its history."""

    def short_fault(self, name: str, inject: Callable[[], None]) -> FaultSeen:
        """Inject a fault and wait until it is over; fail if clients waited too long."""
        seen = self.fault(name, inject)
        print(f"{name}: gaps {seen.gaps_ms} ms")
        assert seen.longest_gap_ms <= FAULT_LIMIT_MS
        return seen

    def judged(self) -> HistoryVerdict:
        """Stop the load and judge its history; fail on a finding, or if too little was written."""
        self.wait_for_acks(max(0, ACKED_MIN - self.acked()), READY_LIMIT_SECONDS)
        verdict = self.judge(self.settle(READY_LIMIT_SECONDS))
        print(f"acked {verdict.acked} unknown {verdict.unknown} lost {verdict.lost}")
        assert verdict.is_valid, verdict.findings
        assert verdict.unknown == 0, "the load gives nothing up"
        assert self.vacuity(verdict) == []
        assert verdict.read >= verdict.acked
        return verdict


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    try:
        eventually(condition, round(seconds * 1000), "", retry_on=(CommandFailed,))
    except NotWithinDeadline:
        return False
    return True


def on_control_node(pod: dict[str, Any]) -> dict[str, Any]:
    """Pin a pod to the node that no test kills."""
    pod["spec"]["nodeSelector"] = {"node-role.kubernetes.io/control-plane": ""}
    return pod

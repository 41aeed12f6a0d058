"""The chart with brokers, load, Prometheus and analysis, in a namespace of a real cluster."""

from __future__ import annotations

import json
import re
import tempfile
import time
import urllib.parse
from datetime import UTC, datetime
from typing import Any

import yaml

from strandline import names
from tests.support.cluster import RESTRICTED, Cluster
from tests.support.commands import CommandError, programs
from tests.support.eventually import eventually
from tests.support.strandline_objects import CHART, install_crds

PARTITIONS = 3
BROKERS = 3
CALM_MS = 4000
"""Pause between two faults, for scrapes of the healthy state."""
RELEASE = "strandline"
ANALYSIS_NODE = "worker1"
SMALL_EXECUTOR = {"cores": 1, "cpuRequest": "100m", "memoryMiB": 512, "overheadMiB": 512}
"""Enough for minutes of a small cluster."""
KUBE_VERSION = f"--kube-version={programs().parent.name.removeprefix('kube-')}"
"""Argument of helm where it renders by itself."""
UP_WITHIN_MS = 240_000
SETTLED_WITHIN_MS = 120_000
JOB_LIMIT_SECONDS = 600


def query(
    cluster: Cluster,
    namespace: str,
    expression: str,
    *,
    at_ms: int | None = None,
    release: str = RELEASE,
) -> list[dict[str, Any]]:
    """Return a query's result in the Prometheus of a release, at a time or now."""
    given = {"query": expression} | ({"time": str(at_ms / 1000)} if at_ms else {})
    service = f"/api/v1/namespaces/{namespace}/services/{release}-prometheus:9090/proxy"
    path = f"{service}/api/v1/query?{urllib.parse.urlencode(given)}"
    result: list[dict[str, Any]] = json.loads(cluster.kubectl("get", "--raw", path))["data"][
        "result"
    ]
    return result


PYTHON_WORKERS = (
    "import glob\n"
    "lines = [open(path, 'rb').read() for path in glob.glob('/proc/[0-9]*/cmdline')]\n"
    "print(sum(b'pyspark.daemon' in line for line in lines))\n"
)
"""Program that prints how many processes of an executor run Python for Spark."""
SIGNAL = (
    "import os, signal\n"
    "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
    "    words = open(f'/proc/{{pid}}/cmdline', 'rb').read().split(b'\\0')\n"
    "    if pid != '1' and b'strandline.runtime.main' in words:\n"
    "        os.kill(int(pid), signal.{name})\n"
)
"""Program that sends a signal to the broker of a pod."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def image_values(images: dict[str, str]) -> list[str]:
    values = []
    for name, reference in images.items():
        repository, _, tag = reference.rpartition(":")
        values += [f"--set={name}.image.repository={repository}", f"--set={name}.image.tag={tag}"]
    return [*values, *(f"--set={name}.image.pullPolicy=Never" for name in images)]


class Installation:
    """The chart with brokers and load, in a namespace of its own."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.values: list[str] = []
        self._partition_count = 0

    def install(self, *values: str, load_seconds: int = 1800) -> None:
        """Install the chart, create a topic, and start a load once every replica is in sync.

        values are arguments of helm beside those that every such installation has.
        """
        images = self.cluster.load_images("broker", "operator", "prometheus", "client")
        client = images.pop("client")
        images |= self.cluster.load_images("analysis", nodes=(ANALYSIS_NODE,))
        self._crds()
        self.values = [
            *image_values(images),
            "--set=prometheus.enabled=true",
            *("--set=dashboards.enabled=true", "--set=defaultCluster.spec.timing=demo"),
            *values,
        ]
        self.cluster.helm(
            *("install", RELEASE, str(CHART), "-n", self.namespace, "--wait", *self.values),
            *("--timeout=200s",),
            limit_seconds=240,
        )
        self.create_topic("orders", PARTITIONS)
        self.cluster.apply(self._load_pod(client, load_seconds))
        eventually(
            lambda: self._value(f"sum(rate({names.PRODUCED_RECORDS_TOTAL.name}[10s]))") > 0,
            UP_WITHIN_MS,
            "Prometheus sees records",
            retry_on=(CommandError, AssertionError),
        )

    def stop_load(self) -> None:
        """End the load, so that what comes after it has the machine for itself."""
        self.cluster.kubectl("delete", "pod/load", "-n", self.namespace, "--wait=false")

    def create_topic(self, name: str, partitions: int, **spec: Any) -> None:
        """Create a topic, and wait until every partition has its leader and its replicas."""
        self._partition_count += partitions
        topic = {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "ReplicatedTopic",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"partitions": partitions, "replicationFactor": BROKERS, **spec},
        }
        self.cluster.apply(topic)
        eventually(self.in_sync, UP_WITHIN_MS, "every ISR full", retry_on=(CommandError,))

    def in_sync(self) -> bool:
        """Tell whether every partition has a leader and all of its replicas."""
        states = self.partitions()
        return len(states) == self._partition_count and all(
            state.get("leader", -1) >= 0 and len(state["isr"]) == BROKERS for state in states
        )

    def partitions(self) -> list[dict[str, Any]]:
        """Return the status of every partition that has one."""
        items = self.cluster.get("partitions", "-n", self.namespace)["items"]
        return [item["status"] for item in items if "status" in item]

    def leader_of(self, number: int) -> int:
        """Return the leader of a partition."""
        part = self.cluster.get(f"partition/orders-{number}", "-n", self.namespace)
        return int(part["status"]["leader"])

    def controller(self) -> int:
        """Return the recorded controller."""
        cluster = self.cluster.get("brokercluster/default", "-n", self.namespace)
        return int(cluster["status"]["controller"]["brokerId"])

    def leader_besides_the_controller(self) -> int:
        """Return a broker that leads a partition and is not the controller."""
        leaders = {int(state["leader"]) for state in self.partitions()}
        return min(leaders - {self.controller()})

    def signal(self, broker: int, name: str) -> None:
        """Send a signal, such as SIGKILL, to a broker's process."""
        program = SIGNAL.format(name=name)
        try:
            self.cluster.exec(self.namespace, f"default-{broker}", "python", "-c", program)
        except CommandError as error:
            if error.status != 137:  # the container may end before the command does
                raise

    def kill(self, broker: int) -> dict[str, Any]:
        """Kill a broker's process and wait until it is in sync again."""
        at_ms = now_ms()
        self.signal(broker, "SIGKILL")
        return self._settled("leader killed", broker, at_ms)

    def delete_pod(self, broker: int) -> None:
        """Delete a broker's pod; it may hand its leaderships over."""
        pod = f"default-{broker}"
        self.cluster.kubectl("delete", "pod", pod, "-n", self.namespace, "--wait=false")

    def delete(self, broker: int) -> dict[str, Any]:
        """Delete a broker's pod and wait until its successor is in sync."""
        at_ms = now_ms()
        self.delete_pod(broker)
        return self._settled("leader pod deleted", broker, at_ms)

    def add_prometheus(self, release: str, *values: str) -> None:
        """Add a Prometheus of the chart, as another release would have it."""
        manifest = self.cluster.helm(
            *("template", release, str(CHART), "-n", self.namespace, *self.values, *values),
            *("--show-only", "templates/prometheus.yaml", KUBE_VERSION),
        )
        self.cluster.kubectl("apply", "-n", self.namespace, "-f", "-", stdin=manifest)

    def analyse(
        self, faults: list[dict[str, Any]], *, start_ms: int, end_ms: int
    ) -> tuple[str, dict[str, list[dict[str, Any]]]]:
        """Run the Job on its node; return its report and its tables."""
        self.start_analysis(faults, start_ms=start_ms, end_ms=end_ms)
        return self.analysed(f"{RELEASE}-analysis")

    def start_analysis(
        self, faults: list[dict[str, Any]], *, start_ms: int, end_ms: int, **values: Any
    ) -> None:
        """Create the Job for its node, with further values of the chart."""
        ranged = {"start": rfc3339(start_ms), "end": rfc3339(end_ms), "faults": faults}
        self.apply_analysis(**ranged, **values)

    def apply_analysis(self, **values: Any) -> None:
        """Create what the chart makes for an analysis with these values, on its node."""
        given = {
            "analysis": {
                "enabled": True,
                "printTables": True,
                "nodeSelector": {"kubernetes.io/hostname": ANALYSIS_NODE},
                **values,
            }
        }
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(yaml.safe_dump(given))
            file.flush()
            manifest = self.cluster.helm(
                *("template", RELEASE, str(CHART), "-n", self.namespace, *self.values),
                *("-f", file.name, "--show-only", "templates/analysis.yaml"),
                KUBE_VERSION,
            )
        self.cluster.kubectl("apply", "-n", self.namespace, "-f", "-", stdin=manifest)

    def analysed(
        self, name: str, *, limit_seconds: int = JOB_LIMIT_SECONDS
    ) -> tuple[str, dict[str, list[dict[str, Any]]]]:
        """Wait for a Job's end; return its report and its tables."""
        job = f"job/{name}"

        def ended() -> str:
            status = self.cluster.get(job, "-n", self.namespace)["status"]
            held = {c["type"] for c in status.get("conditions", []) if c["status"] == "True"}
            return next(iter(held & {"Complete", "Failed"}), "")

        outcome = eventually(ended, limit_seconds * 1000, "the Job ends")
        printed = self.cluster.kubectl("logs", "-n", self.namespace, job)
        assert outcome == "Complete", printed
        report = [line for line in printed.splitlines() if not line.startswith("table ")]
        tables = {
            name: json.loads(rows)
            for name, rows in re.findall(r"^table (\w+) (.*)$", printed, re.MULTILINE)
        }
        return "\n".join(report), tables

    def executors(self, job: str) -> list[dict[str, Any]]:
        """Return the pods of executors of a Job that are running."""
        wanted = f"strandline.dev/analysis={job},spark-role=executor"
        found = self.cluster.get("pods", "-n", self.namespace, "-l", wanted)["items"]
        there = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return [pod for pod in there if pod["status"].get("phase") == "Running"]

    def has_run_a_task(self, executor: dict[str, Any]) -> bool:
        """Tell whether an executor has started Python, which it does for its first task."""
        pod = executor["metadata"]["name"]
        return int(self.cluster.exec(self.namespace, pod, "python", "-c", PYTHON_WORKERS)) > 0

    def left_behind(self) -> list[str]:
        """Return the objects that Spark made and that are still there."""
        kinds = "pods,services,configmaps,persistentvolumeclaims"
        found = self.cluster.get(kinds, "-n", self.namespace, "-l", "spark-app-selector")
        return [f"{each['kind']}/{each['metadata']['name']}" for each in found["items"]]

    def _settled(self, name: str, broker: int, at_ms: int) -> dict[str, Any]:
        def lost_its_leadership() -> bool:
            states = self.partitions()
            return all(state["leader"] != broker for state in states)

        eventually(lost_its_leadership, SETTLED_WITHIN_MS, f"others lead after: {name}")
        eventually(self.in_sync, SETTLED_WITHIN_MS, f"every ISR full after: {name}")
        self.wait_scrapes(after_ms=now_ms() + CALM_MS)
        return {"name": name, "atMs": at_ms, "brokerId": broker}

    def wait_scrapes(self, *, after_ms: int, release: str = RELEASE) -> None:
        """Wait until the Prometheus of a release has scraped every broker after this moment."""
        oldest = f"min(timestamp({names.BROKER_EPOCH.name}))"
        count = f"count({names.BROKER_EPOCH.name})"

        def scraped() -> bool:
            known = self._value(count, release=release)
            return known == BROKERS and self._value(oldest, release=release) * 1000 > after_ms

        eventually(
            scraped, SETTLED_WITHIN_MS, "Prometheus sees all brokers", retry_on=(CommandError,)
        )

    def _value(self, expression: str, *, release: str = RELEASE) -> float:
        found = query(self.cluster, self.namespace, expression, release=release)
        (result,) = found or [{"value": [0, "0"]}]
        return float(result["value"][1])

    def _crds(self) -> None:
        """Install the CRDs by themselves: another release of this cluster may own them."""
        try:
            self.cluster.kubectl("get", "crd/partitions.strandline.dev")
        except CommandError:
            install_crds(self.cluster)

    def _load_pod(self, image: str, seconds: int) -> dict[str, Any]:
        command = [
            *("strandline", "load", "--bootstrap=default-bootstrap:9092"),
            *("--topic=orders", f"--partitions={PARTITIONS}", "--rate=20", f"--seconds={seconds}"),
            *("--history=/tmp/history", "--consume"),
        ]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "load", "namespace": self.namespace},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "load",
                        "image": image,
                        "imagePullPolicy": "Never",
                        "args": command,
                        "securityContext": RESTRICTED,
                        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                    }
                ],
                "volumes": [{"name": "tmp", "emptyDir": {}}],
            },
        }


def rfc3339(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"

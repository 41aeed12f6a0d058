"""Clients outside of the pods' network: docs/connect.md as a reader types it, and a leader's death.

The tests' machine has no way to nodes or pods. Its ports lead to a node's through a forwarder, as
kind maps them; kcat and confluent-kafka run on the machine. In a node's own network, which has no
part in the pods', kcat uses the nodes' addresses. Load balancers have addresses of the machine.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from strandline_cli.commands import CommandFailed
from strandline_cli.kubectl import Kubernetes
from strandline_cli.under_load import kill_broker
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.cluster import Cluster
from tests.support.commands import REPOSITORY, programs
from tests.support.documented import under
from tests.support.eventually import eventually
from tests.support.installed import Installed, on_control_node, release_of

pytestmark = pytest.mark.pods

PAGE = "docs/connect.md"
TOPIC = "outside"
FIRST = "127.0.0.1:30092"
PORTS = range(30_092, 30_096)
HALF = 200
OTHER_PARTITIONS = range(1, 6)
"""Those beside partition 0, which is read from its beginning."""
LIMIT_MS = 90_000
COMMAND_SECONDS = 150
LOG_LINES = 40
CONTROL_NODE = "control"
RACK_KEY = "test.strandline.dev/rack"
"""A label that no scheduler looks at."""
ASK_RACKS = """
import json
from confluent_kafka.admin import AdminClient
client = AdminClient({"bootstrap.servers": "default-bootstrap:9092"})
nodes = sorted(client.describe_cluster().result().nodes, key=lambda each: each.id)
print(json.dumps([each.rack for each in nodes]))
"""
SHOWN = re.compile(r"broker (\d) at (\S+)")


class Reader:
    """A person on this machine who types a page's commands in a clone of the repository."""

    def __init__(self, cluster: Cluster, kubernetes: Kubernetes, folder: Path) -> None:
        self._kubernetes = kubernetes
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(cluster.kubeconfig.read_text())
        path = f"{programs()}:{os.environ['PATH']}"
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path}
        self.types(f"kubectl config set-context --current --namespace={kubernetes.namespace}")

    def types(self, line: str) -> str:
        """Run a command and return what it printed; fail with that if it failed."""
        print(f"$ {line}", flush=True)
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=REPOSITORY,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode:
            self._show_why()
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _show_why(self) -> None:
        """Print what may tell why a command failed: the cluster's status, the operator's log."""
        chosen = ("-l", "app.kubernetes.io/component=operator", f"--tail={LOG_LINES}")
        with suppress(CommandFailed):
            print(self._kubernetes.kubectl("get", "brokercluster", "default", "-o", "yaml"))
            print(self._kubernetes.kubectl("logs", *chosen))


@pytest.fixture
def installed(cluster: Cluster) -> Iterator[Installed]:
    """Provide a release with a topic in a namespace of its own."""
    with release_of(cluster, "outside") as made:
        made.create_topic(TOPIC)
        yield made


@pytest.fixture
def reader(cluster: Cluster, installed: Installed, tmp_path: Path) -> Reader:
    """Provide a reader whose kubectl context is the release's namespace."""
    return Reader(cluster, installed.kubernetes, tmp_path)


def condition(kubernetes: Kubernetes) -> str:
    """Return the reason of the cluster's condition ExternalListener, "" without it."""
    conditions = kubernetes.get("brokercluster", "default")["status"]["conditions"]
    return "".join(str(c["reason"]) for c in conditions if c["type"] == "ExternalListener")


def wait_reason(kubernetes: Kubernetes, reason: str) -> None:
    eventually(lambda: condition(kubernetes) == reason, LIMIT_MS, f"reason {reason!r}")


def starts(installed: Installed) -> list[tuple[str, int]]:
    """Return uid and restarts of each broker's pod."""
    pods: list[dict[str, Any]] = [
        installed.kubernetes.get("pod", f"default-{number}") for number in range(3)
    ]
    return [
        (each["metadata"]["uid"], each["status"]["containerStatuses"][0]["restartCount"])
        for each in pods
    ]


def client_pod(installed: Installed) -> dict[str, Any]:
    """Return the pod `client` of the README, as the restricted standard takes it."""
    container = {
        "name": "client",
        "image": installed.images["client"],
        "command": ["sleep", "infinity"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": spec}
    return on_control_node(pod)


def wait_racks(cluster: Cluster, installed: Installed) -> None:
    """Give each broker's node a rack of its own, and wait until the pod `client` is told them."""
    nodes = [installed.node_of(number) for number in range(3)]

    def told() -> list[str | None]:
        return list(json.loads(installed.kubernetes.exec("client", "python", "-c", ASK_RACKS)))

    def name_racks(rack: dict[str, str] | None) -> None:
        patch = json.dumps({"spec": {"rack": rack}})
        installed.kubernetes.kubectl("patch", "bc", "default", "--type=merge", f"--patch={patch}")

    assert told() == [None] * 3
    try:
        for number, node in enumerate(nodes):
            cluster.kubectl("label", "node", node, f"{RACK_KEY}=rack-{number}", "--overwrite")
        name_racks({"topologyKey": RACK_KEY})
        eventually(lambda: told() == ["rack-0", "rack-1", "rack-2"], LIMIT_MS, "racks")
    finally:
        cluster.kubectl("label", "node", *nodes, f"{RACK_KEY}-")
    name_racks(None)
    eventually(lambda: told() == [None] * 3, LIMIT_MS, "no racks")


def test_a_reader_connects_from_outside_and_back_again(
    installed: Installed, cluster: Cluster, reader: Reader
) -> None:
    kubernetes, before = installed.kubernetes, starts(installed)
    kubernetes.apply(client_pod(installed))
    kubernetes.kubectl("wait", "pod/client", "--for=condition=Ready", "--timeout=60s")
    inside = [reader.types(line) for line in under(PAGE, "From a pod")][-1]
    assert {number for number, _ in SHOWN.findall(inside)} == {"0", "1", "2"}
    wait_racks(cluster, installed)
    # Nodes' addresses: any node leads to any broker, and clients need no pod address.
    for line in under(PAGE, "NodePort"):
        reader.types(line)
    wait_reason(kubernetes, "AllBrokersAdvertised")
    (told,) = (reader.types(line) for line in under(PAGE, "From outside"))
    servers = re.findall(r"[\d.]+:\d+", told)
    assert servers
    nodes = cluster.get("nodes")["items"]
    addresses = {each["status"]["addresses"][0]["address"] for each in nodes}
    shown = SHOWN.findall(cluster.node("exec", CONTROL_NODE, "kcat", "-b", servers[0], "-L"))
    assert {number for number, _ in shown} == {"0", "1", "2"}
    assert {address.rpartition(":")[0] for _, address in shown} <= addresses
    # Nobody gives out load balancers here: no broker is advertised any more.
    for line in under(PAGE, "LoadBalancer"):
        reader.types(line)
    wait_reason(kubernetes, "WaitingForServices")
    with cluster.forwarded(PORTS, CONTROL_NODE):
        printed = [reader.types(line) for line in under(PAGE, "From the machine that runs kind")]
        shown = sorted(SHOWN.findall(printed[-1]))
        assert shown == [(str(n), f"127.0.0.1:{30_093 + n}") for n in range(3)]
        survive_a_leaders_death(installed, FIRST)
    for line in under(PAGE, "Back again"):
        reader.types(line)
    wait_reason(kubernetes, "")
    left = {each["metadata"]["name"] for each in kubernetes.get("services")["items"]}
    assert {"default-bootstrap", "default-brokers"} <= left
    eventually(lambda: not services_outside(kubernetes), LIMIT_MS, "the Services' end")
    after = starts(installed)
    assert [uid for uid, _ in after] == [uid for uid, _ in before]
    assert sum(count for _, count in after) == 1, "the one that was killed"


def test_a_load_balancer_leads_clients_to_each_broker_through_a_leaders_death(
    installed: Installed, cluster: Cluster, reader: Reader
) -> None:
    kubernetes, before = installed.kubernetes, starts(installed)
    with cluster.load_balancer():
        for line in under(PAGE, "LoadBalancer"):
            reader.types(line)
        wait_reason(kubernetes, "AllBrokersAdvertised")
        (told,) = (reader.types(line) for line in under(PAGE, "From outside"))
        (first,) = re.findall(r"[\d.]+:\d+", told)
        given = {broker: balanced(kubernetes, broker) for broker in range(3)}
        assert len({first, *given.values()}) == 4
        shown = SHOWN.findall(reader.types(f"kcat -b {first} -L"))
        assert sorted(shown) == [(str(broker), address) for broker, address in given.items()]
        write_to_each_leader(installed, first)
        survive_a_leaders_death(installed, first)
        for line in under(PAGE, "Back again"):
            reader.types(line)
        wait_reason(kubernetes, "")
        all_given = [first, *given.values()]
        eventually(lambda: all(map(refuses, all_given)), LIMIT_MS, f"the end of {all_given}")
    after = starts(installed)
    assert [uid for uid, _ in after] == [uid for uid, _ in before]
    assert sum(count for _, count in after) == 1, "the one that was killed"


def balanced(kubernetes: Kubernetes, broker: int) -> str:
    """Return the address of a broker's load balancer."""
    status = kubernetes.get("service", f"default-external-{broker}")["status"]
    return f"{status['loadBalancer']['ingress'][0]['ip']}:9094"


def refuses(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def write_to_each_leader(installed: Installed, first: str) -> None:
    """Write to partitions that all brokers lead: another broker would refuse a record."""
    leaders = {
        number: int(installed.kubernetes.get("partition", f"{TOPIC}-{number}")["status"]["leader"])
        for number in OTHER_PARTITIONS
    }
    assert set(leaders.values()) == {0, 1, 2}
    for number in OTHER_PARTITIONS:
        sent = SentRecords(producer_of(first), TOPIC, partition=number)
        sent.send(1)
        sent.settle()
        assert read_all(first, TOPIC, 1, partition=number) == sent.offsets


def services_outside(kubernetes: Kubernetes) -> list[str]:
    names = [str(each["metadata"]["name"]) for each in kubernetes.get("services")["items"]]
    return [name for name in names if name.startswith("default-external")]


def survive_a_leaders_death(installed: Installed, first: str) -> None:
    """Write and read from this machine while a leader is killed; every record is there once."""
    kubernetes = installed.kubernetes
    sent = SentRecords(producer_of(first), TOPIC)
    sent.send(HALF)
    sent.settle()
    leader = int(kubernetes.get("partition", f"{TOPIC}-0")["status"]["leader"])
    kill_broker(kubernetes, leader)
    sent.send(HALF)
    sent.settle()
    assert int(kubernetes.get("partition", f"{TOPIC}-0")["status"]["leader"]) != leader
    assert read_all(first, TOPIC, 2 * HALF) == sent.offsets
    # Until the killed one listens again, the address of all may lead there, and kcat tries it once.
    eventually(lambda: is_back(kubernetes, leader), LIMIT_MS, f"broker {leader} is back")
    wait_reason(kubernetes, "AllBrokersAdvertised")
    kcat = ["kcat", "-b", first, "-C", "-q", "-e", "-t", TOPIC, "-p", "0", "-o", "beginning"]
    read = subprocess.run(kcat, capture_output=True, timeout=COMMAND_SECONDS, check=False)
    assert read.returncode == 0, read.stderr
    assert sorted(read.stdout.split()) == sorted(sent.offsets)


def is_back(kubernetes: Kubernetes, broker: int) -> bool:
    """Tell whether the container of a broker was started again and is ready."""
    (status,) = kubernetes.get("pod", f"default-{broker}")["status"]["containerStatuses"]
    return bool(status["restartCount"] and status["ready"])

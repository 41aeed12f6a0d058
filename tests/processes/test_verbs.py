"""`strandline elect`, `reassign`, `drain`, `rebalance` of four brokers, with an admin's rights."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from strandline import names
from strandline_cli.assignments import CONFLICTS_MAX, Assignments, ClusterFound
from strandline_cli.commands import CommandFailed
from strandline_cli.kubectl import ApiProxy, Kubernetes
from strandline_cli.reassign import show_moves
from strandline_cli.watch import ReadMetrics
from tests.processes.conftest import MakeGroup
from tests.support import strandline_objects as objects
from tests.support.broker_group import FAULT_LIMIT_MS, FORMED_LIMIT_MS, BrokerGroup
from tests.support.commands import programs
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.load import RATE, LoadProcess

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

BROKERS = 4
VERB_LIMIT_SECONDS = 90
SESSION_MS = 60_000
IN_SESSION_WHEN_FROZEN = {
    "broker.session.timeout.ms": SESSION_MS,
    "grpc.keepalive.time.ms": SESSION_MS,
}
"""A frozen broker stays in session while a person types, on a slow machine too.

By default a connection ends 15 s after its last ping was answered, and with it the session.
"""
INTERRUPTED = 130


def admin_of(control_plane: ControlPlane, namespace: str) -> Path:
    """Make an account with what the chart gives to people with the role admin."""
    rules = [
        rule
        for item in objects.rendered(objects.CRDS_CHART)
        if item["kind"] == "ClusterRole"
        and "rbac.authorization.k8s.io/aggregate-to-admin" in item["metadata"]["labels"]
        for rule in item["rules"]
    ]
    metadata = {"name": "person", "namespace": namespace}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "person"}
    subject = {"kind": "ServiceAccount", **metadata}
    control_plane.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            {**rbac, "kind": "Role", "rules": rules},
            {**rbac, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]},
        ]
    )
    return control_plane.service_account_kubeconfig(namespace, "person")


class Person:
    """Calls verbs on a group with the rights of an admin of its namespace."""

    def __init__(self, group: BrokerGroup) -> None:
        self._kubeconfig = admin_of(group.control_plane, group.namespace)
        self._namespace = group.namespace
        self._group = group

    def assignments(self) -> Assignments:
        """Return the group's cluster as the verbs have it."""
        return Assignments(Kubernetes(self._kubeconfig, self._namespace, programs()))

    @contextmanager
    def running(self, verb: str) -> Iterator[subprocess.Popen[str]]:
        """Start a verb as a shell starts it in the background: SIGINT is ignored at first.

        The caller reads its output until it ends. It does not outlive the context.
        """
        where = [f"--kubeconfig={self._kubeconfig}", "-n", self._namespace]
        program = ["env", "--ignore-signal=INT", sys.executable, "-m", "strandline_cli"]
        process = subprocess.Popen(
            [*program, *verb.split(), *where],
            env={**os.environ, "PATH": f"{programs()}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
            process.wait(VERB_LIMIT_SECONDS)
        finally:
            process.kill()
            process.communicate()

    def call(self, verb: str, *, status: int = 0) -> str:
        """Run a verb to its end, which must have this exit code; return what it printed."""
        with self.running(verb) as process:
            printed, _ = process.communicate(timeout=VERB_LIMIT_SECONDS)
        assert process.returncode == status, printed
        return printed


def is_live(group: BrokerGroup, broker: int) -> bool:
    """Tell whether a broker has heard from the controller that it counts as live."""
    _, text = group.brokers[broker].get("/metrics")
    return f"\n{names.BROKER_FENCED.name} 0.0\n" in text


def metrics_of(group: BrokerGroup, *, without: int) -> ReadMetrics:
    """Return a reader of the brokers of this machine, which the API server has no pods of."""

    def read(_: ApiProxy, pod: str) -> str:
        number = int(pod.rpartition("-")[2])
        if number == without:
            raise OSError("no response")
        status, text = group.brokers[number].get("/metrics")
        assert status == 200
        return text

    return read


def wanted(group: BrokerGroup, topic: str, number: int = 0) -> list[int]:
    """Return the replicas that a partition shall have."""
    spec: dict[str, Any] = group.get("partitions", f"{topic}-{number}")["spec"]
    replicas: list[int] = spec["replicas"]
    return replicas


def versions_of(group: BrokerGroup, topic: str, number: int) -> int:
    """Return how often the spec of a partition was written."""
    generation: int = group.get("partitions", f"{topic}-{number}")["metadata"]["generation"]
    return generation


def test_a_person_moves_a_partition_under_load_and_takes_a_move_back(
    make_group: MakeGroup, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(brokers=BROKERS, **IN_SESSION_WHEN_FROZEN)
    person = Person(group)
    group.create_topic("moved", assignments=[[0, 1, 2]])
    group.wait_full_isr("moved")
    load = LoadProcess(group, "moved")
    said = person.call("reassign moved/0 --to 3,1,2 --dry-run")
    assert said.startswith("moved/0: replicas [0, 1, 2] -> [3, 1, 2], adds 3, removes 0\n")
    assert wanted(group, "moved") == [0, 1, 2]
    said = person.call("reassign moved/0 --to 3,9,2", status=1)
    assert "must name brokers of cluster demo, which are 0,1,2,3, not 9" in said
    assert person.call("reassign moved/0 --to 3,1,2").endswith("moved/0 is on [3, 1, 2]\n")
    group.wait_moved("moved", 3, 1, 2)
    assert "no partition moves" in person.call("reassign --status")
    # A broker that is away holds the next move up, so that there is something to take back.
    group.brokers[0].kill()
    with person.running("reassign moved/0 --to 0,1,2") as process:
        assert process.stdout is not None
        waits = next(line for line in process.stdout if "it waits to add 0" in line)
        assert waits.startswith("moved/0: ")
        process.send_signal(signal.SIGINT)
        assert "the move goes on" in process.stdout.read()
    assert process.returncode == INTERRUPTED
    assert wanted(group, "moved") == [0, 1, 2]
    assert "moved/0" in person.call("reassign moved --status")
    assert person.call("reassign moved/0 --cancel").endswith("moved/0 is on [3, 1, 2]\n")
    group.wait_moved("moved", 3, 1, 2)
    # It is in session and frozen, so the move begins, and the copy waits. It must not be the
    # controller, and not be frozen before the controller counts it as live.
    group.wait_controller(other_than=0)
    group.start()
    eventually(lambda: is_live(group, 0), FAULT_LIMIT_MS, "broker 0 is counted as live")
    group.brokers[0].freeze()
    said = person.call("reassign moved/0 --to 0,2,3 --no-wait")
    assert "adds 0, removes 1" in said
    group.wait_partition("moved", "begun", lambda status: status.get("addingReplicas") == [0])
    show_moves(person.assignments(), ["moved/0"], print, read_metrics=metrics_of(group, without=0))
    row = re.search(r"moved/0 +\d +0,2,3 +3,1,2 +0 +1 +- +(.+)\n", capsys.readouterr().out)
    assert row is not None
    assert row[1] == "0 copy"
    assert person.call("reassign moved/0 --cancel").endswith("moved/0 is on [3, 1, 2]\n")
    group.brokers[0].thaw()
    group.wait_moved("moved", 3, 1, 2)
    load.wait_for_acks(RATE)
    load.judged()


def test_a_person_asks_for_preferred_leaders(make_group: MakeGroup) -> None:
    group = make_group()
    person = Person(group)
    group.create_topic("elected", assignments=[[0, 1, 2], [1, 2, 0]], partitions=2)
    group.wait_full_isr("elected", 2)
    assert "all preferred leaders lead already" in person.call("elect --all")
    group.brokers[0].kill()
    group.wait_leader("elected", other_than=0)
    group.start()
    group.wait_full_isr("elected", 2)
    said = person.call("elect elected")
    assert re.search(r"elected/0 +0 +0 +\d+ +leads", said)
    assert "elected/1" not in said
    assert group.leaders("elected", 2) == [0, 1]
    group.brokers[0].kill()
    group.wait_leader("elected", other_than=0)
    said = person.call("elect elected/0 --wait-seconds 1", status=1)
    assert re.search(r"elected/0 +0 +[12] +\d+ +broker 0 is not in the ISR \[", said)
    # The wish holds until an election: it is fulfilled when the broker is back.
    group.start()
    group.wait_partition("elected", "first leader", lambda status: status["leader"] == 0)
    said = person.call("elect elected/7", status=1)
    assert said == "strandline elect: elected/7: topic elected has partitions 0 to 1\n"


def test_a_broker_is_drained_under_load_and_nothing_is_lost(make_group: MakeGroup) -> None:
    group = make_group(brokers=BROKERS)
    person = Person(group)
    placed = [[3, 0, 1], [0, 1, 3], [1, 2, 0], [2, 3, 1]]
    topic_id = group.create_topic("drained", partitions=len(placed), assignments=placed)
    group.wait_full_isr("drained", len(placed))
    load = LoadProcess(group, "drained", len(placed))
    said = person.call("drain 3 --dry-run")
    assert "replicas that leave broker 3: 1 to broker 0, 2 to broker 2\n" in said
    assert [wanted(group, "drained", number) for number in range(len(placed))] == placed
    person.call("drain 3 --no-wait")
    assert "broker 3 holds no replica any more" in person.call("drain 3")
    after = [[2, 0, 1], [0, 1, 2], [1, 2, 0], [2, 0, 1]]
    for number, replicas in enumerate(after):
        group.wait_moved("drained", *replicas, number=number)

    def gone() -> bool:
        folders = [group.log_folder(3, topic_id, number) for number in range(len(placed))]
        return not any(folder.exists() for folder in folders)

    eventually(gone, FAULT_LIMIT_MS, "logs of the drained broker")
    # Nothing needs the broker any more: clients go on, and its replicas are elsewhere.
    group.brokers[3].kill()
    load.wait_for_acks(RATE, within_ms=FORMED_LIMIT_MS)
    assert person.call("drain 3").startswith("broker 3 holds no replica any more")
    said = person.call("drain 9", status=1)
    assert "BROKER must be a broker of cluster demo, which has 0,1,2,3, not 9" in said
    load.judged()
    group.start()
    group.create_topic("wide", replicationFactor=4, assignments=[[0, 1, 2, 3]])
    group.wait_full_isr("wide")
    said = person.call("drain 3", status=1)
    assert "wide/0 has 4 replicas, which need as many brokers, and without broker 3" in said
    assert wanted(group, "wide") == [0, 1, 2, 3]


def test_brokers_are_evened_out_under_load_and_nothing_is_lost(make_group: MakeGroup) -> None:
    group = make_group(brokers=BROKERS, **IN_SESSION_WHEN_FROZEN)
    person = Person(group)
    # The broker without replicas will be frozen, and a frozen controller begins no move.
    spare = 2 if group.controller() == 3 else 3
    placed = [[each for each in range(BROKERS) if each != spare]] * 4
    group.create_topic("evened", partitions=len(placed), assignments=placed)
    group.wait_full_isr("evened", len(placed))
    load = LoadProcess(group, "evened", len(placed))
    assert "broker 3 goes: spec.replicas is 3" in person.call("rebalance --dry-run")
    more = json.dumps({"spec": {"replicas": BROKERS}})
    group.control_plane.kubectl(
        *("patch", "brokercluster", objects.CLUSTER, "-n", group.namespace),
        *("--type=merge", "-p", more),
    )
    said = person.call("rebalance --dry-run")
    assert re.search(rf"^ +{spare} +0 +3 +0 +1 +-$", said, re.MULTILINE)
    assert [wanted(group, "evened", number) for number in range(len(placed))] == placed
    # A broker that copies nothing holds the moves up, so that somebody can end the wait.
    group.brokers[spare].freeze()
    with person.running("rebalance") as process:
        assert process.stdout is not None
        assert any(f"{spare} copy" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert "the moves go on. Follow it with `reassign --status`" in process.stdout.read()
    assert process.returncode == INTERRUPTED
    group.brokers[spare].thaw()
    assert "are even: nothing is left to move" in person.call("rebalance")
    after = [wanted(group, "evened", number) for number in range(len(placed))]
    for number, replicas in enumerate(after):
        group.wait_moved("evened", *replicas, number=number)
    assert Counter(one for replicas in after for one in replicas) == dict.fromkeys(range(4), 3)
    assert sorted(replicas[0] for replicas in after) == [0, 1, 2, 3]
    versions = [versions_of(group, "evened", number) for number in range(len(placed))]
    assert "are even: nothing is left to move" in person.call("rebalance")
    assert [versions_of(group, "evened", number) for number in range(len(placed))] == versions
    load.wait_for_acks(RATE)
    load.judged()


def test_a_write_is_decided_anew_when_somebody_else_was_first(
    control_plane: ControlPlane, crds: None, namespace: str
) -> None:
    partition = objects.partition(namespace, topic_id="6" * 8, topic_name="raced", number=0)
    partition["spec"]["topicId"] = "6f0e8b7a-1c2d-4e3f-8a9b-0c1d2e3f4a5b"
    control_plane.apply([objects.cluster(namespace), partition])
    person = Kubernetes(admin_of(control_plane, namespace), namespace, programs())
    seen: list[tuple[int, ...]] = []

    def decide_after(races: int) -> Callable[[ClusterFound], list[dict[str, Any]]]:
        def decide(found: ClusterFound) -> list[dict[str, Any]]:
            each = found.partitions["raced/0"]
            seen.append(each.wanted)
            if len(seen) <= races:
                patch = json.dumps({"spec": {"replicas": [len(seen), 9]}})
                control_plane.kubectl(
                    *("patch", "partition", "raced-0", "-n", namespace),
                    *("--type=merge", "-p", patch),
                )
            return [each.with_replicas((*each.wanted, 7))]

        return decide

    Assignments(person).change(decide_after(1))
    assert seen == [(0, 1, 2), (1, 9)]
    found = control_plane.get("partitions", "raced-0", "-n", namespace)
    assert found["spec"]["replicas"] == [1, 9, 7]
    seen.clear()
    with pytest.raises(CommandFailed, match=f"the same partitions {CONFLICTS_MAX} times"):
        Assignments(person).change(decide_after(CONFLICTS_MAX))
    # A refusal that is no lost race is told as it is, and not tried again.
    seen.clear()
    with pytest.raises(CommandFailed, match=r"spec\.replicas names a broker twice"):
        Assignments(person).change(
            lambda found: [found.partitions["raced/0"].with_replicas((1, 1))]
        )

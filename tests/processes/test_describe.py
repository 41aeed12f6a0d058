"""`strandline describe` and `status` of a real cluster: dead brokers, and what may not be read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.test_new_topics import PARTITIONS, World
from tests.reconcile.test_refusals_process import conditions
from tests.support import strandline_objects as objects
from tests.support.broker_group import FAULT_LIMIT_MS
from tests.support.commands import programs
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

TOPIC = "described"
SENTENCES_LIMIT_MS = 60_000
"""An election after two deaths at once, and statuses; seconds on an idle machine."""


@pytest.fixture(scope="module")
def world(
    control_plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Provide brokers and an operator with one topic."""
    namespace = namespace_name("describe")
    control_plane.kubectl("create", "namespace", namespace)
    made = World(control_plane, namespace, tmp_path_factory.mktemp("describe"))
    try:
        made.group.start()
        made.operator.start()
        made.create(TOPIC)
        made.group.wait_full_isr(TOPIC, PARTITIONS)
        yield made
    finally:
        made.close()
        control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


def run_verb(
    world: World, *words: str, kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a verb, as administrator unless another kubeconfig is given."""
    chosen = kubeconfig or world.group.control_plane.kubeconfig
    where = [f"--kubeconfig={chosen}", "-n", world.group.namespace]
    return subprocess.run(
        [sys.executable, "-m", "strandline_cli", *words, *where],
        env={**os.environ, "PATH": f"{programs()}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def wait_page(world: World, kind: str, name: str, *wanted: str) -> str:
    """Wait until a page has these texts; the operator writes its statuses a moment later."""

    def look() -> str:
        done = run_verb(world, "describe", kind, name)
        assert done.returncode == 0, done.stderr
        for text in wanted:
            assert text in done.stdout, done.stdout
        return done.stdout

    return eventually(look, FAULT_LIMIT_MS, f"page of {kind} {name}")


def test_pages_of_a_real_cluster_say_what_a_dead_broker_leaves(world: World) -> None:
    topic_id = world.group.topic_id(TOPIC)
    wanted = f"{PARTITIONS} partitions, 3 replicas"
    wait_page(world, "topic", TOPIC, topic_id, wanted, "AllPartitionsOnline", f"{TOPIC}-1 ")
    world.group.brokers[2].kill()
    wait_page(world, "topic", TOPIC, "not in the ISR: 2", "Last Events", f"{TOPIC}-0: ")
    holds = f"holds      {PARTITIONS} replicas, leads 0"
    page = wait_page(world, "broker", f"{objects.CLUSTER}-2", "It is not in the ISR of", holds)
    assert page.startswith(f"Broker 2 of cluster {objects.CLUSTER}\n")
    assert "session    epoch " in page
    # No node runs here, so no pod of a broker is ready, and the cluster says so.
    page = wait_page(world, "cluster", objects.CLUSTER, "Why not", "brokers    0/3 are ready")
    assert f"BrokerCluster {objects.CLUSTER}: " in page
    assert f"partitions {PARTITIONS}, {PARTITIONS} of them without a full ISR" in page
    assert "not reached" in page


def test_a_name_that_is_not_there_ends_with_a_sentence(world: World) -> None:
    done = run_verb(world, "describe", "topic", "other")
    assert done.returncode == 1
    assert done.stderr == (
        f"strandline describe: replicatedtopics: there is no other; there is {TOPIC}\n"
    )


def viewer(world: World) -> Path:
    """Return the kubeconfig of a person who may see what the chart's role view allows, and pods."""
    plane, namespace = world.group.control_plane, world.group.namespace
    (allowed,) = [
        item["rules"]
        for item in objects.rendered(objects.CRDS_CHART)
        if item["metadata"]["name"] == "strandline-view"
    ]
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    metadata = {"name": "viewer", "namespace": namespace}
    rbac = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{rbac}/v1", "metadata": metadata}
    role = {"apiGroup": rbac, "kind": "Role", "name": "viewer"}
    plane.apply(
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            {**head, "kind": "Role", "rules": [*allowed, pods]},
            {
                **head,
                "kind": "RoleBinding",
                "roleRef": role,
                "subjects": [{"kind": "ServiceAccount", **metadata}],
            },
        ]
    )
    return plane.service_account_kubeconfig(namespace, "viewer")


def test_a_person_who_may_not_read_events_gets_the_rest_of_the_page(world: World) -> None:
    cluster, namespace = objects.CLUSTER, world.group.namespace
    done = run_verb(world, "describe", "cluster", cluster, kubeconfig=viewer(world))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"Cluster {cluster}"
    why = (
        f'User "system:serviceaccount:{namespace}:viewer" cannot list resource "events" '
        f'in API group "" in the namespace "{namespace}"'
    )
    assert lines[-2:] == ["Not read", f"  events could not be read: {why}"]
    # Objects and pods are there: no pod of these brokers has a node.
    (row,) = [line.split() for line in lines if line.startswith(f"{cluster}-0 ") and "safe" in line]
    assert row[1:3] == ["not", "scheduled"]
    assert any(line.split()[:2] == [TOPIC, cluster] for line in lines)
    assert "Last Events" not in lines


def test_status_prints_the_sentence_of_each_condition_that_is_amiss(world: World) -> None:
    cluster = objects.CLUSTER
    for broker in world.group.brokers[1:]:
        broker.kill()

    def look() -> bool:
        found = conditions(world.operator, cluster, "bc")
        assert found["MinIsrMet"]["status"] == "False", found
        sentences = [
            f"BrokerCluster {cluster}: {found[kind]['reason']}: {found[kind]['message']}"
            for kind in ("Ready", "MinIsrMet", "DisruptionAllowed")
        ]
        of_topic = conditions(world.operator, TOPIC, "rtopic")["Ready"]
        assert of_topic["reason"] == "UnderMinIsr", of_topic
        sentences.append(f"ReplicatedTopic {TOPIC}: UnderMinIsr: {of_topic['message']}")
        done = run_verb(world, "status")
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        told = [line for line in lines if line in sentences]
        assert sorted(told) == sorted(sentences), done.stdout
        # What is well is not said.
        assert found["Available"]["message"] not in done.stdout
        return True

    eventually(look, SENTENCES_LIMIT_MS, "sentences", retry_on=(AssertionError, KeyError))

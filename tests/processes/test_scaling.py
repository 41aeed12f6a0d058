"""A cluster gets more brokers and fewer, by a real operator and real brokers, under load.

There is no kubelet: the brokers are processes beside the pods. The test starts one when its pod is
there, calls its pod ready, and ends it when its pod is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reconcile.test_pods_process import patch_status
from tests.support import strandline_objects as objects
from tests.support.attended_group import BROKERS, AttendedGroup
from tests.support.broker_group import FORMED_LIMIT_MS
from tests.support.control_plane import ControlPlane
from tests.support.load import RATE, LoadProcess

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

MORE = 5
PARTITIONS = 6
SCALED_LIMIT_MS = 2 * FORMED_LIMIT_MS


@pytest.fixture
def attended(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[AttendedGroup]:
    """Provide an operator and three of five brokers."""
    made = AttendedGroup(control_plane, namespace, tmp_path, brokers=MORE)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def scale(attended: AttendedGroup, brokers: int) -> None:
    attended.kubectl("scale", "brokercluster", objects.CLUSTER, f"--replicas={brokers}")


def call_ready(attended: AttendedGroup, brokers: int) -> None:
    """Let kubelets find the pods ready."""
    for number in range(brokers):
        name = f"{objects.CLUSTER}-{number}"
        attended.wait_for(lambda name=name: attended.operator.get("pod", name), name)
        held = [{"type": "Ready", "status": "True"}]
        patch_status(attended.operator, "pod", name, {"phase": "Running", "conditions": held})


def status(attended: AttendedGroup) -> dict[str, Any]:
    """Return the cluster's status, its conditions by type; they are of the present spec."""
    found = attended.group.get("brokerclusters", objects.CLUSTER)
    held = {each["type"]: each for each in found["status"]["conditions"]}
    assert held["Scaling"]["observedGeneration"] == found["metadata"]["generation"]
    return {**found["status"], "conditions": held}


def has_scaled(attended: AttendedGroup, brokers: int) -> bool:
    found = status(attended)
    assert found["conditions"]["Scaling"]["reason"] == "ScalingDone", found["conditions"]["Scaling"]
    assert (found["replicas"], found["spreadOver"]) == (brokers, brokers)
    return True


def held(attended: AttendedGroup) -> Counter[int]:
    """Return how many replicas each broker has."""
    found = attended.group.partitions("orders", PARTITIONS)
    return Counter(broker for each in found for broker in each["replicas"])


def pods(attended: AttendedGroup) -> int:
    return int(attended.group.get("statefulset", objects.CLUSTER)["spec"]["replicas"])


def test_a_cluster_scales_to_five_and_back_under_load_and_nothing_is_lost(
    attended: AttendedGroup,
) -> None:
    group = attended.group
    attended.create_topic("orders", partitions=PARTITIONS)
    call_ready(attended, BROKERS)
    attended.wait_for(lambda: has_scaled(attended, BROKERS), "a cluster at rest", SCALED_LIMIT_MS)
    load = LoadProcess(group, "orders", PARTITIONS)

    scale(attended, MORE)
    attended.start_brokers(MORE)
    call_ready(attended, MORE)
    attended.wait_for(lambda: has_scaled(attended, MORE), "five brokers", SCALED_LIMIT_MS)
    share = PARTITIONS * 3 // MORE
    assert [held(attended)[each] for each in range(BROKERS, MORE)] == [share] * (MORE - BROKERS)
    group.wait_full_isr("orders", PARTITIONS)
    load.wait_for_acks(RATE)

    scale(attended, BROKERS)
    for broker in reversed(range(BROKERS, MORE)):
        attended.wait_for(lambda: pods(attended) <= broker, "a pod to go", SCALED_LIMIT_MS)  # noqa: B023
        assert held(attended)[broker] == 0
        group.brokers[broker].stop()
    attended.wait_for(lambda: has_scaled(attended, BROKERS), "three brokers", SCALED_LIMIT_MS)
    for broker in range(BROKERS, MORE):
        found = group.get("brokers.strandline.dev", f"{objects.CLUSTER}-{broker}")
        assert found["spec"]["removed"] is True
    load.wait_for_acks(RATE)
    load.judged()

    lost = "orders-0"
    attended.kubectl("annotate", "partition", lost, "strandline.dev/deletion=allowed")
    attended.kubectl("delete", "partition", lost)
    attended.wait_topic_ready("orders", SCALED_LIMIT_MS)


def test_fewer_brokers_than_replicas_are_refused_with_the_way_back(attended: AttendedGroup) -> None:
    attended.create_topic("orders", partitions=1)
    call_ready(attended, BROKERS)
    attended.wait_for(lambda: has_scaled(attended, BROKERS), "a cluster at rest", SCALED_LIMIT_MS)
    scale(attended, BROKERS - 1)

    def is_refused() -> bool:
        conditions = status(attended)["conditions"]
        assert conditions["Reconciled"]["reason"] == "ScalingRefused", conditions
        return "set spec.replicas to 3 again" in conditions["Reconciled"]["message"]

    attended.wait_for(is_refused, "the refusal")
    assert pods(attended) == BROKERS
    assert attended.condition("orders")["status"] == "True"
    scale(attended, BROKERS)
    attended.wait_for(lambda: has_scaled(attended, BROKERS), "a cluster at rest", SCALED_LIMIT_MS)

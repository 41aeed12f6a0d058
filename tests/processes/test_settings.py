"""Settings on their whole way: from a user's object through a real operator to running brokers.

There is no kubelet: the brokers are processes beside the pods, and a test restarts them itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from strandline_operator.broker_settings import file_of
from strandline_operator.reading import read_cluster
from tests.support import strandline_objects as objects
from tests.support.attended_group import AttendedGroup
from tests.support.broker_group import FORMED_LIMIT_MS
from tests.support.clients import producer_of
from tests.support.control_plane import ControlPlane

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

SMALL_BYTES = 2_048
SEND_SECONDS = 20


@pytest.fixture
def attended(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[AttendedGroup]:
    """Provide an operator and three brokers that have read the operator's configuration file."""
    made = AttendedGroup(control_plane, namespace, tmp_path)
    try:
        give_file(made)
        made.start()
        wait_applied(made)
        yield made
    finally:
        made.stop()


def give_file(attended: AttendedGroup) -> None:
    """Let brokers find the file that their pods would mount, from their next start on."""
    cluster = attended.group.get("brokerclusters", objects.CLUSTER)
    for broker in attended.group.brokers:
        broker.config_path.write_text(file_of(read_cluster(cluster)))


def change(attended: AttendedGroup, kind: str, name: str, **config: Any) -> None:
    patch = json.dumps({"spec": {"config": config}})
    attended.kubectl("patch", kind, name, "--type=merge", "-p", patch)


def applied(attended: AttendedGroup) -> tuple[str, str]:
    """Return status and reason of ConfigApplied, and its sentence, once of the present spec."""
    found = attended.group.get("brokerclusters", objects.CLUSTER)
    held = {each["type"]: each for each in found.get("status", {}).get("conditions", [])}
    condition = held["ConfigApplied"]
    assert condition["observedGeneration"] == found["metadata"]["generation"]
    return f"{condition['status']} {condition['reason']}", condition["message"]


def wait_for_reason(attended: AttendedGroup, wanted: str, *parts: str) -> None:
    def is_shown() -> bool:
        reason, message = applied(attended)
        assert reason == wanted, (reason, message)
        assert all(part in message for part in parts), message
        return True

    attended.wait_for(is_shown, f"ConfigApplied {wanted}", FORMED_LIMIT_MS)


def wait_applied(attended: AttendedGroup) -> None:
    wait_for_reason(attended, "True Applied")


def template(attended: AttendedGroup) -> dict[str, Any]:
    return dict(attended.group.get("statefulset", objects.CLUSTER)["spec"]["template"])


def brokers(attended: AttendedGroup) -> list[dict[str, Any]]:
    """Return what all brokers say of themselves."""
    found = (
        attended.group.get("brokers.strandline.dev", f"{objects.CLUSTER}-{n}") for n in range(3)
    )
    return [dict(each["status"]) for each in found]


def refusal(attended: AttendedGroup, topic: str, size: int) -> int | None:
    """Send a record; return the error's number, None if it is acknowledged."""
    ends: list[KafkaError | None] = []
    producer = producer_of(attended.group.bootstrap())
    producer.produce(topic, b"v" * size, on_delivery=lambda error, _: ends.append(error))
    producer.flush(SEND_SECONDS)
    (end,) = ends
    return None if end is None else int(end.code())


def test_running_brokers_take_settings_over_and_no_pod_is_replaced(attended: AttendedGroup) -> None:
    first, before = template(attended), brokers(attended)
    frozen = attended.group.brokers[1]
    frozen.freeze()
    change(attended, "bc", objects.CLUSTER, logRetentionCheckIntervalMs=200, logDirFillMax=0.99)
    wait_for_reason(attended, "False NotApplied", "broker 1 (")
    frozen.thaw()
    wait_applied(attended)
    assert template(attended) == first
    after = brokers(attended)
    assert [each["brokerEpoch"] for each in after] == [each["brokerEpoch"] for each in before]
    status = attended.group.get("brokerclusters", objects.CLUSTER)["status"]
    told = {each["configDigest"] for each in (*after, *status["brokers"])}
    assert told == {status["configDigest"]}
    assert status["configDigest"] != before[0]["configDigest"]


def test_a_setting_that_needs_a_restart_changes_the_template_and_is_applied_by_a_restart(
    attended: AttendedGroup,
) -> None:
    first = template(attended)
    change(attended, "bc", objects.CLUSTER, replicaLagTimeMaxMs=20_000)
    attended.wait_for(lambda: template(attended) != first, "another template")
    # No kubelet makes the new pods ready, so the roll stops behind the first one.
    wait_for_reason(attended, "False OldConfiguration", f"{objects.CLUSTER}-2")
    # The operator may delete and make one of them at the same time, and kubectl wait for that.
    attended.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
    wait_for_reason(attended, "False NotApplied", "broker 0 (", "broker 1 (", "broker 2 (")
    give_file(attended)
    for broker in attended.group.brokers:
        broker.kill()
    attended.group.start()
    wait_applied(attended)


def test_settings_of_a_topic_and_of_its_cluster_reach_running_brokers(
    attended: AttendedGroup,
) -> None:
    attended.create_topic("orders")
    first = template(attended)
    assert refusal(attended, "orders", 2 * SMALL_BYTES) is None

    def wait_refusal(wanted: int | None) -> None:
        attended.wait_for(
            lambda: refusal(attended, "orders", 2 * SMALL_BYTES) == wanted, f"end {wanted}"
        )

    change(attended, "bc", objects.CLUSTER, messageMaxBytes=SMALL_BYTES)
    wait_refusal(KafkaError.MSG_SIZE_TOO_LARGE)
    change(attended, "rtopic", "orders", maxMessageBytes=4 * SMALL_BYTES)
    wait_refusal(None)
    change(attended, "rtopic", "orders", minInsyncReplicas=1)

    def has_min_isr() -> bool:
        return all(
            each["minInsyncReplicas"] == 1 for each in attended.group.partitions("orders", 3)
        )

    attended.wait_for(has_min_isr, "another min ISR")
    assert template(attended) == first

"""Partitions on a real API server are created once, by the pass that raises their number."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import StoreConflict
from strandline.kube.api import ApiClient
from strandline.kube.objects import CLUSTER_LABEL
from strandline_operator import kinds, resources
from strandline_operator.actions import (
    Action,
    ApplyStatus,
    EvictPod,
    InitialisePartitions,
    MovePartition,
    PostEvent,
    RecreatePartitions,
)
from strandline_operator.apply import Applier, PartitionNotCreated
from strandline_operator.observe import Cache
from strandline_operator.observed import ObjectRef
from strandline_operator.operator_config import FIELD_MANAGER, OperatorConfig
from strandline_operator.plan_topics import plan_topic
from strandline_operator.reading import read_partition
from strandline_operator.reconcile import now_text
from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane
from tests.support.eventually import aeventually
from tests.support.object_reader import Manifest

pytestmark = pytest.mark.processes

LIMIT_MS = 30_000
Scenario = Callable[[Applier, InitialisePartitions], Awaitable[None]]


class ApplierHarness:
    """A stored topic, the plan for it, and an applier as administrator."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.cache = Cache()
        plane.apply(objects.cluster(namespace))
        plane.apply(objects.topic(namespace, "orders", partitions=3))
        for kind in (kinds.CLUSTER, kinds.TOPIC):
            for value in plane.get(kind.resource.plural, "-n", namespace)["items"]:
                self.cache.put(kind, value)
        (action,) = self.plan()
        assert isinstance(action, InitialisePartitions)
        self.action = action

    def plan(self, name: str = "orders") -> list[Action]:
        """Return the plan for a topic as the cache shows it."""
        found = self.cache.topic(name)
        assert found is not None
        config = OperatorConfig(
            namespace=self.namespace,
            identity="me",
            broker_role="r",
            broker_images={"0.1.0": "i"},
            broker_version="0.1.0",
        )
        return plan_topic(*found, config, now=now_text())

    def run(self, scenario: Scenario) -> None:
        """Run a scenario with an Applier."""

        async def whole() -> None:
            settings = KubernetesConfig()
            async with await ApiClient.open(settings, field_manager=FIELD_MANAGER) as api:
                applier = Applier(api, self.cache, namespace=self.namespace, now=now_text)
                await scenario(applier, self.action)

        asyncio.run(whole())

    def partitions(self) -> list[Manifest]:
        """Return the specs of all stored Partitions."""
        found = self.plane.get("partitions.strandline.dev", "-n", self.namespace)
        return [item["spec"] for item in found["items"]]

    def names(self) -> set[str]:
        """Return the names of all stored Partitions."""
        found = self.plane.get("partitions.strandline.dev", "-n", self.namespace)
        return {item["metadata"]["name"] for item in found["items"]}

    def initialised(self) -> Any:
        """Return the stored `partitionsInitialised`."""
        found = self.plane.get("rtopic", "orders", "-n", self.namespace)
        return found.get("status", {}).get("partitionsInitialised")


@pytest.fixture
def harness(
    control_plane: ControlPlane, crds: None, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> ApplierHarness:
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    return ApplierHarness(control_plane, namespace)


def test_a_number_decided_on_an_old_view_creates_nothing(harness: ApplierHarness) -> None:
    harness.plane.kubectl("-n", harness.namespace, "label", "rtopic", "orders", "changed=since")

    async def scenario(applier: Applier, action: InitialisePartitions) -> None:
        with pytest.raises(StoreConflict):
            await applier.apply(action)

    harness.run(scenario)
    assert harness.partitions() == []
    assert harness.initialised() is None


def test_a_move_is_seen_by_the_next_plan_before_a_watch_shows_it(harness: ApplierHarness) -> None:
    async def scenario(applier: Applier, action: InitialisePartitions) -> None:
        await applier.apply(action)
        stored = harness.plane.get("partition", "orders-0", "-n", harness.namespace)
        before = read_partition(stored).stored
        wanted = before.assigned[::-1]
        body = resources.moved_partition(before, wanted)
        await applier.apply(MovePartition(body=body, former=before.assigned))
        harness.cache.put(kinds.PARTITION, stored)
        found = harness.cache.cluster(objects.CLUSTER)
        assert found is not None
        assigned = {each.name: each.assigned for each in found[1].partitions}
        assert assigned["orders-0"] == wanted

    harness.run(scenario)


def test_a_late_event_of_an_earlier_write_makes_no_second_event_of_a_refusal(
    harness: ApplierHarness,
) -> None:
    async def scenario(applier: Applier, action: InitialisePartitions) -> None:
        harness.plane.apply(objects.topic(harness.namespace, "wide", replicationFactor=5))
        at_first = harness.plane.get("rtopic", "wide", "-n", harness.namespace)
        harness.plane.kubectl("-n", harness.namespace, "label", "rtopic", "wide", "changed=since")
        since = harness.plane.get("rtopic", "wide", "-n", harness.namespace)
        harness.cache.put(kinds.TOPIC, at_first)
        refused = harness.plan("wide")
        assert [type(each) for each in refused] == [PostEvent, ApplyStatus]
        for each in refused:
            await applier.apply(each)
        harness.cache.put(kinds.TOPIC, since)
        assert harness.plan("wide") == []

    harness.run(scenario)


def test_no_pod_is_evicted_while_replicas_are_behind_that_an_old_view_has_in_sync(
    harness: ApplierHarness,
) -> None:
    container = {"name": "broker", "image": "none"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "default-0", "namespace": harness.namespace},
        "spec": {"containers": [container], "nodeSelector": {"no": "node"}},
    }
    harness.plane.apply(pod)
    metadata = harness.plane.get("pod", "default-0", "-n", harness.namespace)["metadata"]
    evict = EvictPod(
        pod=ObjectRef(kind=kinds.POD, name="default-0", uid=metadata["uid"]),
        resource_version=metadata["resourceVersion"],
        in_sync={CLUSTER_LABEL: objects.CLUSTER},
    )

    async def scenario(applier: Applier, action: InitialisePartitions) -> None:
        await applier.apply(action)
        with pytest.raises(StoreConflict, match="orders-0 has no state yet"):
            await applier.apply(evict)
        with pytest.raises(StoreConflict):
            await applier.apply(replace(evict, in_sync={}, resource_version="1"))
        assert harness.plane.get("pod", "default-0", "-n", harness.namespace)
        harness.plane.kubectl("-n", harness.namespace, "label", "pod/default-0", "changed=since")
        with pytest.raises(StoreConflict):
            await applier.apply(replace(evict, in_sync={}))
        await applier.apply(replace(evict, in_sync={}, resource_version=""))

    harness.run(scenario)
    left = harness.plane.get("pods", "-n", harness.namespace)["items"]
    assert [each for each in left if each["metadata"]["name"] == "default-0"] == []


def test_two_passes_with_one_decision_create_once(harness: ApplierHarness) -> None:
    async def scenario(applier: Applier, action: InitialisePartitions) -> None:
        await applier.apply(action)
        with pytest.raises(StoreConflict):
            await applier.apply(action)

    harness.run(scenario)
    assert [spec["recover"] for spec in harness.partitions()] == [False] * 3
    assert harness.initialised() == 3


def test_a_refused_partition_stops_no_other(harness: ApplierHarness) -> None:
    first, second, third = harness.action.bodies
    wrong = {**second, "spec": {**second["spec"], "replicas": []}}
    action = replace(harness.action, bodies=(first, wrong, third))

    async def scenario(applier: Applier, _: InitialisePartitions) -> None:
        with pytest.raises(PartitionNotCreated, match="orders-1"):
            await applier.apply(action)

    harness.run(scenario)
    assert harness.names() == {"orders-0", "orders-2"}


def test_a_name_still_taken_by_an_old_topic_is_waited_for(harness: ApplierHarness) -> None:
    gone = str(UUID(int=0))
    old = objects.partition(harness.namespace, topic_id=gone, topic_name="orders", number=1)
    harness.plane.apply(old)

    async def scenario(applier: Applier, action: InitialisePartitions) -> None:
        applying = asyncio.create_task(applier.apply(action))
        others = {"orders-0", "orders-2"}
        await aeventually(
            lambda: others <= harness.names() and harness.initialised() == 3, LIMIT_MS, "the others"
        )
        assert not applying.done()
        harness.plane.kubectl(
            "-n", harness.namespace, "delete", "partitions.strandline.dev", "orders-1"
        )
        await applying

    harness.run(scenario)
    uid = harness.action.bodies[0]["spec"]["topicId"]
    found = [(spec["topicId"], spec["recover"]) for spec in harness.partitions()]
    assert found == [(uid, False)] * 3, json.dumps(found)


def test_a_partition_that_an_old_view_lacks_is_not_told_to_be_lost(harness: ApplierHarness) -> None:
    async def scenario(applier: Applier, action: InitialisePartitions) -> None:
        await applier.apply(action)
        for name in ("orders-0", "orders-1"):
            harness.cache.remove(kinds.PARTITION, name)
        harness.plane.kubectl(
            "-n", harness.namespace, "delete", "partitions.strandline.dev", "orders-1"
        )
        for each in harness.plan():
            await applier.apply(each)
        assert harness.cache.has(kinds.PARTITION, "orders-0")

    harness.run(scenario)
    events = harness.plane.get("events", "-n", harness.namespace)["items"]
    (told,) = [each["message"] for each in events if each["reason"] == "PartitionsMissing"]
    assert told.startswith("Partitions [1] were missing")
    assert [spec["recover"] for spec in harness.partitions()] == [False, True, False]
    assert [
        str(action) for action in harness.plan() if isinstance(action, RecreatePartitions)
    ] == []

"""New Partitions on a real API server: created once, by the pass that raised the number."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import StoreConflict
from strandline.kube.api import ApiClient
from strandline_operator import kinds
from strandline_operator.actions import InitialisePartitions
from strandline_operator.apply import Executor
from strandline_operator.observe import Cache
from strandline_operator.plan import plan_topic
from strandline_operator.reconcile import now_text
from strandline_operator.settings import FIELD_MANAGER, OperatorConfig
from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane, Manifest
from tests.support.eventually import aeventually

pytestmark = pytest.mark.processes

LIMIT_MS = 10_000
Scenario = Callable[[Executor, InitialisePartitions], Awaitable[None]]


class Bench:
    """A stored topic, the plan for it, and an executor as administrator."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.cache = Cache()
        plane.apply(objects.cluster(namespace))
        plane.apply(objects.topic(namespace, "orders", partitions=3))
        for kind in (kinds.CLUSTER, kinds.TOPIC):
            for value in plane.get(kind.resource.plural, "-n", namespace)["items"]:
                self.cache.put(kind, value)
        observed = self.cache.topic("orders")
        assert observed is not None
        config = OperatorConfig(namespace=namespace, broker_role="r", broker_image="i")
        (action,) = plan_topic(observed, config, now=now_text())
        assert isinstance(action, InitialisePartitions)
        self.action = action

    def run(self, scenario: Scenario) -> None:
        """Run a scenario with an executor."""

        async def whole() -> None:
            settings = KubernetesConfig()
            async with await ApiClient.open(settings, field_manager=FIELD_MANAGER) as api:
                executor = Executor(api, self.cache, namespace=self.namespace, now=now_text)
                await scenario(executor, self.action)

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
        """Return the stored number."""
        found = self.plane.get("rtopic", "orders", "-n", self.namespace)
        return found.get("status", {}).get("partitionsInitialised")


@pytest.fixture
def bench(
    control_plane: ControlPlane, crds: None, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> Bench:
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    return Bench(control_plane, namespace)


def test_a_number_decided_on_an_old_view_creates_nothing(bench: Bench) -> None:
    bench.plane.kubectl("-n", bench.namespace, "label", "rtopic", "orders", "changed=since")

    async def scenario(executor: Executor, action: InitialisePartitions) -> None:
        with pytest.raises(StoreConflict):
            await executor.perform(action)

    bench.run(scenario)
    assert bench.partitions() == []
    assert bench.initialised() is None


def test_two_passes_with_one_decision_create_once(bench: Bench) -> None:
    async def scenario(executor: Executor, action: InitialisePartitions) -> None:
        await executor.perform(action)
        with pytest.raises(StoreConflict):
            await executor.perform(action)

    bench.run(scenario)
    assert [spec["recover"] for spec in bench.partitions()] == [False] * 3
    assert bench.initialised() == 3


def test_a_name_still_taken_by_an_old_topic_is_waited_for(bench: Bench) -> None:
    gone = str(UUID(int=0))
    old = objects.partition(bench.namespace, topic_id=gone, topic_name="orders", number=1)
    bench.plane.apply(old)

    async def scenario(executor: Executor, action: InitialisePartitions) -> None:
        performing = asyncio.create_task(executor.perform(action))
        others = {"orders-0", "orders-2"}
        await aeventually(
            lambda: others <= bench.names() and bench.initialised() == 3, LIMIT_MS, "the others"
        )
        assert not performing.done()
        bench.plane.kubectl(
            "-n", bench.namespace, "delete", "partitions.strandline.dev", "orders-1"
        )
        await performing

    bench.run(scenario)
    uid = bench.action.bodies[0]["spec"]["topicId"]
    found = [(spec["topicId"], spec["recover"]) for spec in bench.partitions()]
    assert found == [(uid, False)] * 3, json.dumps(found)

"""The store leaves a malformed object out, logs it, and returns the good ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, cast

import pytest

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import ObjectMalformed
from strandline.kube.api import ApiClient, Listed, Object, Resource, WatchEvent
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.watch import Change
from strandline.log_fields import fields_of
from strandline.model import BrokerId

MESSAGE = "malformed object left out"


def metadata(name: str) -> dict[str, Any]:
    return {"name": name, "resourceVersion": "7", "uid": f"uid-{name}"}


def partition(number: int, *, isr: object = (1, 0), epochs: object = (9, 4)) -> Object:
    return {
        "metadata": metadata(f"orders-{number}"),
        "spec": {
            "topicId": "uid-orders",
            "topicName": "orders",
            "partition": number,
            "replicas": [0, 1],
        },
        "status": {
            "replicas": [0, 1],
            "leader": 1,
            "leaderEpoch": 1,
            "partitionEpoch": 1,
            "isr": list(isr) if isinstance(isr, tuple) else isr,
            "isrBrokerEpochs": list(epochs) if isinstance(epochs, tuple) else epochs,
            "minInsyncReplicas": 1,
            "controllerEpoch": 1,
            "recovery": "Clean",
        },
    }


def broker(number: int) -> Object:
    return {"metadata": metadata(f"demo-{number}"), "spec": {"brokerId": number}}


def topic(name: str) -> Object:
    effective = {
        "minInsyncReplicas": 1,
        "maxMessageBytes": 1,
        "segmentBytes": 1,
        "flushMessages": 1,
    }
    return {
        "metadata": metadata(name),
        "spec": {"clusterRef": "demo"},
        "status": {"effectiveConfig": effective},
    }


def spoilt(item: Object, part: str, field: str) -> Object:
    return {**item, part: {**item[part], field: "no such thing"}}


class Api:
    """An API server with the same objects in every collection, and changes to come."""

    def __init__(self, *items: Object, changes: tuple[tuple[str, Object], ...] = ()) -> None:
        self.items = items
        self.changes = changes

    async def list(self, _: Resource, __: str, **___: Any) -> Listed[Object]:
        return Listed(items=self.items, resource_version="7")

    async def watch(self, _: Resource, __: str, **___: Any) -> AsyncGenerator[WatchEvent, None]:
        for kind, item in self.changes:
            yield WatchEvent(type=kind, object=item)


def store(*items: Object, changes: tuple[tuple[str, Object], ...] = ()) -> ClusterStore:
    return ClusterStore(
        cast(ApiClient, Api(*items, changes=changes)),
        KubernetesConfig(),
        namespace="somewhere",
        cluster="demo",
        wall_time_us=lambda: 0,
    )


BAD_PARTITION = spoilt(partition(0), "status", "leaderEpoch")
CASES = [
    pytest.param(
        BAD_PARTITION,
        partition(1),
        ClusterStore.list_partitions,
        ClusterStore.watch_partitions,
        id="partitions",
    ),
    pytest.param(
        spoilt(broker(0), "spec", "brokerId"),
        broker(1),
        ClusterStore.list_brokers,
        ClusterStore.watch_brokers,
        id="brokers",
    ),
    pytest.param(
        {**topic("clicks"), "status": {"effectiveConfig": {"minInsyncReplicas": 0}}},
        topic("orders"),
        ClusterStore.list_topics,
        ClusterStore.watch_topics,
        id="topics",
    ),
]


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (fields_of(line)["object"], fields_of(line)["cause"])
        for line in caplog.records
        if line.levelno == logging.WARNING and line.message == MESSAGE
    ]


@pytest.mark.parametrize(("bad", "good", "listing", "_"), CASES)
def test_list_leaves_a_malformed_object_out(
    bad: Object,
    good: Object,
    listing: Callable[[ClusterStore], Any],
    _: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = asyncio.run(listing(store(bad, good)))
    assert [item.name for item in found.items] == [good["metadata"]["name"]]
    ((name, cause),) = logged(caplog)
    assert name == bad["metadata"]["name"]
    assert "must be" in cause


@pytest.mark.parametrize(("bad", "good", "_", "watching"), CASES)
def test_watch_skips_a_malformed_object_and_does_not_call_it_deleted(
    bad: Object,
    good: Object,
    _: object,
    watching: Callable[[ClusterStore, str], AsyncGenerator[Change[Any], None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = (("MODIFIED", bad), ("ADDED", good), ("DELETED", bad))

    async def scenario() -> list[tuple[str, bool]]:
        seen: list[tuple[str, bool]] = []
        async with aclosing(watching(store(changes=events), "7")) as changes:
            async for change in changes:
                seen.append((change.name, change.value is None))
                if len(seen) == 2:
                    break
        return seen

    assert asyncio.run(scenario()) == [
        (good["metadata"]["name"], False),
        (bad["metadata"]["name"], True),
    ]
    assert [name for name, _ in logged(caplog)] == [bad["metadata"]["name"]]


def test_topic_left_out_of_the_list_is_still_there_for_deletion() -> None:
    bad = {**topic("clicks"), "status": {"effectiveConfig": {}}}
    adopting = {**topic("orders"), "spec": {"topicId": "adopted"}}
    assert asyncio.run(store(bad, adopting).list_topic_ids()) == {"uid-clicks", "adopted"}


def test_read_of_one_object_stays_strict() -> None:
    async def scenario() -> None:
        changes = store(changes=(("MODIFIED", spoilt(broker(0), "spec", "brokerId")),))
        async with aclosing(changes.watch_broker("demo-0", "7")) as events:
            with pytest.raises(ObjectMalformed):
                await anext(events)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("item", "epoch"),
    [
        pytest.param(BAD_PARTITION, 9, id="the pairs can be read"),
        pytest.param(
            spoilt(partition(0, isr=(2,), epochs=(8,)), "status", "leader"), 0, id="of another id"
        ),
        pytest.param(partition(0, epochs=(9,)), 0, id="not as many epochs"),
        pytest.param(partition(0, epochs="9,4"), 0, id="no list"),
        pytest.param(partition(0, isr=(1, "0")), 9, id="another id cannot be read"),
        pytest.param({**partition(0), "status": [9]}, 0, id="no status"),
    ],
)
def test_entry_epochs_of_a_malformed_partition_count_if_they_can_be_read(
    item: Object, epoch: int, caplog: pytest.LogCaptureFixture
) -> None:
    found = store(item, partition(1, epochs=(3, 3)))
    assert asyncio.run(found.highest_entry_epoch(BrokerId(1))) == max(epoch, 3)
    assert [name for name, _ in logged(caplog)] == ["orders-0"]


def test_entry_epochs_of_eligible_leaders_count() -> None:
    item = partition(0, isr=(1,), epochs=(9,))
    item["status"] |= {"elr": [0], "elrBrokerEpochs": [6], "minInsyncReplicas": 2}
    for found in (item, spoilt(item, "status", "leader")):
        assert asyncio.run(store(found).highest_entry_epoch(BrokerId(0))) == 6


def test_entry_epochs_of_good_partitions_log_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = store(partition(0), partition(1, epochs=(3, 3)))
    assert asyncio.run(found.highest_entry_epoch(BrokerId(0))) == 4
    assert logged(caplog) == []

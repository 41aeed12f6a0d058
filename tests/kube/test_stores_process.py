"""The stores on a real API server: compare-and-swap, filters by cluster, kept metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import StoreConflict, StoreNotFound
from strandline.kube.api import ApiClient, RequestDone
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.lease import LeaseStore
from strandline.kube.objects import format_micro_time
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerRecord,
    DeletedTopic,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    StrayReplicas,
    StrayTopic,
    TopicId,
)
from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane
from tests.support.tcp_proxy import TcpProxy, proxied

pytestmark = pytest.mark.processes

LIMIT_SECONDS = 30
NOW_US = 1_700_000_000_000_000
STATE = PartitionState(
    replicas=(BrokerId(0), BrokerId(1), BrokerId(2)),
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(0),
    partition_epoch=PartitionEpoch(0),
    isr=tuple(
        IsrEntry(broker_id=BrokerId(broker), broker_epoch=BrokerEpoch(epoch))
        for broker, epoch in ((1, 4), (0, 9))
    ),
    min_insync_replicas=2,
    controller_epoch=ControllerEpoch(1),
)
Scenario = Callable[[ApiClient, ClusterStore, LeaseStore], Awaitable[None]]


def test_a_half_open_watch_of_a_lease_ends_with_its_time_and_misses_nothing(
    control_plane: ControlPlane,
    crds: None,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control_plane.apply(objects.controller_lease(namespace))

    async def scenario(proxy: TcpProxy) -> None:
        settings = replace(KubernetesConfig(), watch_grace_ms=500)
        async with await ApiClient.open(settings, field_manager="test") as api:
            leases = LeaseStore(api, settings, namespace=namespace)
            found = await leases.get("demo-controller")
            assert found is not None
            watch = leases.watch("demo-controller", found.resource_version, timeout_seconds=2)
            async with aclosing(watch) as changes:
                for holder in ("seen", "behind the break"):
                    coming = asyncio.ensure_future(anext(changes))
                    await asyncio.to_thread(
                        control_plane.kubectl,
                        "patch",
                        "lease",
                        "demo-controller",
                        f"--namespace={namespace}",
                        "--type=merge",
                        f'--patch={{"spec": {{"holderIdentity": "{holder}"}}}}',
                    )
                    async with asyncio.timeout(LIMIT_SECONDS):
                        change = await coming
                    assert change.value is not None
                    assert change.value.holder_identity == holder
                    # The watch that is open now hears nothing more, and no error.
                    proxy.swallow()

    with proxied(control_plane.kubeconfig, tmp_path) as (proxy, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        asyncio.run(scenario(proxy))


@pytest.fixture
def on_cluster(
    control_plane: ControlPlane,
    crds: None,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Scenario], list[RequestDone]]:
    """Provide a runner of scenarios on the cluster `demo`; it returns the requests made."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))

    def run(scenario: Scenario) -> list[RequestDone]:
        seen: list[RequestDone] = []

        async def bounded() -> None:
            settings = KubernetesConfig()
            client = await ApiClient.open(settings, field_manager="test", on_request=seen.append)
            async with client as api:
                store = ClusterStore(
                    api,
                    settings,
                    namespace=namespace,
                    cluster=objects.CLUSTER,
                    wall_time_us=lambda: NOW_US,
                )
                leases = LeaseStore(api, settings, namespace=namespace)
                await asyncio.wait_for(scenario(api, store, leases), LIMIT_SECONDS)

        asyncio.run(bounded())
        return seen

    return run


def make_topic(control_plane: ControlPlane, namespace: str, name: str = "orders") -> TopicId:
    control_plane.apply(objects.topic(namespace, name))
    found = control_plane.get(f"replicatedtopic/{name}", "-n", namespace)
    return TopicId(found["metadata"]["uid"])


def test_a_partition_status_is_written_once_per_read(
    control_plane: ControlPlane, namespace: str, on_cluster: Callable[[Scenario], object]
) -> None:
    topic_id = make_topic(control_plane, namespace)
    for number in range(2):
        control_plane.apply(
            objects.partition(namespace, topic_id=topic_id, topic_name="orders", number=number)
        )

    async def scenario(_: ApiClient, store: ClusterStore, __: LeaseStore) -> None:
        listed = await store.list_partitions()
        assert [item.state for item in listed.items] == [None, None]
        first = listed.items[0]
        changes = store.watch_partitions(listed.resource_version)
        written = await store.put_partition_status(first.name, first.resource_version, STATE)
        assert written.state == STATE
        with pytest.raises(StoreConflict):
            await store.put_partition_status(first.name, first.resource_version, STATE)
        async with aclosing(changes):
            change = await anext(changes)
        assert change.value == written
        assert await store.get_partition(first.name) == written
        assert await store.get_partition("absent-0") is None
        assert await store.highest_entry_epoch(BrokerId(0)) == 9
        assert await store.highest_entry_epoch(BrokerId(2)) == 0
        with pytest.raises(StoreNotFound):
            await store.put_partition_status("absent-0", first.resource_version, STATE)

    on_cluster(scenario)
    stored = control_plane.get("partition/orders-0", "-n", namespace)
    assert stored["status"]["changedAt"] == format_micro_time(NOW_US)
    assert stored["spec"]["topicName"] == "orders"
    assert stored["metadata"]["labels"] == {"strandline.dev/cluster": "demo"}


def test_only_objects_of_the_cluster_are_listed(
    control_plane: ControlPlane, namespace: str, on_cluster: Callable[[Scenario], object]
) -> None:
    foreign = objects.broker(namespace, 7)
    foreign["metadata"]["labels"] = {"strandline.dev/cluster": "other"}
    control_plane.apply([objects.broker(namespace, 0), foreign])
    ours = make_topic(control_plane, namespace)
    control_plane.apply(objects.topic(namespace, "foreign", clusterRef="other"))
    make_topic(control_plane, namespace, "young")
    effective = {
        "minInsyncReplicas": 2,
        "segmentBytes": 1_048_576,
        "maxMessageBytes": 1_048_588,
        "flushMessages": 9_223_372_036_854_775_807,
    }
    for name in ("orders", "foreign"):
        status = {"effectiveConfig": effective}
        objects.patch_status(control_plane, namespace, f"replicatedtopic/{name}", status)

    async def scenario(_: ApiClient, store: ClusterStore, __: LeaseStore) -> None:
        brokers = await store.list_brokers()
        assert [item.broker_id for item in brokers.items] == [0]
        topics = await store.list_topics()
        assert [item.topic_id for item in topics.items] == [ours]
        assert topics.items[0].settings.flush_messages == 9_223_372_036_854_775_807
        # Brokers delete a log if this list lacks its topic's id, so the list must be complete.
        assert len(await store.list_topic_ids()) == 3

    on_cluster(scenario)


def test_a_controller_replaces_the_record_that_it_read(
    control_plane: ControlPlane, namespace: str, on_cluster: Callable[[Scenario], object]
) -> None:
    control_plane.apply(objects.cluster(namespace))
    first = ControllerRecord(
        resource_version="",
        holder_identity="broker-0/a",
        broker_id=BrokerId(0),
        controller_epoch=ControllerEpoch(1),
    )
    second = replace(first, holder_identity="broker-1/b", controller_epoch=ControllerEpoch(2))

    async def scenario(_: ApiClient, store: ClusterStore, __: LeaseStore) -> None:
        initial = await store.get_controller_record()
        assert initial is not None
        assert (initial.holder_identity, initial.controller_epoch) == ("", 0)
        version = initial.resource_version
        written = await store.put_controller_record(replace(first, resource_version=version))
        assert replace(written, resource_version="") == first
        with pytest.raises(StoreConflict, match="changed since"):
            await store.put_controller_record(replace(second, resource_version=version))
        # The operator writes meanwhile, and its write must not be lost.
        objects.patch_status(control_plane, namespace, "brokercluster/demo", {"readyBrokers": 2})
        found = await store.get_controller_record()
        assert found is not None
        version = found.resource_version
        await store.put_controller_record(replace(second, resource_version=version))

    on_cluster(scenario)
    status = control_plane.get("brokercluster/demo", "-n", namespace)["status"]
    assert status["controller"]["holderIdentity"] == "broker-1/b"
    assert status["readyBrokers"] == 2


def test_what_the_controller_tells_in_the_cluster_leaves_the_rest_as_it_was(
    control_plane: ControlPlane, namespace: str, on_cluster: Callable[[Scenario], object]
) -> None:
    control_plane.apply(objects.cluster(namespace))
    objects.patch_status(control_plane, namespace, "brokercluster/demo", {"readyBrokers": 2})
    stray = StrayTopic(
        topic_id=TopicId(str(uuid4())),
        topic_name="orders",
        partition_count=2,
        in_trash=True,
        deleted_at_ms=1_700_000_000_123,
        replicas=(StrayReplicas(partition=1, brokers=(BrokerId(0), BrokerId(2))),),
    )
    deleted = DeletedTopic(topic_id=stray.topic_id, topic_name="orders")

    async def scenario(_: ApiClient, store: ClusterStore, __: LeaseStore) -> None:
        found = await store.get_cluster_record()
        assert found is not None
        wanted = replace(
            found, topic_revision=1, deleted_topics=(deleted,), strays=(stray,), strays_total=1
        )
        written = await store.put_cluster_record(wanted)
        assert (written.strays, written.topic_revision, written.uid) == ((stray,), 1, found.uid)
        assert written.deleted_topics[0].deleted_at
        with pytest.raises(StoreConflict, match="changed since"):
            await store.put_cluster_record(wanted)
        assert await store.get_cluster_record() == written

    on_cluster(scenario)
    status = control_plane.get("brokercluster/demo", "-n", namespace)["status"]
    assert status["readyBrokers"] == 2
    assert status["strays"][0]["replicas"] == [{"partition": 1, "brokers": [0, 2]}]


def test_without_a_broker_cluster_no_controller_is_recorded(
    on_cluster: Callable[[Scenario], object],
) -> None:
    async def scenario(_: ApiClient, store: ClusterStore, __: LeaseStore) -> None:
        assert await store.get_controller_record() is None
        assert await store.get_cluster_record() is None

    on_cluster(scenario)


def test_a_deleted_lease_is_not_made_again_by_its_last_holder(
    control_plane: ControlPlane, namespace: str, on_cluster: Callable[[Scenario], object]
) -> None:
    control_plane.apply(objects.controller_lease(namespace))

    async def scenario(_: ApiClient, __: ClusterStore, leases: LeaseStore) -> None:
        found = await leases.get("demo-controller")
        assert found is not None
        control_plane.kubectl("delete", "lease/demo-controller", "-n", namespace)
        with pytest.raises(StoreConflict):
            await leases.put(found)
        assert await leases.get("demo-controller") is None
        control_plane.apply(objects.controller_lease(namespace))
        with pytest.raises(StoreConflict):
            await leases.put(found)

    on_cluster(scenario)


def test_a_lease_is_replaced_by_compare_and_swap_and_keeps_its_metadata(
    control_plane: ControlPlane,
    namespace: str,
    on_cluster: Callable[[Scenario], list[RequestDone]],
) -> None:
    control_plane.apply(objects.controller_lease(namespace))

    async def scenario(api: ApiClient, _: ClusterStore, leases: LeaseStore) -> None:
        assert await leases.get("absent") is None
        found = await leases.get("demo-controller")
        assert found is not None
        mine = replace(
            found,
            holder_identity="broker-0/x",
            lease_duration_seconds=3,
            renew_time=format_micro_time(NOW_US),
            acquire_time=format_micro_time(NOW_US),
            controller_epoch=ControllerEpoch(4),
        )
        taken = await leases.put(mine)
        assert replace(taken, resource_version=found.resource_version) == mine
        with pytest.raises(StoreConflict):
            await leases.put(mine)
        with pytest.raises(StoreNotFound):
            await leases.put(replace(mine, name="absent"))
        changes = leases.watch("demo-controller", taken.resource_version)
        other = LeaseStore(api, KubernetesConfig(), namespace=namespace)
        released = await other.put(replace(taken, holder_identity="", lease_duration_seconds=1))
        async with aclosing(changes):
            assert (await anext(changes)).value == released
        # The watch, which begins with a list, has delivered the metadata: the write reads nothing.
        again = await leases.put(replace(released, holder_identity="broker-0/x"))
        assert again.controller_epoch == 4

    seen = on_cluster(scenario)
    assert [item.verb for item in seen[-3:]] == ["watch", "list", "update"]
    stored = control_plane.get("lease/demo-controller", "-n", namespace)
    assert stored["metadata"]["labels"] == {"strandline.dev/cluster": "demo"}
    assert stored["metadata"]["annotations"]["strandline.dev/controller-epoch"] == "4"
    assert stored["spec"]["renewTime"].endswith(".000000Z")

"""Topics come back with every record at its offset: from logs on disk, and from the trash.

Real brokers, a real operator, a real API server with a garbage collector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from strandline.errors import ConfigError
from strandline_cli.kubectl import Kubernetes
from strandline_cli.status import show_status
from strandline_cli.undelete import Wanted, undelete
from tests.processes.test_new_topics import PARTITIONS, World
from tests.support import strandline_objects as objects
from tests.support.clients import SentRecords, producer_of, read_all
from tests.support.commands import programs
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

GARBAGE_LIMIT_MS = 90_000
"""The garbage collector learns of a new kind at a sync each 30 s, and may then have to work."""
STRAY_LIMIT_MS = 20_000


@pytest.fixture(scope="module")
def world(
    control_plane: ControlPlane, crds: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Provide running brokers and a running operator; tests use topics of their own."""
    namespace = namespace_name("undelete")
    control_plane.kubectl("create", "namespace", namespace)
    made = World(control_plane, namespace, tmp_path_factory.mktemp("undelete"))
    try:
        made.group.start()
        made.operator.start()
        yield made
    finally:
        made.close()
        control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


class Written:
    """A topic with records in each partition; what was acknowledged is remembered."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        world.create(name)
        world.group.wait_full_isr(name, PARTITIONS)
        self.topic_id = world.group.topic_id(name)
        producer = producer_of(world.group.bootstrap())
        self.sent = [SentRecords(producer, name, partition=n) for n in range(PARTITIONS)]
        self.write(100)

    def write(self, count: int) -> None:
        """Write more records and wait until all are acknowledged."""
        for each in self.sent:
            each.send(count)
        for each in self.sent:
            each.settle()

    def delete(self) -> None:
        """Delete the topic, and wait until the garbage collector has deleted its Partitions."""
        self.world.operator.kubectl("delete", "replicatedtopic", self.name)
        gone = f"{self.name}-0"
        eventually(
            lambda: self.world.operator.get("partitions.strandline.dev", gone) is None,
            GARBAGE_LIMIT_MS,
            "the garbage collector",
        )

    def let_library_hear(self) -> None:
        """Let the library hear that the topic is gone, as it may at any time while that is so."""
        eventually(
            lambda: not any(each.is_known() for each in self.sent), GARBAGE_LIMIT_MS, "it is gone"
        )

    def is_whole(self) -> None:
        """Read every acknowledged record at its offset, and write on."""
        self.world.group.wait_full_isr(self.name, PARTITIONS)
        for each in self.sent:
            each.wait_known()
        for more in (0, 10):
            self.write(more)
            for number, each in enumerate(self.sent):
                bootstrap, count = self.world.group.bootstrap(), len(each.offsets)
                assert read_all(bootstrap, self.name, count, partition=number) == each.offsets
                assert sorted(each.offsets.values()) == list(range(count))


def kubernetes_of(world: World) -> Kubernetes:
    plane = world.group.control_plane
    return Kubernetes(plane.kubeconfig, world.group.namespace, programs())


def wanted(topic: str) -> Wanted:
    # The StatefulSet of these brokers has no pods, so no broker counts as ready.
    return Wanted(
        topic=topic,
        cluster=objects.CLUSTER,
        name="",
        replication_factor=3,
        retention_ms=-1,
        wait_seconds=60,
    )


def strays(world: World) -> dict[str, dict[str, Any]]:
    """Return what could be brought back, by topic id."""
    status = world.group.get("brokerclusters", objects.CLUSTER)["status"]
    return {each["topicId"]: each for each in status.get("strays", ())}


def wait_stray(world: World, topic_id: str, *, in_trash: bool) -> None:
    """Wait until every replica of a topic is listed as on disk or in the trash."""
    everywhere = [{"partition": n, "brokers": [0, 1, 2]} for n in range(PARTITIONS)]

    def listed() -> bool:
        found = strays(world)[topic_id]
        assert found["replicas"] == everywhere, found
        assert found["inTrash"] is in_trash, found
        return True

    eventually(listed, STRAY_LIMIT_MS, f"stray {topic_id}", retry_on=(KeyError, AssertionError))


def test_a_topic_that_is_brought_back_at_once_has_every_record(world: World) -> None:
    # The garbage collector may still have its Partitions, and no broker need have told of its log.
    left = Written(world, "left")
    world.operator.kubectl("delete", "replicatedtopic", "left")
    eventually(lambda: _brings_back(world, "left"), GARBAGE_LIMIT_MS, "it was deleted")
    left.is_whole()


def _brings_back(world: World, name: str) -> bool:
    try:
        undelete(kubernetes_of(world), wanted(name), print)
    except ConfigError as error:
        raise AssertionError(str(error)) from error
    return True


def test_a_deleted_topic_comes_back_with_every_record(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = Written(world, "gone")
    gone.delete()
    gone.let_library_hear()
    wait_stray(world, gone.topic_id, in_trash=True)
    show_status(kubernetes_of(world))
    assert "strandline undelete gone --cluster demo" in capsys.readouterr().out
    said: list[str] = []
    undelete(kubernetes_of(world), wanted("gone"), said.append)
    assert said == [
        f"created ReplicatedTopic gone with topic id {gone.topic_id}, 2 partitions and 3 replicas",
        "its records are kept for ever; its other settings are those of the cluster",
        "topic gone is back",
    ]
    gone.is_whole()
    eventually(lambda: gone.topic_id not in strays(world), STRAY_LIMIT_MS, "no stray any more")
    with pytest.raises(ConfigError, match="no broker of cluster demo has logs"):
        undelete(kubernetes_of(world), wanted("gone"), said.append)


def test_a_topic_that_is_deleted_as_soon_as_it_is_there_leaves_nothing(world: World) -> None:
    topic_ids: dict[str, str] = {}
    for name in (f"short-{number}" for number in range(6)):
        world.create(name)
        world.group.wait_full_isr(name, PARTITIONS)
        topic_ids[name] = world.group.topic_id(name)
        world.operator.kubectl("delete", "replicatedtopic", name)
    for topic_id in topic_ids.values():
        wait_stray(world, topic_id, in_trash=True)
    known = AdminClient({"bootstrap.servers": world.group.bootstrap()}).list_topics(timeout=10)
    assert not topic_ids.keys() & known.topics.keys()


def test_the_leader_epochs_of_a_topic_that_comes_back_go_on(world: World) -> None:
    # A client that knows a higher one of this topic id takes any lower one for old metadata.
    known = Written(world, "known")
    for _ in range(2):
        leader = world.group.leaders("known", PARTITIONS)[0]
        world.group.brokers[leader].kill()
        world.group.wait_leader("known", other_than=leader)
        world.group.start()
        world.group.wait_full_isr("known", PARTITIONS)
    before = [each["leaderEpoch"] for each in world.group.partitions("known", PARTITIONS)]
    assert max(before) >= 2
    known.delete()
    wait_stray(world, known.topic_id, in_trash=True)
    undelete(kubernetes_of(world), wanted("known"), print)
    known.is_whole()
    after = [each["leaderEpoch"] for each in world.group.partitions("known", PARTITIONS)]
    assert all(new > old for old, new in zip(before, after, strict=True))


def test_a_topic_that_had_moved_comes_back_with_every_record(world: World) -> None:
    group, name = world.group, "elsewhere"
    one = objects.topic(group.namespace, name, partitions=1, replicationFactor=1)
    group.control_plane.apply(one)
    group.wait_full_isr(name)
    (placed,) = group.partition(name)["replicas"]
    moved_to = (placed - 1) % 3
    before = SentRecords(producer_of(group.bootstrap()), name, prefix="before")
    before.send(10)
    before.settle()
    group.move(name, moved_to)
    group.wait_moved(name, moved_to)
    sent = SentRecords(producer_of(group.bootstrap()), name)
    sent.send(50)
    sent.settle()
    everything = {**before.offsets, **sent.offsets}
    topic_id = group.topic_id(name)
    world.operator.kubectl("delete", "replicatedtopic", name)
    brokers = sorted((placed, moved_to))

    def listed() -> bool:
        found = strays(world)[topic_id]
        assert found["inTrash"], found
        assert found["replicas"] == [{"partition": 0, "brokers": brokers}], found
        return True

    eventually(listed, GARBAGE_LIMIT_MS, "it was deleted", retry_on=(KeyError, AssertionError))
    undelete(kubernetes_of(world), replace(wanted(name), replication_factor=2), print)
    group.wait_full_isr(name)
    assert read_all(group.bootstrap(), name, len(everything)) == everything
    assert sorted(everything.values()) == list(range(60))


def test_an_undelete_of_what_is_not_there_changes_nothing(world: World) -> None:
    before = world.operator.list("replicatedtopics")
    with pytest.raises(ConfigError, match="logs of a deleted topic nowhere: nothing changed"):
        undelete(kubernetes_of(world), wanted("nowhere"), print)
    names = [
        [each["metadata"]["name"] for each in found]
        for found in (before, world.operator.list("replicatedtopics"))
    ]
    assert names[0] == names[1]


def test_logs_of_an_object_restored_with_another_uid_come_back(world: World) -> None:
    moved = Written(world, "moved")
    world.operator.stop()
    for broker in world.group.brokers:
        broker.kill()
    moved.delete()
    world.create("moved")
    world.group.start()
    world.operator.start()
    world.group.wait_full_isr("moved", PARTITIONS)
    wait_stray(world, moved.topic_id, in_trash=False)
    with pytest.raises(ConfigError, match="ReplicatedTopic moved exists: delete it"):
        undelete(kubernetes_of(world), wanted(moved.topic_id), print)
    restored = world.group.topic_id("moved")
    moved.delete()
    wait_stray(world, restored, in_trash=True)
    with pytest.raises(ConfigError, match="2 topics were called moved"):
        undelete(kubernetes_of(world), wanted("moved"), print)
    undelete(kubernetes_of(world), wanted(moved.topic_id), print)
    moved.is_whole()
    assert restored in strays(world)


def test_a_restored_object_that_names_its_topic_id_has_all_records(world: World) -> None:
    kept = Written(world, "kept")
    world.operator.stop()
    for broker in world.group.brokers:
        broker.kill()
    kept.delete()
    restored = objects.topic(
        world.group.namespace, "kept", partitions=PARTITIONS, topicId=kept.topic_id
    )
    world.group.control_plane.apply(restored)
    world.group.start()
    world.operator.start()
    kept.is_whole()
    assert world.group.topic_id("kept") != kept.topic_id
    status = world.group.get("replicatedtopics", "kept")["status"]
    assert status["topicId"] == kept.topic_id

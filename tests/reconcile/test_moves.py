"""Plans of a topic whose replication factor changed."""

from __future__ import annotations

from strandline_operator import kinds
from strandline_operator.actions import ApplyStatus, MovePartition
from tests.chart.cases import COMPLETE

from .samples import World, cluster, topic
from .test_plan import topic_plan


def test_another_replication_factor_moves_the_partitions_that_have_a_state() -> None:
    world = World(cluster(replicas=5), topic(replicationFactor=2))
    world.perform(topic_plan(world))
    for number in range(2):
        found = world.get(kinds.PARTITION, f"orders-{number}")
        held = found["spec"]["replicas"]
        status = {**COMPLETE["Partition"]["status"], "replicas": held, "leader": held[0]}
        status |= {"isr": held, "isrBrokerEpochs": [1, 1], "elr": [], "elrBrokerEpochs": []}
        status |= {"addingReplicas": [], "removingReplicas": []}
        world.put({**found, "status": status})
    world.perform(topic_plan(world))
    assert topic_plan(world) == []
    found = world.get(kinds.TOPIC, "orders")
    world.put({**found, "spec": {**found["spec"], "replicationFactor": 3}})
    plan = topic_plan(world)
    moves = [action for action in plan if isinstance(action, MovePartition)]
    for number, move in enumerate(moves):
        before = world.get(kinds.PARTITION, f"orders-{number}")
        wanted = move.body["spec"]["replicas"]
        assert (len(wanted), wanted[:2]) == (3, before["spec"]["replicas"])
        assert str(move) == f"move Partition orders-{number} from {wanted[:2]} to {wanted}"
        assert move.body["metadata"] == {"name": f"orders-{number}", "resourceVersion": "8"}
    assert len(moves) == 2, "the third one has no status: its first replicas are still to come"
    world.perform(plan)
    (told,) = topic_plan(world)
    assert isinstance(told, ApplyStatus)
    assert told.body["status"]["partitions"]["moving"] == 2


def test_a_person_may_move_a_partition_but_not_change_how_many_replicas_it_has() -> None:
    world = World(cluster(replicas=5), topic(replicationFactor=2))
    world.perform(topic_plan(world))
    found = world.get(kinds.PARTITION, "orders-0")
    first, second = held = found["spec"]["replicas"]
    others = [number for number in range(5) if number not in held]
    status = {**COMPLETE["Partition"]["status"], "replicas": held, "leader": first}
    status |= {"isr": held, "isrBrokerEpochs": [1, 1], "elr": [], "elrBrokerEpochs": []}
    status |= {"addingReplicas": [], "removingReplicas": []}

    def moves_after(*replicas: int) -> list[list[int]]:
        spec = {**found["spec"], "replicas": list(replicas)}
        world.put({**found, "spec": spec, "status": status})
        plan = topic_plan(world)
        return [each.body["spec"]["replicas"] for each in plan if isinstance(each, MovePartition)]

    for replicas in ((others[0], second), (second, first), tuple(others[:2])):
        assert moves_after(*replicas) == [], replicas
    assert [len(each) for each in moves_after(first, second, others[0])] == [2]
    assert [len(each) for each in moves_after(others[0])] == [2]


def test_a_replication_factor_that_no_cluster_has_moves_nothing() -> None:
    world = World(cluster(), topic())
    world.perform(topic_plan(world))
    found = world.get(kinds.TOPIC, "orders")
    world.put({**found, "spec": {**found["spec"], "replicationFactor": 4}})
    *others, status = topic_plan(world)
    assert isinstance(status, ApplyStatus)
    assert not [each for each in others if isinstance(each, MovePartition)]
    assert status.body["status"]["conditions"][0]["reason"] == "InvalidReplicationFactor"

"""Racks of brokers: what the operator writes, says, and makes of them when it places replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline_operator import kinds, racks
from strandline_operator.actions import Action, ApplyObject, PostEvent
from strandline_operator.plan import plan_cluster
from strandline_operator.plan_topics import RACKS_WAIT_MAX, plan_topic
from strandline_operator.scaling import scaling_step

from .samples import CONFIG, NOW, Manifest, World, cluster, pod, registered, topic
from .test_conditions import led
from .test_plan import cluster_plan
from .test_scaling import registered as ready
from .test_scaling import scale, whole

KEY = "topology.kubernetes.io/zone"
LABELS = {
    "a1": {KEY: "a", "other": "x"},
    "a2": {KEY: "a"},
    "b1": {KEY: "b", "other": "x"},
    "c1": {KEY: "c", "other": "y"},
    "d1": {KEY: "d"},
    "bare": {},
    "empty": {KEY: ""},
}
Labels = dict[str, dict[str, str]]


def world_of(*nodes: str | None, key: str = KEY, replicas: int = 3) -> World:
    """Return a cluster whose pods are on these nodes; "" is a pod without a node, None no pod."""
    spec = {"rack": {"topologyKey": key}} if key else {}
    pods = [pod(f"default-{n}", node=node) for n, node in enumerate(nodes) if node is not None]
    return World(cluster(replicas=replicas, **spec), *pods)


def settle(world: World, labels: Labels | None = LABELS) -> list[Action]:
    """Make passes until nothing is left to do; None if the operator may not list nodes."""
    performed: list[Action] = []
    for _ in range(6):
        found = world.cache.cluster("default")
        assert found is not None
        told = replace(found[1], node_labels=labels)
        if not (actions := plan_cluster(found[0], told, CONFIG, now=NOW)):
            return performed
        world.perform(actions)
        performed += actions
    raise AssertionError("plans without an end")


def written(world: World, count: int = 3) -> list[str]:
    """Return the racks in the Brokers, "" where there is none."""
    found = [world.get(kinds.BROKER, f"default-{n}")["spec"] for n in range(count)]
    return [str(each.get("rack", "")) for each in found]


def condition(world: World, kind: str = racks.RACKS_KNOWN) -> tuple[str, str, str]:
    """Return status, reason and message of a condition, empty texts without it."""
    found = world.get(kinds.CLUSTER, "default")["status"]["conditions"]
    each = next((each for each in found if each["type"] == kind), None)
    return (each["status"], each["reason"], each["message"]) if each else ("", "", "")


def events(actions: list[Action]) -> list[str]:
    """Return the reasons of the Events about racks."""
    told = {"LabelMissing", "NodesNotListed"}
    return [it.reason for it in actions if isinstance(it, PostEvent) and it.reason in told]


# --- what is written, and said ------------------------------------------------------------


def test_the_rack_of_a_broker_is_the_label_of_its_pods_node() -> None:
    world = world_of("a1", "b1", "c1")
    assert events(settle(world)) == []
    assert written(world) == ["a", "b", "c"]
    assert condition(world) == ("True", "AllRacksKnown", "brokers by rack: a [0], b [1], c [2]")


def test_without_a_key_brokers_have_no_rack_and_nothing_is_said_of_racks() -> None:
    world = world_of("a1", "b1", "c1", key="")
    settle(world)
    assert written(world) == ["", "", ""]
    assert condition(world) == ("", "", "")
    assert condition(world, "SpreadMet")[:2] == ("True", "OneBrokerPerNode")


def test_a_pod_on_a_node_of_another_rack_and_another_key_change_the_rack_and_no_pod() -> None:
    world = world_of("a1", "b1", "c1")
    settle(world)
    world.put(pod("default-1", node="a2"))
    moved = settle(world)
    assert written(world) == ["a", "a", "c"]
    world.put(cluster(rack={"topologyKey": "other"}))
    moved += settle(world)
    assert written(world) == ["x", "", "y"]
    world.put(cluster())
    moved += settle(world)
    assert written(world) == ["", "", ""]
    applied = {each.body["kind"] for each in moved if isinstance(each, ApplyObject)}
    assert applied == {"Broker"}, "nothing else changes, so no broker starts again"


def test_while_a_pod_has_no_node_or_one_that_is_not_listed_the_rack_stays() -> None:
    world = world_of("a1", "b1", "c1")
    settle(world)
    world.put(pod("default-0"))
    world.put(pod("default-1", node="gone"))
    world.remove(kinds.POD, "default-2")
    settle(world)
    assert written(world) == ["a", "b", "c"]
    assert condition(world)[:2] == ("True", "AllRacksKnown")


@pytest.mark.parametrize("node", ["bare", "empty"])
def test_a_node_without_the_label_is_named_once_in_an_event_and_gives_no_rack(node: str) -> None:
    world = world_of("a1", node, "c1")
    assert events(settle(world)) == ["LabelMissing"]
    assert written(world) == ["a", "", "c"]
    status, reason, message = condition(world)
    assert (status, reason) == ("False", "LabelMissing")
    assert "brokers [1] have no rack" in message
    assert message.endswith(f"nodes without the label {KEY}: {node}")
    world.put(pod("default-1", node="b1"))
    assert events(settle(world)) == []
    assert condition(world)[:2] == ("True", "AllRacksKnown")


def test_an_operator_that_may_not_list_nodes_says_so_once() -> None:
    world = world_of("a1", "b1", "c1")
    settle(world)
    assert events(settle(world, None)) == ["NodesNotListed"]
    assert written(world) == ["", "", ""]
    assert condition(world)[:2] == ("False", "NodesNotListed")
    assert settle(world, None) == []


def test_pods_without_a_node_are_waited_for_without_an_event() -> None:
    world = world_of("a1", "", None)
    assert events(settle(world)) == []
    assert written(world) == ["a", "", ""]
    status, reason, message = condition(world)
    assert (status, reason) == ("Unknown", "WaitingForNodes")
    assert message.startswith("pods of brokers [1, 2] have no node yet")


# --- placement ----------------------------------------------------------------------------


def planned(world: World, labels: Labels | None = LABELS, *, now: str = NOW) -> list[Action]:
    """Return what a topic's pass does, as `reconcile` makes it."""
    brokers, found = world.cache.cluster("default"), world.cache.topic("orders")
    assert brokers is not None
    assert found is not None
    seen = racks.racks_of(brokers[0], replace(brokers[1], node_labels=labels))
    return plan_topic(found[0], replace(found[1], racks=seen), CONFIG, now=now)


def placed(world: World, labels: Labels | None = LABELS) -> list[list[int]]:
    """Create the Partitions of topic orders and return their replicas."""
    world.perform(planned(world, labels))
    names = world.names(kinds.PARTITION, "orders-")
    return [world.get(kinds.PARTITION, name)["spec"]["replicas"] for name in names]


SIX = ("a1", "a2", "b1", "b1", "c1", "c1")


def test_replicas_of_a_new_topic_lie_in_different_racks() -> None:
    world = world_of(*SIX, replicas=6)
    settle(world)
    world.put(topic(partitions=12, replicationFactor=3))
    found = placed(world)
    assert len(found) == 12
    for replicas in found:
        assert {LABELS[SIX[each]][KEY] for each in replicas} == {"a", "b", "c"}


def test_racks_are_ignored_while_a_broker_has_none() -> None:
    def places(*nodes: str, key: str = KEY) -> list[list[int]]:
        world = world_of(*nodes, replicas=6, key=key)
        settle(world)
        world.put(topic(partitions=12, replicationFactor=3))
        return placed(world)

    assert places(*SIX[:5], "bare") == places(*SIX, key="") != places(*SIX)


def test_a_replica_that_is_added_goes_to_another_rack_and_one_that_shares_a_rack_goes() -> None:
    world = world_of(*SIX, replicas=6)
    settle(world)
    world.put(topic(partitions=1, replicationFactor=3, status={"partitionsInitialised": 1}))
    for replicas, factor, expected in (([1, 3], 3, {"a", "b", "c"}), ([0, 1, 4], 2, {"a", "c"})):
        each = led(0, isr=replicas, leader=replicas[0])
        each["spec"]["replicas"] = each["status"]["replicas"] = replicas
        world.put(each)
        world.put(
            topic(partitions=1, replicationFactor=factor, status={"partitionsInitialised": 1})
        )
        world.perform(planned(world))
        after = world.get(kinds.PARTITION, "orders-0")["spec"]["replicas"]
        assert len(after) == factor
        assert {LABELS[SIX[one]][KEY] for one in after} == expected


def reason_of(world: World) -> str:
    found = world.get(kinds.TOPIC, "orders")["status"]["conditions"]
    return next(str(each["reason"]) for each in found if each["type"] == "Ready")


def young() -> Manifest:
    whole = topic(partitions=1)
    whole["metadata"]["creationTimestamp"] = NOW
    return whole


def test_a_topic_that_is_made_with_its_cluster_waits_for_the_racks_of_its_brokers() -> None:
    world = world_of("a1", "", None)
    settle(world)
    world.put(young())
    assert placed(world) == []
    assert reason_of(world) == "WaitingForRacks"
    for number, node in ((1, "b1"), (2, "c1")):
        world.put(pod(f"default-{number}", node=node))
    assert len(placed(world)) == 1


@pytest.mark.parametrize(
    ("nodes", "key", "labels"),
    [
        (("a1", "b1", "bare"), KEY, LABELS),
        (("a1", "", None), "", LABELS),
        (("a1", "", None), KEY, None),
    ],
    ids=["a node without the label", "no key", "no right to list nodes"],
)
def test_a_topic_waits_for_no_rack_that_will_not_come(
    nodes: tuple[str | None, ...], key: str, labels: Labels | None
) -> None:
    world = world_of(*nodes, key=key)
    settle(world, labels)
    world.put(young())
    assert len(placed(world, labels)) == 1


def test_a_topic_waits_a_minute_and_not_for_brokers_that_were_up() -> None:
    world = world_of("a1", "", None)
    settle(world)
    world.put(young())
    late = f"2026-01-02T03:0{4 + RACKS_WAIT_MAX.seconds // 60}:05Z"
    assert RACKS_WAIT_MAX.seconds == 60
    assert not any("create" in str(each) for each in planned(world))
    assert any("create" in str(each) for each in planned(world, now=late))
    for number in (1, 2):
        world.put(registered(world, number))
    assert len(placed(world)) == 1


# --- brokers that come and go -------------------------------------------------------------


def moved(world: World, *nodes: str) -> dict[tuple[int, ...], set[str]]:
    """Put the brokers on these nodes; return the racks of what scaling moves, by former brokers."""
    found = world.get(kinds.CLUSTER, "default")
    world.put({**found, "spec": {**found["spec"], "rack": {"topologyKey": KEY}}})
    for number, node in enumerate(nodes):
        world.put(pod(f"default-{number}", node=node))
    seen = world.cache.cluster("default")
    assert seen is not None
    step = scaling_step(seen[0], replace(seen[1], node_labels=LABELS))
    return {
        each.former: {LABELS[nodes[one]][KEY] for one in each.body["spec"]["replicas"]}
        for each in step.moves
    }


def test_a_new_broker_takes_only_replicas_that_stay_in_different_racks() -> None:
    world = whole(3, 3)
    scale(world, 4)
    for _ in range(2):
        world.perform(cluster_plan(world))
    ready(world, 4)
    found = moved(world, "a1", "b1", "c1", "a2")
    assert found
    assert all(racks_ == {"a", "b", "c"} for racks_ in found.values())


@pytest.mark.parametrize(
    "nodes",
    [
        ("a1", "b1", "b1", "b1", "b1", "c1"),
        ("b1", "a1", "b1", "b1", "b1", "c1"),
        ("b1", "b1", "a1", "b1", "b1", "c1"),
    ],
)
def test_a_broker_that_goes_gives_its_replicas_to_other_racks(nodes: tuple[str, ...]) -> None:
    world = whole(6)
    scale(world, 5)
    found = moved(world, *nodes)
    assert found
    for former, racks_ in found.items():
        stays = {LABELS[nodes[each]][KEY] for each in former if each != 5}
        assert racks_ > stays


# --- the spread ---------------------------------------------------------------------------


def spread(*nodes: str, replicas: list[int], adding: tuple[int, ...] = ()) -> tuple[str, str, str]:
    """Return the condition SpreadMet with one partition that has these replicas."""
    world = world_of(*nodes, replicas=len(nodes))
    orders = topic(partitions=1, status={"partitionsInitialised": 1})
    each = led(0, isr=replicas, leader=replicas[0], adding=adding)
    each["spec"]["replicas"] = each["status"]["replicas"] = replicas
    world.put(orders)
    world.put(each)
    settle(world)
    return condition(world, "SpreadMet")


def test_replicas_that_share_a_rack_although_others_have_none_are_told() -> None:
    status, reason, message = spread("a1", "a2", "b1", "c1", replicas=[0, 1, 2])
    assert (status, reason) == ("False", "RackShared")
    assert "orders-0" in message


@pytest.mark.parametrize(
    ("nodes", "replicas", "adding"),
    [
        (("a1", "a2", "b1", "c1"), [0, 2, 3], ()),
        (("a1", "a2", "b1"), [0, 1, 2], ()),
        (("a1", "a2", "bare", "c1"), [0, 1, 3], ()),
        (("a1", "a2", "b1", "c1", "d1"), [0, 2, 3, 1], (1,)),
    ],
    ids=["apart", "no more racks", "a rack is unknown", "during a move"],
)
def test_the_spread_is_met_where_replicas_are_in_as_many_racks_as_there_are(
    nodes: tuple[str, ...], replicas: list[int], adding: tuple[int, ...]
) -> None:
    assert spread(*nodes, replicas=replicas, adding=adding)[:2] == ("True", "OneBrokerPerNode")


def test_a_shared_node_is_told_before_a_shared_rack() -> None:
    assert spread("a1", "a1", "b1", "c1", replicas=[0, 1, 2])[:2] == ("False", "NodeShared")

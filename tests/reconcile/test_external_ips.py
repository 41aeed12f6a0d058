"""Behind a NodePort brokers get the ExternalIP of their nodes outside, if the listener asks so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline_operator import external, kinds
from strandline_operator.nodes import external_ip
from strandline_operator.plan import plan_cluster

from .samples import CONFIG, NODE_PORT, NOW, Manifest, World, cluster, made, pod, registered

LISTENER = {"type": "NodePort", "nodeAddress": "ExternalIP"}
IPS = {"a": "192.0.2.1", "b": "192.0.2.2", "c": "", "d": "2001:db8::4", "gone": ""}


def world_of(*nodes: str, **listener: Any) -> World:
    """Return a cluster whose pods are on these nodes; "" is a pod that no node has yet."""
    pods = [pod(f"default-{number}", node=node) for number, node in enumerate(nodes)]
    return World(cluster(externalListener={**LISTENER, **listener}), *pods)


def settle(world: World, ips: dict[str, str] | None) -> None:
    """Make passes until nothing is left to do; None if the operator may not list nodes."""
    for _ in range(6):
        found = world.cache.cluster("default")
        assert found is not None
        told = replace(found[1], external_ips=ips)
        if not (actions := plan_cluster(found[0], told, CONFIG, now=NOW)):
            return
        world.perform(actions)
    raise AssertionError("plans without an end")


def hosts(world: World) -> list[str]:
    """Return the hosts of three brokers, "" where the broker takes the InternalIP."""
    wanted = [world.get(kinds.BROKER, f"default-{n}")["spec"]["external"] for n in range(3)]
    assert {each["port"] for each in wanted} == {NODE_PORT}
    return [str(each.get("host", "")) for each in wanted]


def register(world: World, *addresses: str) -> None:
    """Let brokers advertise these hosts outside."""
    for number, host in enumerate(addresses):
        listeners = [
            {"name": "INTERNAL", "host": "h", "port": 1},
            {"name": "EXTERNAL", "host": host, "port": NODE_PORT},
        ]
        world.put(registered(world, number, listeners=listeners))


def told(world: World) -> tuple[str, str, list[str]]:
    """Return reason and message of the condition, and the addresses for the first contact."""
    status = world.get(kinds.CLUSTER, "default")["status"]
    (found,) = (each for each in status["conditions"] if each["type"] == "ExternalListener")
    return found["reason"], found["message"], status["externalListener"]["bootstrapServers"]


def test_brokers_advertise_the_external_ips_of_their_nodes_and_follow_their_pods() -> None:
    world = world_of("a", "b", "d")
    settle(world, IPS)
    assert hosts(world) == ["192.0.2.1", "192.0.2.2", "2001:db8::4"]
    register(world, *hosts(world))
    settle(world, IPS)
    first = [f"192.0.2.1:{NODE_PORT}", f"192.0.2.2:{NODE_PORT}", f"[2001:db8::4]:{NODE_PORT}"]
    message = "all 3 brokers are advertised outside"
    assert told(world) == ("AllBrokersAdvertised", message, first)
    world.put(pod("default-0", node="d"))
    settle(world, IPS)
    assert hosts(world) == ["2001:db8::4", "192.0.2.2", "2001:db8::4"]
    assert told(world)[0] == "WaitingForBrokers"


def test_without_an_external_ip_the_broker_advertises_its_internal_ip_and_that_is_told() -> None:
    world = world_of("a", "c", "gone")
    settle(world, IPS)
    assert hosts(world) == ["192.0.2.1", "", ""]
    register(world, "192.0.2.1", "10.0.0.2", "10.0.0.3")
    settle(world, IPS)
    reason, message, first = told(world)
    assert reason == "AllBrokersAdvertised"
    assert message.endswith(
        "brokers [1, 2] by the InternalIP of their nodes: their nodes have no ExternalIP"
    )
    assert first == [f"10.0.0.2:{NODE_PORT}", f"10.0.0.3:{NODE_PORT}", f"192.0.2.1:{NODE_PORT}"]


def test_an_operator_that_may_not_list_nodes_says_so() -> None:
    world = world_of("a", "b", "d")
    settle(world, None)
    assert hosts(world) == ["", "", ""]
    register(world, "10.0.0.1", "10.0.0.2", "10.0.0.3")
    settle(world, None)
    assert told(world)[1].endswith("nodes: the operator may not list nodes")


def test_while_a_pod_has_no_node_its_broker_keeps_its_address() -> None:
    world = world_of("a", "b", "")
    settle(world, IPS)
    assert hosts(world) == ["192.0.2.1", "192.0.2.2", ""]
    world.remove(kinds.POD, "default-0")
    world.put(pod("default-1"))
    settle(world, IPS)
    assert hosts(world) == ["192.0.2.1", "192.0.2.2", ""]


def test_a_node_that_is_not_listed_yet_changes_nothing() -> None:
    world = world_of("a", "b", "c")
    settle(world, IPS)
    for number in range(3):
        world.put(pod(f"default-{number}", node="new"))
    settle(world, IPS)
    assert hosts(world) == ["192.0.2.1", "192.0.2.2", ""]
    settle(world, {**IPS, "new": "192.0.2.9"})
    assert hosts(world) == ["192.0.2.9"] * 3


def test_a_chosen_host_comes_first() -> None:
    chosen = [{"broker": 1, "advertisedHost": "b.example.com"}]
    world = world_of("a", "b", "d", brokers=chosen)
    settle(world, IPS)
    assert hosts(world) == ["192.0.2.1", "b.example.com", "2001:db8::4"]
    world = world_of("a", "b", "d", brokers=chosen, advertisedHost="n{broker}")
    settle(world, IPS)
    assert hosts(world) == ["n0", "b.example.com", "n2"]


@pytest.mark.parametrize(
    ("listener", "expected"),
    [
        (None, None),
        ({"type": "NodePort"}, None),
        ({"type": "NodePort", "nodeAddress": "InternalIP"}, None),
        ({"type": "LoadBalancer", "nodeAddress": "ExternalIP"}, None),
        (LISTENER, {"a", "b"}),
    ],
)
def test_nodes_are_asked_for_only_where_the_listener_says_so(
    listener: Manifest | None, expected: set[str] | None
) -> None:
    spec = {"externalListener": listener} if listener else {}
    pods = [pod("default-0", node="a"), pod("default-1", node="b"), pod("default-2")]
    found = World(cluster(**spec), *pods).cache.cluster("default")
    assert found is not None
    assert external.nodes_asked_for(*found) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ""),
        ({"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}, ""),
        (
            {
                "addresses": [
                    {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "ExternalIP", "address": "192.0.2.1"},
                    {"type": "ExternalIP", "address": "2001:db8::1"},
                ]
            },
            "192.0.2.1",
        ),
    ],
)
def test_a_nodes_first_external_ip_counts(status: Manifest, expected: str) -> None:
    assert external_ip({**made(kinds.NODE, "a"), "status": status}) == expected

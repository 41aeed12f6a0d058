"""The listener for clients outside: its Services, what brokers shall advertise, what is told."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_operator import kinds
from strandline_operator.actions import Action, RemoveServices
from strandline_operator.plan import plan_cluster

from .samples import CONFIG, NODE_PORT, NOW, Manifest, World, cluster, made

NODE_PORTS = {"type": "NodePort", "bootstrap": {"nodePort": 30_092}}
LOAD_BALANCERS = {"type": "LoadBalancer"}


def plan(world: World) -> list[Action]:
    found = world.cache.cluster("default")
    assert found is not None
    return plan_cluster(*found, CONFIG, now=NOW)


def settled(**listener: Any) -> World:
    """Return the objects of a cluster with this external listener, after all its plans."""
    world = World(cluster(externalListener=listener) if listener else cluster())
    settle(world)
    return world


def settle(world: World) -> None:
    for _ in range(5):
        if not (actions := plan(world)):
            return
        world.perform(actions)
    raise AssertionError("plans without an end")


def wanted(world: World) -> list[Manifest | None]:
    """Return what the three Brokers shall advertise."""
    return [world.get(kinds.BROKER, f"default-{n}")["spec"].get("external") for n in range(3)]


def told(world: World) -> tuple[str, list[str]]:
    """Return the reason of the condition and the addresses for the first contact."""
    status = world.get(kinds.CLUSTER, "default")["status"]
    (found,) = (each for each in status["conditions"] if each["type"] == "ExternalListener")
    assert (found["status"] == "True") is (found["reason"] == "AllBrokersAdvertised")
    return found["reason"], status["externalListener"]["bootstrapServers"]


def give_ingress(world: World, name: str, **ingress: str) -> None:
    service = world.get(kinds.SERVICE, name)
    world.put({**service, "status": {"loadBalancer": {"ingress": [ingress]}}})


def register(world: World, broker: int, **external: Any) -> None:
    """Let a broker say what it advertises outside."""
    listeners = [{"name": "INTERNAL", "host": "10.0.0.1", "port": 9092}]
    listeners += [{"name": "EXTERNAL", **external}] if external else []
    status = {
        "brokerEpoch": 1,
        "cleanSinceEpoch": 1,
        "incarnation": "uid/nonce",
        "listeners": listeners,
        "logDirId": "dir",
        "protocolVersion": 1,
    }
    world.put({**world.get(kinds.BROKER, f"default-{broker}"), "status": status})


def test_without_a_listener_nothing_of_it_is_made_or_told() -> None:
    world = settled()
    assert not world.names(kinds.SERVICE, "default-external")
    assert wanted(world) == [None, None, None]
    status = world.get(kinds.CLUSTER, "default")["status"]
    assert "externalListener" not in status
    assert "ExternalListener" not in [each["type"] for each in status["conditions"]]


@pytest.mark.parametrize("listener", [NODE_PORTS, LOAD_BALANCERS])
def test_a_service_leads_to_each_broker_and_one_to_all(listener: Manifest) -> None:
    world = settled(**listener)
    pods = {"app.kubernetes.io/component": "broker", "strandline.dev/cluster": "default"}
    first = world.get(kinds.SERVICE, "default-external")["spec"]
    assert first["selector"] == pods
    assert first["type"] == listener["type"]
    for broker in range(3):
        spec = world.get(kinds.SERVICE, f"default-external-{broker}")["spec"]
        name = {"statefulset.kubernetes.io/pod-name": f"default-{broker}"}
        assert spec["selector"] == {**pods, **name}
        (port,) = spec["ports"]
        assert (port["port"], port["targetPort"]) == (9094, 9094)


def test_behind_node_ports_brokers_advertise_their_nodes_unless_a_host_is_chosen() -> None:
    chosen = [
        {"broker": 0, "nodePort": 30_093},
        {"broker": 1, "advertisedHost": "b.example.com", "advertisedPort": 443},
    ]
    world = settled(**NODE_PORTS, brokers=chosen)
    assert wanted(world) == [
        {"port": 30_093},
        {"host": "b.example.com", "port": 443},
        {"port": NODE_PORT},
    ]
    world = settled(**NODE_PORTS, brokers=chosen, advertisedHost="n{broker}.example.com")
    assert wanted(world) == [
        {"host": "n0.example.com", "port": 30_093},
        {"host": "b.example.com", "port": 443},
        {"host": "n2.example.com", "port": NODE_PORT},
    ]


def test_behind_load_balancers_a_broker_is_advertised_once_its_service_has_an_address() -> None:
    world = settled(**LOAD_BALANCERS)
    assert wanted(world) == [None, None, None]
    assert told(world) == ("WaitingForServices", [])
    give_ingress(world, "default-external-1", ip="192.0.2.1")
    give_ingress(world, "default-external-2", hostname="lb.example.com")
    give_ingress(world, "default-external", ip="2001:db8::1")
    settle(world)
    assert wanted(world) == [
        None,
        {"host": "192.0.2.1", "port": 9094},
        {"host": "lb.example.com", "port": 9094},
    ]
    assert told(world) == ("WaitingForServices", ["[2001:db8::1]:9094"])
    status = world.get(kinds.CLUSTER, "default")["status"]
    (found,) = (each for each in status["conditions"] if each["type"] == "ExternalListener")
    assert "default-external-0;" in found["message"]
    assert "default-external-1" not in found["message"]


def test_an_address_that_a_service_lost_is_taken_back() -> None:
    world = settled(**LOAD_BALANCERS)
    give_ingress(world, "default-external-1", ip="192.0.2.1")
    settle(world)
    service = world.get(kinds.SERVICE, "default-external-1")
    world.put({**service, "status": {"loadBalancer": {}}})
    settle(world)
    assert wanted(world) == [None, None, None]


def test_the_status_follows_what_brokers_advertise() -> None:
    world = settled(**NODE_PORTS)
    assert told(world) == ("WaitingForBrokers", [])
    for broker in range(3):
        register(world, broker, host=f"192.0.2.{broker % 2}", port=NODE_PORT)
    settle(world)
    assert told(world) == ("AllBrokersAdvertised", ["192.0.2.0:30092", "192.0.2.1:30092"])
    register(world, 1, host="192.0.2.1", port=1)
    settle(world)
    assert told(world)[0] == "WaitingForBrokers"


@pytest.mark.parametrize(
    ("listener", "expected"),
    [
        ({"advertisedHost": "127.0.0.1"}, ["127.0.0.1:30092"]),
        ({"advertisedHost": "n{broker}"}, []),
        ({"bootstrap": {"advertisedHost": "first", "advertisedPort": 5}}, ["first:5"]),
        (
            {"type": "LoadBalancer", "bootstrap": {"advertisedHost": "first"}},
            ["first:9094"],
        ),
    ],
)
def test_the_first_contact_is_what_was_chosen(listener: Manifest, expected: list[str]) -> None:
    assert told(settled(**{**NODE_PORTS, **listener}))[1] == expected


def test_what_a_changed_or_removed_listener_leaves_goes() -> None:
    world = settled(**NODE_PORTS)
    world.put({**world.get(kinds.CLUSTER, "default"), "spec": cluster()["spec"]})
    other = made(kinds.SERVICE, "default-external-mine", {"ports": []})
    world.put(other)
    settle(world)
    assert world.names(kinds.SERVICE, "default-external") == ["default-external-mine"]
    assert wanted(world) == [None, None, None]
    assert "externalListener" not in world.get(kinds.CLUSTER, "default")["status"]


def test_a_service_that_has_the_port_of_another_goes_first() -> None:
    """The API server gives out a port of the nodes once, and a refusal ends the pass."""
    world = settled(**NODE_PORTS, brokers=[{"broker": 2, "nodePort": 30_093}])
    brokers = [{"broker": 0, "nodePort": 30_093}]
    world.put({**cluster(externalListener={**NODE_PORTS, "brokers": brokers})})
    planned = [str(action) for action in plan(world) if "Service" in str(action)]
    assert planned[0] == f"remove Services {['default-external-2']} of the external listener"
    assert planned[1].startswith("apply Service default-external-0")
    settle(world)
    assert wanted(world) == [{"port": 30_093}, {"port": NODE_PORT}, {"port": NODE_PORT}]


def test_a_load_balancer_is_not_given_up_for_its_port() -> None:
    """It would get another address: the API server's refusal tells who wants what."""
    world = settled(**LOAD_BALANCERS, brokers=[{"broker": 2, "nodePort": 30_093}])
    brokers = [{"broker": 0, "nodePort": 30_093}]
    world.put({**cluster(externalListener={**LOAD_BALANCERS, "brokers": brokers})})
    assert not any(isinstance(action, RemoveServices) for action in plan(world))


def test_a_service_of_somebody_else_is_not_touched() -> None:
    world = World(
        cluster(externalListener=NODE_PORTS), made(kinds.SERVICE, "default-external-1", {})
    )
    world.perform(plan(world))
    status = world.get(kinds.CLUSTER, "default")["status"]
    assert status["conditions"][0]["reason"] == "NameTaken"
    assert world.names(kinds.SERVICE, "default-external") == ["default-external-1"]

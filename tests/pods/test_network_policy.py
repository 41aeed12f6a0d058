"""The chart's NetworkPolicies, enforced on the pods of two releases side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strandline_cli.kubectl import Kubernetes
from strandline_cli.release import BROKERS
from strandline_cli.under_load import kill_broker
from strandline_operator.resources import PORTS
from tests.support.cluster import Cluster
from tests.support.installed import Installed, release_of

pytestmark = pytest.mark.pods

CONNECT = """
import asyncio, sys

async def is_open(place):
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(*place.split(":")), 5)
    except TimeoutError:
        return False
    writer.close()
    return True

async def main(places):
    for place, found in zip(places, await asyncio.gather(*map(is_open, places))):
        print(place, "open" if found else "closed")

asyncio.run(main(sys.argv[1:]))
"""
"""Prints of each address:port whether it takes a connection."""


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Installed]:
    """Provide a release."""
    with release_of(cluster, "policies") as made:
        yield made


@pytest.fixture
def other(cluster: Cluster) -> Iterator[Installed]:
    """Provide a release of the same name, whose operator has another namespace than its brokers."""
    with release_of(cluster, "beside", apart=True) as made:
        yield made


EVERYTHING = {(broker, name) for broker in range(BROKERS) for name in PORTS}
FOR_CLIENTS = {(broker, name) for broker, name in EVERYTHING if name != "grpc"}


def open_ports(
    kubernetes: Kubernetes, pod: str, *, brokers_of: Kubernetes | None = None
) -> set[tuple[int, str]]:
    """Return broker and name of the ports to which a pod can connect, of its own namespace."""
    places = {}
    for broker in range(BROKERS):
        found = (brokers_of or kubernetes).get("pod", f"default-{broker}")
        address = found["status"]["podIP"]
        places.update({f"{address}:{port}": (broker, name) for name, port in PORTS.items()})
    said = kubernetes.exec(pod, "python3", "-c", CONNECT, *places).splitlines()
    assert len(said) == len(places)
    return {places[line.split()[0]] for line in said if line.endswith(" open")}


def test_only_brokers_and_the_operator_reach_the_grpc_port(
    installed: Installed, cluster: Cluster
) -> None:
    kubernetes, client = installed.kubernetes, "load-guarded"
    with installed.under_load("guarded") as run:
        friends = (installed.operator_pods()[0], "default-0")
        assert open_ports(kubernetes, client) == EVERYTHING
        with cluster.policies():
            assert open_ports(kubernetes, client) == FOR_CLIENTS
            for pod in friends:
                assert open_ports(kubernetes, pod) == EVERYTHING
            # Connections that were open went on; a killed broker needs new ones.
            run.short_fault("kill a broker", lambda: kill_broker(kubernetes, 1))
            assert open_ports(kubernetes, client) == FOR_CLIENTS
        run.judged()


@pytest.mark.long
def test_two_releases_stand_side_by_side_and_each_operator_reaches_the_brokers_that_it_watches(
    installed: Installed, other: Installed, cluster: Cluster
) -> None:
    assert other.home.namespace != other.kubernetes.namespace
    releases = (installed, other)
    with installed.under_load("one") as one, other.under_load("two") as two:
        pods = two.view.seen().pods
        with cluster.policies():
            for watching in releases:
                (operator,) = watching.operator_pods()
                for watched in releases:
                    reached = open_ports(watching.home, operator, brokers_of=watched.kubernetes)
                    assert reached == (EVERYTHING if watched is watching else FOR_CLIENTS)
            one.short_fault("kill a broker", lambda: kill_broker(installed.kubernetes, 1))
        assert two.view.seen().pods == pods
        two.short_fault("kill a broker", lambda: kill_broker(other.kubernetes, 2))
        one.judged()
        two.judged()

"""A broker that does not reach the API server, while its peers do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support import strandline_objects as objects
from tests.support.broker_group import FAULT_LIMIT_MS, BrokerGroup
from tests.support.clients import SentRecords, producer_of
from tests.support.control_plane import ControlPlane
from tests.support.load import acked_history, judge_settled
from tests.support.tcp_proxy import TcpProxy, proxied

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


@pytest.fixture
def behind_proxies(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[tuple[BrokerGroup, list[TcpProxy]]]:
    """Provide three running brokers, each with a proxy of its own before the API server."""
    account = objects.broker_account(control_plane, namespace)
    with ExitStack() as stack:
        group = BrokerGroup(tmp_path, control_plane, namespace)
        proxies = []
        for broker in group.brokers:
            proxy, kubeconfig = stack.enter_context(proxied(account, broker.folder))
            broker.use_kubeconfig(kubeconfig)
            proxies.append(proxy)
        stack.callback(group.stop)
        group.start()
        yield group, proxies
    for broker in group.brokers:
        broker.check_log()


def test_leader_cut_from_the_api_server_shrinks_its_isr_through_a_controller_it_cannot_look_up(
    behind_proxies: tuple[BrokerGroup, list[TcpProxy]],
) -> None:
    group, proxies = behind_proxies
    controller = group.controller()
    leader, third = (broker for broker in range(3) if broker != controller)
    group.create_topic("orders", assignments=[[leader, controller, third]])
    group.wait_full_isr("orders")
    acked = SentRecords(producer_of(group.bootstrap()), "orders")
    acked.send(50)
    acked.settle()

    proxies[leader].cut()
    group.brokers[controller].kill()
    assert group.wait_controller(other_than=controller) == third
    # The dead member of the ISR leaves while the cut lasts: otherwise nothing is acknowledged.
    begun = time.monotonic()
    acked.send(50)
    acked.settle()
    assert (time.monotonic() - begun) * 1000 < FAULT_LIMIT_MS
    status = group.partition("orders")
    assert (status["leader"], sorted(status["isr"])) == (leader, sorted([leader, third]))

    proxies[leader].restore()
    group.start()
    group.wait_full_isr("orders")
    judge_settled(group, "orders", 1, acked_history(acked.offsets, {}))

"""Fixtures of the process tests: groups of brokers that run under the chart's ServiceAccount."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import strandline_objects as objects
from tests.support.broker_group import BrokerGroup
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import namespace_name

MakeGroup = Callable[..., BrokerGroup]
MAIN_ENTRY = "strandline.runtime.main"
WATCHED_ENTRY = "tests.support.loop_disk_calls"
"""The same broker, which notes each disk call of its event loop."""


@pytest.fixture(scope="module")
def shared_group(
    control_plane: ControlPlane,
    crds: None,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[BrokerGroup]:
    """Provide one group of three brokers for all tests of a module."""
    name = namespace_name(Path(str(request.node.path)).stem)
    control_plane.kubectl("create", "namespace", name)
    kubeconfig = objects.broker_account(control_plane, name)
    folder = tmp_path_factory.mktemp("group")
    made = BrokerGroup(folder, control_plane, name, kubeconfig=kubeconfig)
    yield made
    made.stop()
    for broker in made.brokers:
        broker.check_log()
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def group(shared_group: BrokerGroup) -> BrokerGroup:
    """Provide the module's group with all its brokers running; tests use topics of their own."""
    for broker in shared_group.brokers:
        broker.thaw()
    shared_group.start()
    return shared_group


@pytest.fixture
def make_group(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[MakeGroup]:
    """Provide a maker of broker groups; their processes are ended after the test."""
    made: list[BrokerGroup] = []
    kubeconfig = objects.broker_account(control_plane, namespace)

    def make(
        *,
        brokers: int = 3,
        watched: bool = False,
        address: str = "127.0.0.1",
        **settings: object,
    ) -> BrokerGroup:
        group = BrokerGroup(
            tmp_path,
            control_plane,
            namespace,
            brokers=brokers,
            kubeconfig=kubeconfig,
            settings=dict(settings),
            entry=WATCHED_ENTRY if watched else MAIN_ENTRY,
            address=address,
        )
        made.append(group)
        group.start()
        return group

    yield make
    for group in made:
        group.stop()

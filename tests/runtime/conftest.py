"""Fixtures of the broker process tests: a namespace with the objects that the operator makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import strandline_objects as objects
from tests.support.broker_process import BrokerProgram
from tests.support.control_plane import ControlPlane

MakeBroker = Callable[..., BrokerProgram]


@pytest.fixture
def prepared(control_plane: ControlPlane, crds: None, namespace: str) -> str:
    """Provide a namespace with a BrokerCluster, Broker 0 and the controller Lease."""
    control_plane.apply(
        [
            objects.cluster(namespace),
            objects.broker(namespace, 0),
            objects.controller_lease(namespace),
        ]
    )
    return namespace


@pytest.fixture
def make_broker(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> Iterator[MakeBroker]:
    """Provide a maker of broker programs under the chart's Role; end them after the test."""
    made: list[BrokerProgram] = []
    kubeconfig = objects.broker_account(control_plane, namespace)

    def make(folder: str = "broker", **settings: object) -> BrokerProgram:
        program = BrokerProgram(
            tmp_path / folder,
            kubeconfig=kubeconfig,
            namespace=namespace,
            cluster=objects.CLUSTER,
            settings=settings,
        )
        made.append(program)
        return program

    yield make
    for program in made:
        program.clean_up()

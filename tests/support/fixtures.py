"""Fixtures over real API servers and Prometheus; loaded by tests/conftest.py as a plugin."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import WORKERS, WORKERS_FOR_FIVE, Cluster
from tests.support.control_plane import ControlPlane
from tests.support.nodes import Nodes
from tests.support.prometheus_program import PrometheusProgram, prepared_programs
from tests.support.strandline_objects import install_crds

NAME_LENGTH_MAX = 40
"""Leaves room for a random part: the name of a namespace has at most 63 characters."""
PODS_TIMEOUT_SECONDS = 2400
"""Bound of a test on a cluster; the first one also starts it and builds all images."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests on a cluster the time that its start needs, unless they set their own."""
    for item in items:
        if item.get_closest_marker("pods") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PODS_TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Provide a control plane without nodes, the same for the whole session."""
    plane = ControlPlane.start(tmp_path_factory.mktemp("control-plane") / "state")
    yield plane
    plane.stop()


@pytest.fixture(scope="session")
def crds(control_plane: ControlPlane) -> None:
    """Install the CRDs once."""
    install_crds(control_plane)


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """Provide a fresh namespace of the control plane, deleted after the test."""
    name = namespace_name(request.node.name)
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def nodes(control_plane: ControlPlane, namespace: str) -> Iterator[Nodes]:
    """Provide nodes that go with the test."""
    made = Nodes(control_plane, namespace)
    yield made
    made.remove()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Provide a cluster with nodes, the same for the whole session; left up if it was up."""
    is_long = request.config.getoption("tier") == "long"
    cluster = Cluster.running_or_started(WORKERS_FOR_FIVE if is_long else WORKERS)
    yield cluster
    cluster.release()


@pytest.fixture
def pods_namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """Provide a fresh namespace of the cluster that takes only restricted pods."""
    name = namespace_name(request.node.name)
    cluster.create_restricted_namespace(name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


def namespace_name(title: str) -> str:
    """Return a unique name that shows the title of the test."""
    readable = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:NAME_LENGTH_MAX].strip("-")
    return f"{readable}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def prometheus_programs() -> Path:
    """Provide the folder of prometheus and promtool."""
    return prepared_programs()


@pytest.fixture
def prometheus(prometheus_programs: Path, tmp_path: Path) -> Iterator[PrometheusProgram]:
    """Provide a Prometheus that a test prepares and starts; ended after the test."""
    program = PrometheusProgram(prometheus_programs, tmp_path / "prometheus")
    yield program
    try:
        program.stop()
    except subprocess.TimeoutExpired:
        program.kill()

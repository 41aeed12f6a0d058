"""An operator whose definitions are missing or older than itself: it waits, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline_operator.definitions import CURE
from tests.chart import rendered
from tests.reconcile.conftest import OperatorProcess
from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import namespace_name

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Provide a control plane of this file alone, because definitions belong to all namespaces."""
    started = ControlPlane.start(tmp_path_factory.mktemp("definitions") / "state")
    yield started
    started.stop()


@pytest.fixture
def waiting(
    plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[OperatorProcess]:
    """Provide an operator that was not started, in a namespace of its own."""
    namespace = namespace_name(request.node.name)
    plane.kubectl("create", "namespace", namespace)
    made = OperatorProcess(plane, namespace, tmp_path)
    yield made
    made.kill()
    crds = [f"crd/{plural}.{objects.GROUP}" for plural in objects.KINDS]
    plane.kubectl("delete", "--ignore-not-found", *crds)
    plane.kubectl("delete", "namespace", namespace, "--wait=false")


def old_definitions() -> list[dict[str, Any]]:
    """Return the chart's definitions without two fields, as an older version could have them."""
    found = [
        item for item in rendered.render_definitions() if item["kind"] == "CustomResourceDefinition"
    ]
    for item in found:
        properties = item["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        if item["spec"]["names"]["kind"] == "BrokerCluster":
            del properties["status"]["properties"]["strays"]
        if item["spec"]["names"]["kind"] == "Broker":
            del properties["status"]["properties"]["volumeFull"]
    return found


def causes(operator: OperatorProcess) -> str:
    return operator.log.read_text()


def wait_for_cause(operator: OperatorProcess, sentence: str) -> None:
    """Wait until the log and the probe name a cause; the process is alive meanwhile."""
    operator.wait_for("the log's line", lambda: sentence in causes(operator))
    operator.wait_for("the probe's text", lambda: sentence in operator.probe("/ready")[1])
    assert operator.probe("/ready")[0] == 503
    assert operator.probe("/live")[0] == 200


def wait_until_working(operator: OperatorProcess) -> None:
    """Wait until the operator is ready, and has made the objects of a new topic."""
    operator.wait_for("readiness", lambda: operator.probe("/ready") == (200, "ok"))
    operator.plane.apply(objects.topic(operator.namespace, "orders", clusterRef="default"))
    operator.wait_for("Partition", lambda: operator.get("partitions.strandline.dev", "orders-0"))


def test_missing_definitions_are_named_until_they_are_there(waiting: OperatorProcess) -> None:
    waiting.start()
    wait_for_cause(
        waiting,
        "missing definitions: Broker, BrokerCluster, Partition, ReplicatedTopic; run " + CURE,
    )
    objects.install_crds(waiting.plane)
    wait_until_working(waiting)


def test_old_definitions_are_named_by_their_fields_until_they_are_new(
    waiting: OperatorProcess,
) -> None:
    waiting.plane.apply(old_definitions())
    waiting.start()
    wait_for_cause(
        waiting,
        "definitions are older than this operator and lack: Broker status.volumeFull, "
        "BrokerCluster status.strays[].",
    )
    assert CURE in waiting.probe("/ready")[1]
    assert waiting.actions() == []
    objects.install_crds(waiting.plane)
    wait_until_working(waiting)

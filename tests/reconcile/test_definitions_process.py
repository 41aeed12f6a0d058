"""An operator whose definitions are or become older than itself: it waits, and says so."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from strandline import names
from strandline_operator.definitions import CURE
from tests.chart import rendered
from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_metrics import value
from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import namespace_name

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

LACKING = (
    "definitions are older than this operator and lack: Broker status.volumeFull, "
    "BrokerCluster status.strays[]."
)
"""How the sentence about `old_definitions` begins."""


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
    made = OperatorProcess(
        plane, namespace, tmp_path, environment={"DEFINITIONS_LOOK_SECONDS": "1"}
    )
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


def is_ready(operator: OperatorProcess) -> float | None:
    """Return what the operator tells Prometheus of its readiness."""
    url = f"http://127.0.0.1:{operator.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=5) as response:
        return value(response.read(), names.OPERATOR_READY.name)


def causes(operator: OperatorProcess) -> str:
    return operator.log.read_text()


def gauge(operator: OperatorProcess, name: str) -> float:
    """Return a metric without labels."""
    url = f"http://127.0.0.1:{operator.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as response:
        text = response.read().decode()
    families = {each.name: each for each in text_string_to_metric_families(text)}
    (sample,) = families[name].samples
    return float(sample.value)


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
    assert is_ready(waiting) == 0
    objects.install_crds(waiting.plane)
    wait_until_working(waiting)
    assert is_ready(waiting) == 1


def test_old_definitions_are_named_by_their_fields_until_they_are_new(
    waiting: OperatorProcess,
) -> None:
    waiting.plane.apply(old_definitions())
    waiting.start()
    wait_for_cause(waiting, LACKING)
    assert CURE in waiting.probe("/ready")[1]
    assert waiting.actions() == []
    objects.install_crds(waiting.plane)
    wait_until_working(waiting)


def test_definitions_that_become_older_stop_the_work_until_they_are_new(
    waiting: OperatorProcess,
) -> None:
    objects.install_crds(waiting.plane)
    waiting.start()
    wait_until_working(waiting)
    assert gauge(waiting, "strandline_operator_definitions_lacking") == 0

    waiting.plane.apply(old_definitions())
    wait_for_cause(waiting, LACKING)
    assert CURE in waiting.probe("/ready")[1]
    assert gauge(waiting, "strandline_operator_definitions_lacking") >= 2
    before = waiting.actions()
    waiting.plane.apply(objects.topic(waiting.namespace, "later", clusterRef="default"))
    waiting.wait_for(
        "a topic that waits", lambda: gauge(waiting, "strandline_operator_queue_length") >= 1
    )
    assert waiting.actions() == before

    objects.install_crds(waiting.plane)
    waiting.wait_for("readiness", lambda: waiting.probe("/ready") == (200, "ok"))
    waiting.wait_for("its Partition", lambda: waiting.get("partitions.strandline.dev", "later-0"))
    assert gauge(waiting, "strandline_operator_definitions_lacking") == 0

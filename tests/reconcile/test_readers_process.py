"""What programs that know kstatus make of a new object, as the API server stores it."""

from __future__ import annotations

import json

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import topic
from tests.reconcile.test_readers import argo, kstatus
from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane
from tests.support.object_reader import Manifest

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def found(plane: ControlPlane, namespace: str, name: str) -> Manifest:
    """Return an object as a reader gets it."""
    value: Manifest = json.loads(plane.kubectl("-n", namespace, "get", name, "-o", "json"))
    return value


def test_a_new_object_is_unfinished_until_the_operator_has_seen_it(
    control_plane: ControlPlane, crds: None, namespace: str
) -> None:
    plane = control_plane
    plane.apply([objects.cluster(namespace), objects.topic(namespace, "orders")])
    cluster = f"brokercluster/{objects.CLUSTER}"
    for name in (cluster, "replicatedtopic/orders"):
        new = found(plane, namespace, name)
        assert new["status"] == {"observedGeneration": -1}
        assert kstatus(new) == "InProgress"
        assert argo(new)[0] == "Progressing"
    # The controller writes into the same status, and may be earlier than the operator.
    written = {"controller": {"holderIdentity": "a", "brokerId": 0, "epoch": 1}}
    objects.patch_status(plane, namespace, cluster, written)
    begun = found(plane, namespace, cluster)
    assert begun["status"]["controller"]["epoch"] == 1
    assert kstatus(begun) == "InProgress"


def test_an_object_that_the_operator_has_seen_is_read_by_its_conditions(
    operator: OperatorProcess,
) -> None:
    operator.kubectl("apply", "-f", "-", stdin=topic("wide", replicationFactor=5))

    def is_refused() -> bool:
        value = operator.get("rtopic", "wide") or {}
        is_seen = value["status"]["observedGeneration"] == value["metadata"]["generation"]
        return bool(is_seen and kstatus(value) == "Failed")

    # A first status says that the operator is at work; the refusal follows.
    operator.wait_for("the refusal", is_refused)
    operator.kubectl("patch", "rtopic", "wide", "--type=merge", "-p", '{"spec":{"partitions":4}}')
    operator.wait_for("the refusal of the new generation", is_refused)

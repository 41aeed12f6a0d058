"""Larger volumes on a real API server and its controllers; the test is the driver of the class."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.killed_operator import run_killed_after_each_write
from tests.reconcile.test_pod_settings_process import apply
from tests.reconcile.test_pods_process import bound, patch_status
from tests.reconcile.test_refusals_process import conditions, events, shown
from tests.support.commands import CommandError
from tests.support.control_plane import ControlPlane
from tests.support.object_reader import Manifest

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

# Below 10Gi the pods' grace period follows the size, so pods would be replaced for it.
CLAIMS = [f"data-c-{number}" for number in range(3)]
RETRIED_MS = 60_000
"""The operator tries again what was refused at most 30 s later."""
KILLS_MIN = 7
"""Three claims, the StatefulSet that goes, the one that comes, and the status before and after."""
GROWN = "all volumes have at least spec.storage.size, which is 20Gi"


class StorageClass:
    """A class of a test's own, and a volume of 10Gi for each claim of cluster `c`."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._namespace = namespace
        self.name = f"class.{namespace}"
        self._volumes = [f"{number}.{namespace}" for number in range(3)]

    def make(self) -> None:
        """Create class and volumes; the class does not allow that volumes grow."""
        self._plane.apply(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": self.name},
                "provisioner": "driver.example.com",
            }
        )
        for name, claim in zip(self._volumes, CLAIMS, strict=True):
            spec = {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.name,
                "csi": {"driver": "driver.example.com", "volumeHandle": name},
                "claimRef": {"namespace": self._namespace, "name": claim},
            }
            head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
            self._plane.apply({**head, "spec": spec})

    def allow_growth(self) -> None:
        """Let volumes of the class grow."""
        patch = '{"allowVolumeExpansion":true}'
        self._plane.kubectl("patch", "storageclass", self.name, "-p", patch)

    def remove(self) -> None:
        """Delete class and volumes."""
        self._plane.kubectl("delete", "storageclass", self.name)
        for name in self._volumes:
            self._plane.kubectl("delete", "pv", name, "--wait=false")


@pytest.fixture
def storage(control_plane: ControlPlane, namespace: str) -> Iterator[StorageClass]:
    """Provide a class whose volumes do not grow, and volumes of it."""
    made = StorageClass(control_plane, namespace)
    made.make()
    yield made
    made.remove()


def start(operator: OperatorProcess, storage: StorageClass) -> None:
    """Bring up cluster `c`, whose pods no node runs: none of its brokers is ever ready."""
    apply(operator, "c", storage={"size": "10Gi", "storageClassName": storage.name})
    operator.wait_for("bound claims", lambda: bound(operator) == 3, 40_000)
    operator.wait_for("pods", lambda: len(operator.list("pods")) == 3)
    operator.wait_for(
        "the volumes in the status",
        lambda: (operator.get("bc", "c") or {})["status"].get("storage") == {"size": "10Gi"},
    )


def resize(operator: OperatorProcess, size: str) -> None:
    patch = json.dumps({"spec": {"storage": {"size": size}}})
    operator.kubectl("patch", "bc", "c", "--type=merge", "-p", patch)


def requested(operator: OperatorProcess) -> list[str]:
    """Return what the claims ask for."""
    found = sorted(operator.list("pvc"), key=lambda each: str(each["metadata"]["name"]))
    return [each["spec"]["resources"]["requests"]["storage"] for each in found]


def stateful_set(operator: OperatorProcess) -> Manifest:
    """Return the StatefulSet, {} if there is none or it is being deleted."""
    found = operator.get("statefulset", "c") or {}
    return {} if "deletionTimestamp" in found.get("metadata", {}) else found


def template(operator: OperatorProcess) -> str:
    """Return the size of claims to come, "" without a StatefulSet."""
    spec = stateful_set(operator).get("spec")
    return (
        spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] if spec else ""
    )


def pods(operator: OperatorProcess) -> dict[str, str]:
    """Return the pods' uids by name."""
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in operator.list("pods")}


def owners(operator: OperatorProcess) -> set[str]:
    """Return the uids of all owners of pods."""
    found = [each["metadata"].get("ownerReferences") or [{}] for each in operator.list("pods")]
    return {owner.get("uid", "") for of_pod in found for owner in of_pod}


def wait_until_grown(operator: OperatorProcess) -> None:
    """Wait until claims and StatefulSet ask for 20Gi, and the StatefulSet has its pods."""
    operator.wait_for("claims", lambda: requested(operator) == ["20Gi"] * 3, RETRIED_MS)
    operator.wait_for("StatefulSet", lambda: template(operator) == "20Gi", RETRIED_MS)
    operator.wait_for(
        "pods of the StatefulSet",
        lambda: owners(operator) == {stateful_set(operator)["metadata"]["uid"]},
        RETRIED_MS,
    )


def test_volumes_grow_while_pods_stay_and_status_and_event_tell_it(
    operator: OperatorProcess, storage: StorageClass
) -> None:
    storage.allow_growth()
    start(operator, storage)
    before, first = pods(operator), stateful_set(operator)["metadata"]["uid"]
    resize(operator, "20Gi")
    wait_until_grown(operator)
    assert stateful_set(operator)["metadata"]["uid"] != first
    assert pods(operator) == before
    operator.wait_for(
        "the condition", lambda: shown(operator, "c", "bc", "VolumesTooSmall") == "True Growing"
    )
    pending = {"type": "FileSystemResizePending", "status": "True", "message": "start a pod"}
    patch_status(operator, "pvc", CLAIMS[0], {"conditions": [pending]})
    for name in CLAIMS[1:]:
        patch_status(operator, "pvc", name, {"capacity": {"storage": "20Gi"}})

    def told() -> str:
        found = conditions(operator, "c", "bc").get("VolumesTooSmall", {})
        return str(found.get("message", ""))

    sentence = "data-c-0 has 10Gi and asks for 20Gi, FileSystemResizePending: start a pod"
    operator.wait_for(
        "the one that waits", lambda: told() == f"spec.storage.size is 20Gi: {sentence}"
    )
    assert events(operator, "c", "VolumesGrown") == []
    sizes = [row["volume"] for row in (operator.get("bc", "c") or {})["status"]["brokers"]]
    assert sizes == [{"wantedBytes": 20 << 30, "bytes": size << 30} for size in (10, 20, 20)]
    patch_status(operator, "pvc", CLAIMS[0], {"capacity": {"storage": "20Gi"}, "conditions": None})
    (message,) = operator.wait_for("the Event", lambda: events(operator, "c", "VolumesGrown"))
    assert message == GROWN
    operator.wait_for("no condition", lambda: told() == "")
    with pytest.raises(CommandError, match=r"spec\.storage\.size must be at least what it was"):
        resize(operator, "10Gi")
    assert [cause for cause in operator.failures() if "forbidden" in cause] == []


def test_a_class_that_cannot_grow_is_named_nothing_is_half_done_and_both_ways_out_work(
    operator: OperatorProcess, storage: StorageClass
) -> None:
    start(operator, storage)
    first = stateful_set(operator)["metadata"]["uid"]

    def refused() -> bool:
        return shown(operator, "c", "bc", "Reconciled") == "False VolumesCannotGrow"

    resize(operator, "20Gi")
    operator.wait_for("the refusal", refused)
    found = conditions(operator, "c", "bc")
    assert f"StorageClass {storage.name}" in found["Reconciled"]["message"]
    assert "only dynamically provisioned pvc can be resized" in found["Reconciled"]["message"]
    assert "spec.storage.size back to 10Gi" in found["Reconciled"]["message"]
    assert shown(operator, "c", "bc", "Stalled") == "True VolumesCannotGrow"
    assert len(events(operator, "c", "VolumesCannotGrow")) == 1
    assert requested(operator) == ["10Gi"] * 3
    assert stateful_set(operator)["metadata"]["uid"] == first
    # What has nothing to do with it is still done.
    operator.kubectl("delete", "pdb", "c-brokers")
    operator.wait_for("the budget", lambda: operator.get("pdb", "c-brokers"))

    resize(operator, "10Gi")
    operator.wait_for(
        "the way back", lambda: shown(operator, "c", "bc", "Reconciled") == "True AllApplied"
    )
    assert "VolumesTooSmall" not in conditions(operator, "c", "bc")
    assert events(operator, "c", "VolumesGrown") == []

    resize(operator, "20Gi")
    operator.wait_for("the second refusal", refused)
    storage.allow_growth()
    wait_until_grown(operator)
    operator.wait_for(
        "the recovery", lambda: shown(operator, "c", "bc", "Reconciled") == "True AllApplied"
    )


def test_a_quota_that_refuses_is_told_and_what_has_grown_stays(
    operator: OperatorProcess, storage: StorageClass
) -> None:
    storage.allow_growth()
    start(operator, storage)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}

    def allow(size: str) -> None:
        spec = {"hard": {"requests.storage": size}}
        operator.kubectl("apply", "-f", "-", stdin=json.dumps({**quota, "spec": spec}))

    def is_counted() -> bool:
        found = (operator.get("resourcequota", "small") or {}).get("status", {})
        return bool(found.get("used", {}).get("requests.storage") == "30Gi")

    allow("40Gi")
    operator.wait_for("the quota", is_counted)
    resize(operator, "20Gi")
    operator.wait_for(
        "the refusal",
        lambda: shown(operator, "c", "bc", "Reconciled") == "False VolumesCannotGrow",
    )
    assert "exceeded quota: small" in conditions(operator, "c", "bc")["Reconciled"]["message"]
    assert requested(operator) == ["20Gi", "10Gi", "10Gi"]
    assert template(operator) == "10Gi"
    operator.wait_for(
        "the size in the status",
        lambda: (operator.get("bc", "c") or {})["status"]["storage"] == {"size": "20Gi"},
    )
    with pytest.raises(CommandError, match=r"or at least status\.storage\.size"):
        resize(operator, "10Gi")
    allow("60Gi")
    wait_until_grown(operator)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_operator_killed_after_each_of_its_writes_grows_all_volumes(
    operator: OperatorProcess, storage: StorageClass, tmp_path: Path
) -> None:
    storage.allow_growth()
    start(operator, storage)
    before = pods(operator)
    stages = iter(("asked for", "grown"))
    stage = next(stages)

    def is_whole() -> bool:
        """Be the driver once all claims ask for more; tell whether the end was told."""
        nonlocal stage
        found = conditions(operator, "c", "bc").get("VolumesTooSmall", {})
        is_asked = requested(operator) == ["20Gi"] * 3 and template(operator) == "20Gi"
        if stage == "asked for" and is_asked and found.get("reason") == "Growing":
            for name in CLAIMS:
                patch_status(operator, "pvc", name, {"capacity": {"storage": "20Gi"}})
            stage = next(stages)
        return stage == "grown" and found == {}

    begin = partial(resize, operator, "20Gi")
    killed = run_killed_after_each_write(operator, tmp_path, begin, is_whole, within_ms=60_000)
    assert killed >= KILLS_MIN
    wait_until_grown(operator)
    assert pods(operator) == before
    rows = (operator.get("bc", "c") or {})["status"]["brokers"]
    assert [row["volume"]["bytes"] for row in rows] == [20 << 30] * 3
    assert events(operator, "c", "VolumesGrown") == [GROWN]

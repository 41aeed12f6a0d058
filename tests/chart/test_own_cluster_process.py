"""What the accounts of brokers may write of other clusters, on a real API server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart.analysis_cases import ANALYSIS_STATUS
from tests.chart.cases import COMPLETE
from tests.support import strandline_objects as objects
from tests.support.commands import CommandError
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name

pytestmark = pytest.mark.processes

OTHER = "other"
WRITTEN = ("lease", "brokercluster", "broker", "partition", "replicatedtopic")
TAKES_EFFECT_MS = 30_000
"""The API server loads policies behind their creation."""
REFUSAL = "ValidatingAdmissionPolicy 'own-cluster.strandline.dev'"


def of_cluster(cluster: str, namespace: str) -> dict[str, dict[str, Any]]:
    """Return what brokers of a cluster write, as the operator makes it, each with a status."""
    name = f"{cluster}-orders"
    made = {
        "lease": objects.controller_lease(namespace),
        "brokercluster": objects.cluster(namespace),
        "broker": objects.broker(namespace, 1),
        "partition": objects.partition(
            namespace, topic_id=str(uuid.uuid4()), topic_name=name, number=0
        ),
        "replicatedtopic": objects.topic(namespace, name, clusterRef=cluster),
    }
    for manifest in made.values():
        metadata = manifest["metadata"]
        metadata["name"] = metadata["name"].replace(objects.CLUSTER, cluster, 1)
        metadata["labels"]["strandline.dev/cluster"] = cluster
    made["partition"]["metadata"]["name"] = f"{name}-0"
    made["replicatedtopic"]["metadata"]["name"] = name
    return made


class Clusters:
    """Two clusters in one namespace, and their brokers' accounts."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.objects = {
            cluster: of_cluster(cluster, namespace) for cluster in (objects.CLUSTER, OTHER)
        }
        for cluster, made in self.objects.items():
            plane.apply(list(made.values()))
            objects.broker_account(plane, namespace, cluster)

    def refusal(self, account: str, kind: str, name: str, namespace: str = "") -> str:
        """Return why an account may not write the status of an object, "" if it may.

        The account is in `namespace`, by default that of the clusters.
        """
        user = f"system:serviceaccount:{namespace or self.namespace}:{account}"
        options = ["--dry-run=server", f"--as={user}", "-n", self.namespace]
        found = self.plane.get(kind, name, "-n", self.namespace)
        if kind != "lease":
            options.append("--subresource=status")
            found["status"] = dict(COMPLETE[found["kind"]]["status"])
            # The operator's alone, as a test of its own shows.
            found["status"].pop("analysis", None)
        try:
            if kind == "replicatedtopic":  # Brokers own a part of it alone.
                found = {
                    **{key: found[key] for key in ("apiVersion", "kind")},
                    "metadata": {"name": name},
                    "status": {"appliedConfig": found["status"]["appliedConfig"]},
                }
                command = ["apply", "--server-side", "--field-manager=strandline-controller"]
            else:
                command = ["replace"]
            self.plane.kubectl(*command, *options, "-f", "-", stdin=json.dumps(found))
        except CommandError as error:
            return str(error)
        return ""

    def name(self, cluster: str, kind: str) -> str:
        """Return the name of an object of a cluster."""
        name: str = self.objects[cluster][kind]["metadata"]["name"]
        return name


@pytest.fixture(scope="module")
def clusters(control_plane: ControlPlane, crds: None) -> Iterator[Clusters]:
    """Provide two clusters, with the policy of the chart in effect."""
    namespace = namespace_name("own-cluster")
    control_plane.kubectl("create", "namespace", namespace)
    made = Clusters(control_plane, namespace)
    eventually(
        lambda: made.refusal(f"{OTHER}-broker", "lease", made.name(objects.CLUSTER, "lease")),
        TAKES_EFFECT_MS,
        "the policy",
    )
    yield made
    control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize(("own", "other"), [(objects.CLUSTER, OTHER), (OTHER, objects.CLUSTER)])
def test_brokers_write_to_their_own_cluster_and_to_no_other(
    clusters: Clusters, own: str, other: str, kind: str
) -> None:
    assert clusters.refusal(f"{own}-broker", kind, clusters.name(own, kind)) == ""
    refusal = clusters.refusal(f"{own}-broker", kind, clusters.name(other, kind))
    assert REFUSAL in refusal
    assert f"the brokers of BrokerCluster {own} may" in refusal
    assert clusters.name(other, kind) in refusal


@pytest.mark.parametrize("name", ["strandline-operator", "demo-controller-2", "controller"])
def test_brokers_write_no_other_lease_of_their_namespace(clusters: Clusters, name: str) -> None:
    lease = objects.controller_lease(clusters.namespace)
    lease["metadata"]["name"] = name
    clusters.plane.apply(lease)
    assert REFUSAL in clusters.refusal(f"{objects.CLUSTER}-broker", "lease", name)


def test_a_cluster_whose_name_begins_with_that_of_another_is_another(clusters: Clusters) -> None:
    """`demo-1` has a Broker `demo-1-1`; `demo` may have a Broker `demo-1`."""
    longer = of_cluster(f"{objects.CLUSTER}-1", clusters.namespace)
    clusters.plane.apply(list(longer.values()))
    objects.broker_account(clusters.plane, clusters.namespace, f"{objects.CLUSTER}-1")
    for kind in WRITTEN:
        name = longer[kind]["metadata"]["name"]
        assert clusters.refusal(f"{objects.CLUSTER}-1-broker", kind, name) == ""
        assert REFUSAL in clusters.refusal(f"{objects.CLUSTER}-broker", kind, name)
        own = clusters.name(objects.CLUSTER, kind)
        assert REFUSAL in clusters.refusal(f"{objects.CLUSTER}-1-broker", kind, own)


def test_a_partition_without_its_label_is_of_no_cluster(clusters: Clusters) -> None:
    name = "unlabelled-0"
    found = objects.partition(
        clusters.namespace, topic_id=str(uuid.uuid4()), topic_name="unlabelled", number=0
    )
    del found["metadata"]["labels"]
    clusters.plane.apply(found)
    assert REFUSAL in clusters.refusal(f"{objects.CLUSTER}-broker", "partition", name)


def test_the_account_of_another_namespace_writes_nothing(clusters: Clusters) -> None:
    """Whoever binds the brokers' Role to it by mistake gives it nothing."""
    subject = {"kind": "ServiceAccount", "name": "demo-broker", "namespace": "elsewhere"}
    bind(clusters, "elsewhere", "strandline-broker", subject)
    name = clusters.name(objects.CLUSTER, "lease")
    refusal = clusters.refusal("demo-broker", "lease", name, namespace="elsewhere")
    assert REFUSAL in refusal
    assert "may write in its own namespace alone" in refusal


def test_a_program_that_is_called_a_broker_writes_its_own_lease(clusters: Clusters) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "message-broker", "namespace": clusters.namespace},
        "rules": [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
        ],
    }
    lease = objects.controller_lease(clusters.namespace)
    lease["metadata"]["name"] = "message-broker-leader"
    clusters.plane.apply([role, lease])
    subject = {"kind": "ServiceAccount", "name": "message-broker"}
    subject["namespace"] = clusters.namespace
    bind(clusters, "message-broker", "message-broker", subject)
    assert clusters.refusal("message-broker", "lease", "message-broker-leader") == ""


def test_people_and_other_programs_are_not_concerned(clusters: Clusters) -> None:
    for kind in WRITTEN:
        name = clusters.name(OTHER, kind)
        found = clusters.plane.get(kind, name, "-n", clusters.namespace)
        found["metadata"]["annotations"] = {"seen-by": "a-person"}
        clusters.plane.kubectl("replace", "-f", "-", stdin=json.dumps(found))


def bind(clusters: Clusters, name: str, role: str, subject: dict[str, str]) -> None:
    """Bind a Role of the namespace to an account."""
    group = "rbac.authorization.k8s.io"
    clusters.plane.apply(
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": clusters.namespace},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": role},
            "subjects": [subject],
        }
    )


def test_brokers_keep_what_the_operator_tells_of_the_analysis(clusters: Clusters) -> None:
    plane, name = clusters.plane, clusters.name(objects.CLUSTER, "brokercluster")
    where = ("-n", clusters.namespace, "--subresource=status")
    told = plane.get("brokercluster", name, "-n", clusters.namespace)
    told["status"] |= ANALYSIS_STATUS
    plane.kubectl("replace", *where, "-f", "-", stdin=json.dumps(told))

    def refusal(**changed: Any) -> str:
        user = f"system:serviceaccount:{clusters.namespace}:{objects.CLUSTER}-broker"
        found = plane.get("brokercluster", name, "-n", clusters.namespace)
        found["status"] |= {"topicRevision": 7, **changed}
        found["status"] = {key: each for key, each in found["status"].items() if each is not None}
        try:
            options = (*where, "--dry-run=server", f"--as={user}")
            plane.kubectl("replace", *options, "-f", "-", stdin=json.dumps(found))
        except CommandError as error:
            return str(error)
        return ""

    try:
        assert refusal() == ""
        for changed in ({**ANALYSIS_STATUS["analysis"], "incidents": 0}, None):
            assert REFUSAL in refusal(analysis=changed)
            assert "may not write status.analysis" in refusal(analysis=changed)
    finally:
        del told["status"]["analysis"]
        del told["metadata"]["resourceVersion"]
        plane.kubectl("replace", *where, "-f", "-", stdin=json.dumps(told))
    assert "may not write status.analysis" in refusal(**ANALYSIS_STATUS)

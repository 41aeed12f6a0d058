"""The rendered chart: CRD tables are complete, permissions are exact, values are checked."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from strandline_operator import kinds
from strandline_operator.external import PORT as EXTERNAL_PORT
from strandline_operator.observed import DesiredCluster, ObjectRef
from strandline_operator.resources import PORTS, labels
from tests.chart import rendered
from tests.chart.cases import BOUNDS, COMPLETE, leaves
from tests.chart.required import REQUIRED
from tests.chart.rules import RULES
from tests.support.commands import CommandError, programs, run
from tests.support.strandline_objects import CHART, CRDS_CHART, IMAGES

pytestmark = pytest.mark.processes

KINDS = ("BrokerCluster", "ReplicatedTopic", "Broker", "Partition")


def find(kind: str, name: str, *values: str) -> dict[str, Any]:
    for item in rendered.render(*values):
        if item["kind"] == kind and item["metadata"]["name"] == name:
            return item
    raise AssertionError(f"no {kind} {name}")


def allowed(name: str) -> set[tuple[str, str, str]]:
    """Return (resource, name, verb) of everything a Role allows."""
    return {
        (resource, only, verb)
        for rule in find("Role", name)["rules"]
        for resource in rule["resources"]
        for only in rule.get("resourceNames", ["any"])
        for verb in rule["verbs"]
    }


def of(resources: str, verbs: str, only: str = "any") -> set[tuple[str, str, str]]:
    return {(resource, only, verb) for resource in resources.split() for verb in verbs.split()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_is_in_the_table(kind: str) -> None:
    assert rendered.rules(kind) == {rule.message for rule in RULES if rule.kind == kind}


@pytest.mark.parametrize("kind", KINDS)
def test_every_bound_is_in_the_table(kind: str) -> None:
    listed = {f"{path} {keyword}" for path, words in BOUNDS[kind].items() for keyword in words}
    listed |= {f"{path} required" for path in REQUIRED[kind]}
    assert rendered.bounds(kind) == listed


@pytest.mark.parametrize("kind", KINDS)
def test_the_complete_object_has_every_field(kind: str) -> None:
    complete = {part: COMPLETE[kind][part] for part in ("spec", "status")}
    assert rendered.fields(kind) == set(leaves(complete))


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_and_list_has_a_limit(kind: str) -> None:
    assert rendered.unbounded(kind) == set()


def test_crds_are_named_and_kept_as_documented() -> None:
    short = {
        "brokerclusters": "bc",
        "replicatedtopics": "rtopic",
        "partitions": "part",
        # Knative has `broker`.
        "brokers": "rbroker",
    }
    crds = [
        item for item in rendered.render_definitions() if item["kind"] == "CustomResourceDefinition"
    ]
    assert len(crds) == 4
    for crd in crds:
        names = crd["spec"]["names"]
        assert names["categories"] == ["strandline"]
        assert names["shortNames"] == [short[names["plural"]]]
        scales = {"scale"} if names["plural"] == "brokerclusters" else set()
        assert crd["spec"]["versions"][0]["subresources"].keys() == {"status"} | scales
        assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_crds_can_be_removed_with_the_release() -> None:
    for item in rendered.render_definitions("--set=keep=false"):
        assert "annotations" not in item["metadata"]


def test_brokers_may_do_exactly_this() -> None:
    role = find("Role", "strandline-broker")
    assert role["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert allowed("strandline-broker") == (
        of("leases", "get list watch update")
        | of("brokers partitions replicatedtopics", "list watch")
        | of("brokerclusters brokers partitions", "get")
        | of("brokerclusters/status brokers/status partitions/status", "update")
        | of("replicatedtopics/status", "patch")
    )


def test_the_operator_may_do_exactly_this() -> None:
    assert allowed("strandline-operator") == (
        of("replicatedtopics", "list watch")
        | of("brokerclusters/status replicatedtopics/status", "patch")
        | of("events", "create")
        | of("roles", "bind", only="strandline-broker")
        | of("brokerclusters partitions", "get list watch create")
        | of("partitions", "patch")
        | of(
            "brokers configmaps serviceaccounts services statefulsets leases poddisruptionbudgets "
            "rolebindings",
            "list watch create patch",
        )
        | of("leases", "get update")
        # Former ConfigMaps go once no pod and no revision of a StatefulSet names them; the Services
        # of an external listener go with it.
        | of("configmaps services", "delete")
        # A StatefulSet is replaced, without its pods, when the template of its claims must change.
        | of("statefulsets", "delete")
        | of("persistentvolumeclaims", "list watch patch")
        | of("pods", "list watch")
        | of("pods/eviction", "create")
        | of("controllerrevisions events", "list")
    )


def test_nothing_is_allowed_in_the_whole_cluster_but_to_list_nodes() -> None:
    (role,) = (item for item in rendered.render() if item["kind"] == "ClusterRole")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    (binding,) = (item for item in rendered.render() if item["kind"] == "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [each["name"] for each in binding["subjects"]] == ["strandline-operator"]
    assert role["metadata"]["name"] == "somewhere-strandline-operator-nodes"
    kinds_made = {item["kind"] for item in rendered.render("--set=operator.readNodes=false")}
    assert not kinds_made & {"ClusterRole", "ClusterRoleBinding"}


def test_operators_may_be_several() -> None:
    found = find("Deployment", "strandline-operator", "--set=operator.replicas=2")
    assert found["spec"]["replicas"] == 2


def test_the_operator_pod_is_restricted() -> None:
    deployment = find("Deployment", "strandline-operator")
    assert deployment["spec"]["replicas"] == 1
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert deployment["spec"]["strategy"] == strategy
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    assert spread["labelSelector"] == deployment["spec"]["selector"]
    container = pod["containers"][0]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["livenessProbe"]["httpGet"] == {"path": "/live", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "http"}


def test_the_user_is_a_value_or_the_platforms_choice() -> None:
    def users(*values: str) -> tuple[set[str], bool]:
        pod = find("Deployment", "strandline-operator", *values)["spec"]["template"]["spec"]
        config = find("ConfigMap", "strandline-operator", *values)["data"]["operator.yaml"]
        return set(pod["securityContext"]), "brokerUser: 65532\n" in config

    everywhere = {"runAsNonRoot", "seccompProfile"}
    assert users() == (everywhere | {"runAsUser", "runAsGroup"}, True)
    assert users("--set=runAsUser=null") == (everywhere, False)


def test_images_and_pull_secrets_are_values() -> None:
    values = (
        "--set=operator.image.repository=example.com/op",
        "--set=operator.image.tag=v7",
        "--set=broker.image.repository=example.com/b",
        "--set=broker.image.tag=v8",
        "--set=imagePullSecrets[0].name=secret",
    )
    pod = find("Deployment", "strandline-operator", *values)["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "example.com/op:v7"
    assert pod["imagePullSecrets"] == [{"name": "secret"}]
    config = find("ConfigMap", "strandline-operator", *values)["data"]["operator.yaml"]
    assert 'brokerImages: {"0.1.0":"example.com/b:v8"}' in config
    assert 'imagePullSecrets: [{"name":"secret"}]' in config


def test_images_of_further_versions_are_values() -> None:
    older = "--set=broker.versions.0\\.0\\.9=example.com/b@sha256:0f"
    data = find("ConfigMap", "strandline-operator", older)["data"]
    assert yaml.safe_load(data["operator.yaml"])["brokerImages"] == {
        "0.0.9": "example.com/b@sha256:0f",
        "0.1.0": "example.com/broker:0.1.0",
    }
    assert yaml.safe_load(data["operator.yaml"])["brokerVersion"] == "0.1.0"
    with pytest.raises(CommandError, match=r"holds 0\.1\.0, which is the version of this chart"):
        rendered.render("--set=broker.versions.0\\.1\\.0=example.com/b:1")


def test_changed_values_replace_the_operator_pod() -> None:
    def digest(*values: str) -> str:
        template = find("Deployment", "strandline-operator", *values)["spec"]["template"]
        return str(template["metadata"]["annotations"]["strandline.dev/values"])

    assert digest() == digest()
    assert digest() != digest("--set=broker.image.tag=v8")


BROKERS = {"app.kubernetes.io/name": "strandline", "app.kubernetes.io/component": "broker"}


def entries(*values: str) -> dict[str | int, Any]:
    """Return the peers that reach each port of a broker; None for everyone."""
    spec = find("NetworkPolicy", "strandline-broker", *values)["spec"]
    assert spec["podSelector"] == {"matchLabels": BROKERS}
    assert spec["policyTypes"] == ["Ingress"], "name resolution and the API server stay open"
    return {rule["ports"][0]["port"]: rule.get("from") for rule in spec["ingress"]}


def test_only_brokers_and_the_operator_reach_the_grpc_port() -> None:
    operator = find("Deployment", "strandline-operator")["spec"]["template"]["metadata"]["labels"]
    assert entries() == {
        "grpc": [
            {"podSelector": {"matchLabels": BROKERS}},
            {"podSelector": {"matchLabels": operator}},
        ],
        "kafka": None,
        EXTERNAL_PORT: None,
        "http": None,
    }


def test_the_policy_names_ports_and_pods_as_the_operator_makes_them() -> None:
    cluster = DesiredCluster(
        ref=ObjectRef(kind=kinds.CLUSTER, name="c", uid="u"),
        generation=1,
        is_terminating=False,
        replicas=3,
        timing="safe",
        storage_size="1Gi",
        storage_class=None,
        config={},
        delete_topic_enable=True,
        resources={},
        pod={},
        spread_nodes=None,
    )
    assert labels(cluster).items() >= BROKERS.items()
    assert set(entries()) == {*PORTS, EXTERNAL_PORT}


def test_clients_and_readers_of_metrics_are_limited_by_values() -> None:
    found = entries(
        '--set-json=networkPolicy.clients=[{"namespaceSelector": {}}]',
        '--set-json=networkPolicy.metrics=[{"podSelector": {}}]',
        '--set-json=networkPolicy.external=[{"ipBlock": {"cidr": "192.0.2.0/24"}}]',
    )
    assert found[EXTERNAL_PORT] == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    brokers = {"podSelector": {"matchLabels": BROKERS}}
    assert found["kafka"] == [brokers, {"namespaceSelector": {}}]
    assert found["http"] == [{"podSelector": {}}]
    assert len(found["grpc"]) == 2


def test_the_policy_can_be_left_out() -> None:
    kinds_made = {item["kind"] for item in rendered.render("--set=networkPolicy.enabled=false")}
    assert "NetworkPolicy" not in kinds_made


@pytest.mark.parametrize(
    "wrong",
    [
        "operator.image.tag=-",
        "operator.replicas=0",
        "operator.replicas=4",
        "broker.image.repository=a b",
        "watchNamespaces[0]=Upper",
        "broker.image.pullPolicy=Sometimes",
        "broker.versions.next=example.com/b:v9",
        "defaultCluster.spec.version=next",
        "brokers.image.tag=1",
        "defaultCluster.spec.timing=quick",
        "defaultCluster.spec.replicas=0",
        "defaultCluster.spec.storage.size=much",
        "operator.logLevel=LOUD",
        "operator.readNodes=maybe",
        "runAsUser=0",
        "defaultCluster.spec.spread.nodes=Maybe",
        "defaultCluster.spec.rack.label=zone",
        "defaultCluster.spec.rack.topologyKey=",
        "defaultCluster.spec.pod.hostNetwork=true",
        "networkPolicy.enabled=maybe",
        "networkPolicy.clients=everyone",
        "networkPolicy.metrics[0].host=x",
    ],
)
def test_wrong_values_are_refused(wrong: str) -> None:
    with pytest.raises(CommandError, match="values don't meet the specifications"):
        rendered.render(f"--set={wrong}")


@pytest.mark.parametrize(("source", "values"), [(CHART, IMAGES), (CRDS_CHART, ())])
def test_lint_finds_nothing(tmp_path: Path, source: Path, values: tuple[str, ...]) -> None:
    chart = tmp_path / source.name
    shutil.copytree(source, chart)
    printed = run([str(programs() / "helm"), "lint", "--strict", str(chart), *values])
    assert "1 chart(s) linted, 0 chart(s) failed" in printed
    assert "WARNING" not in printed

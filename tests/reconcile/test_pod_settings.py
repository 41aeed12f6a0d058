"""Settings of brokers' pods: resources, where they run, how they are spread, and their metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline_operator import kinds, pod_settings, resources
from strandline_operator.actions import PostEvent
from strandline_operator.plan import plan_cluster
from strandline_operator.reading import read_cluster
from tests.chart.pod_cases import POD_SPEC

from .samples import CONFIG, NOW, Manifest, World, cluster, made

OWN = {"app.kubernetes.io/component": "broker", "strandline.dev/cluster": "default"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ALONE = {"labelSelector": {"matchLabels": OWN}, "topologyKey": "kubernetes.io/hostname"}


def stateful_set(**spec: Any) -> Manifest:
    return resources.objects_of(read_cluster(cluster(**spec)), CONFIG, has_topics=True)[-1]


def pod_of(**spec: Any) -> Manifest:
    pod: Manifest = stateful_set(**spec)["spec"]["template"]["spec"]
    return pod


def resources_of(**given: Any) -> Manifest:
    found: Manifest = pod_of(resources=given)["containers"][0]["resources"]
    return found


# --- resources ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"requests": {"cpu": "100m", "memory": "256Mi"}}),
        ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "2", "memory": "256Mi"}}),
        (
            {"limits": {"memory": "128Mi"}},
            {"requests": {"cpu": "100m"}, "limits": {"memory": "128Mi"}},
        ),
        (
            {"requests": {"memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            {"requests": {"memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        ),
    ],
)
def test_a_broker_requests_what_it_needs_unless_told_otherwise(
    given: Manifest, expected: Manifest
) -> None:
    assert resources_of(**given) == expected


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1.250", "1250m"),
        ("2000m", "2"),
        ("1000", "1k"),
        ("128Mi", "128Mi"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1000k", "1M"),
        ("1500M", "1500M"),
        ("11111111111111111111", "11111111111111111111"),
    ],
)
def test_a_quantity_is_written_as_the_api_server_returns_it(given: str, shown: str) -> None:
    assert pod_settings.canonical_quantity(given) == shown


# --- where a broker may run --------------------------------------------------------------


def test_a_lost_nodes_pods_stay_as_long_as_kubernetes_says() -> None:
    assert "tolerations" not in pod_of()


def test_settings_of_pods_reach_the_template() -> None:
    given = POD_SPEC["pod"]
    whole = stateful_set(pod=given)["spec"]["template"]
    assert whole["metadata"]["annotations"] == {"any": "thing"}
    assert whole["metadata"]["labels"].items() >= {"any": "thing", **OWN}.items()
    for field in (
        *("nodeSelector", "tolerations", "affinity", "priorityClassName"),
        *("imagePullSecrets", "terminationGracePeriodSeconds"),
    ):
        assert whole["spec"][field] == given[field]


def test_settings_of_pods_are_in_no_field_that_cannot_be_changed() -> None:
    plain, given = stateful_set(), stateful_set(**POD_SPEC)
    assert plain != given
    for field in ("serviceName", "selector", "podManagementPolicy", "volumeClaimTemplates"):
        assert plain["spec"][field] == given["spec"][field]


def test_a_pull_secret_of_chart_and_cluster_is_named_once() -> None:
    config = replace(CONFIG, image_pull_secrets=("both", "chart"))
    given = read_cluster(cluster(pod={"imagePullSecrets": [{"name": "own"}, {"name": "both"}]}))
    assert pod_settings.pull_secrets(given, config) == [
        {"name": "both"},
        {"name": "chart"},
        {"name": "own"},
    ]


@pytest.mark.parametrize("user", [None, 1001])
def test_the_platform_chooses_the_user_unless_the_chart_does(user: int | None) -> None:
    config = replace(CONFIG, broker_user=user)
    pods = resources.objects_of(read_cluster(cluster()), config, has_topics=True)[-1]
    found = pods["spec"]["template"]["spec"]["securityContext"]
    fields = ("runAsUser", "runAsGroup", "fsGroup")
    assert {field: found[field] for field in fields if field in found} == (
        {} if user is None else dict.fromkeys(fields, user)
    )
    assert found["runAsNonRoot"] is True


# --- spread ------------------------------------------------------------------------------


def test_brokers_that_may_share_a_node_do_so_only_if_they_must() -> None:
    pod = pod_of(spread={"nodes": "Preferred"})
    assert "affinity" not in pod
    constraints = pod["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in constraints] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    assert {each["whenUnsatisfiable"] for each in constraints} == {"ScheduleAnyway"}
    assert all(each["labelSelector"] == {"matchLabels": OWN} for each in constraints)


def test_brokers_that_may_not_share_a_node_keep_the_users_rules_too() -> None:
    given = POD_SPEC["pod"]["affinity"]
    pod = pod_of(spread={"nodes": "Required"}, pod={"affinity": given})
    apart = given["podAntiAffinity"]
    assert pod["affinity"] == {
        **given,
        "podAntiAffinity": {**apart, REQUIRED: [*apart[REQUIRED], ALONE]},
    }
    (zones,) = pod["topologySpreadConstraints"]
    assert (zones["topologyKey"], zones["whenUnsatisfiable"]) == (
        "topology.kubernetes.io/zone",
        "ScheduleAnyway",
    )


def node(name: str, *, ready: str = "True", labels: Any = None, **spec: Any) -> Manifest:
    whole = made(kinds.NODE, name, spec, labels=labels or {})
    return {**whole, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


TAINT = {"key": "dedicated", "value": "brokers", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("pod", "found", "counts"),
    [
        ({}, node("a"), True),
        ({}, node("a", ready="Unknown"), False),
        ({}, node("a", unschedulable=True), False),
        ({}, node("a", taints=[TAINT]), False),
        ({}, node("a", taints=[{**TAINT, "effect": "PreferNoSchedule"}]), True),
        ({"tolerations": [{"operator": "Exists"}]}, node("a", taints=[TAINT]), True),
        (
            {"tolerations": [{"key": "dedicated", "value": "brokers"}]},
            node("a", taints=[TAINT]),
            True,
        ),
        (
            {"tolerations": [{"key": "dedicated", "value": "others"}]},
            node("a", taints=[TAINT]),
            False,
        ),
        (
            {"tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}]},
            node("a", taints=[TAINT]),
            False,
        ),
        (
            {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
            node("a", taints=[TAINT, {"key": "other", "effect": "NoExecute"}]),
            False,
        ),
        ({"nodeSelector": {"disk": "fast"}}, node("a"), False),
        ({"nodeSelector": {"disk": "fast"}}, node("a", labels={"disk": "fast"}), True),
    ],
)
def test_a_node_counts_if_it_could_take_a_broker(
    pod: Manifest, found: Manifest, counts: bool
) -> None:
    assert pod_settings.schedulable_nodes([found], read_cluster(cluster(pod=pod))) == counts


class Planned:
    """A world whose plans for its cluster are performed, each with a number of nodes."""

    def __init__(self, **spec: Any) -> None:
        self.world = World(cluster(**spec))

    def edit(self, **spec: Any) -> None:
        """Change the cluster's spec; None removes a field."""
        found = self.world.get(kinds.CLUSTER, "default")
        changed = {key: value for key, value in (found["spec"] | spec).items() if value is not None}
        self.world.put({**found, "spec": changed})

    def lose_status(self) -> None:
        """Remove the cluster's status."""
        found = self.world.get(kinds.CLUSTER, "default")
        self.world.put({**found, "status": {}})

    def spread(self, nodes: int | None) -> tuple[str, str, list[str]]:
        """Make a pass; return how brokers are spread, why, and the reasons of new Events."""
        found = self.world.cache.cluster("default")
        assert found is not None
        self.asked = pod_settings.needs_nodes(*found)
        counted = replace(found[1], schedulable_nodes=nodes)
        actions = plan_cluster(found[0], counted, CONFIG, now=NOW)
        self.world.perform(actions)
        shown = self.world.get(kinds.CLUSTER, "default")["status"]["spread"]
        pod = self.world.get(kinds.STATEFUL_SET, "default")["spec"]["template"]["spec"]
        assert ("affinity" in pod) == (shown["nodes"] == "Required")
        events = [each.reason for each in actions if isinstance(each, PostEvent)]
        return shown["nodes"], shown["reason"], events


def test_the_default_is_required_if_every_broker_can_have_a_node() -> None:
    planned = Planned()
    assert planned.spread(3) == ("Required", "EnoughNodes", ["EnoughNodes"])
    assert planned.asked


def test_the_default_is_preferred_if_brokers_must_share_nodes() -> None:
    assert Planned().spread(2) == ("Preferred", "TooFewNodes", ["TooFewNodes"])


def test_the_default_is_preferred_if_nodes_cannot_be_counted() -> None:
    assert Planned().spread(None) == ("Preferred", "NodesNotCounted", ["NodesNotCounted"])
    choosy = Planned(pod={"affinity": POD_SPEC["pod"]["affinity"]})
    found = choosy.world.cache.cluster("default")
    assert found is not None
    assert not pod_settings.needs_nodes(*found)
    assert pod_settings.spread_of(*found).reason == "NodesNotCounted"


@pytest.mark.parametrize("lost", ["nothing", "the status"])
def test_the_default_is_decided_once(lost: str) -> None:
    planned = Planned()
    planned.spread(3)
    if lost == "the status":
        planned.lose_status()
    nodes, _, events = planned.spread(1)
    assert (nodes, events) == ("Required", [])
    assert not planned.asked
    assert planned.spread(1)[0] == "Required"


def test_a_cluster_from_before_this_setting_stays_as_it_is() -> None:
    planned = Planned()
    planned.spread(1)
    planned.lose_status()
    assert planned.spread(3) == ("Preferred", "AsBefore", [])


def test_a_spec_that_names_the_spread_is_obeyed_at_any_time() -> None:
    planned = Planned(spread={"nodes": "Preferred"})
    assert planned.spread(3) == ("Preferred", "Specified", [])
    assert not planned.asked
    planned.edit(spread={"nodes": "Required"})
    assert planned.spread(1) == ("Required", "Specified", [])
    planned.edit(spread=None)
    assert planned.spread(1) == ("Required", "AsBefore", [])
    assert planned.spread(1) == ("Required", "AsBefore", [])

"""Code obeys or writes every field of the four kinds.

The complete objects in the tables of `tests/chart` have every field; a test there checks that.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from strandline.kube.cluster_records import cluster_record_from_object, cluster_record_status
from strandline.kube.objects import (
    applied_config,
    applied_config_status,
    broker_from_object,
    broker_status,
    controller_record_from_object,
    controller_status,
    partition_from_object,
    partition_status,
    topic_from_object,
)
from strandline.model import StoredTopic
from strandline_operator import kinds
from strandline_operator.actions import Action
from strandline_operator.analysis import ANALYSIS_OF_LABEL, SUMMARY_KEY
from strandline_operator.external import EXTERNAL_IP, nodes_asked_for
from strandline_operator.plan import plan_cluster
from strandline_operator.plan_topics import plan_topic
from strandline_operator.pod_settings import NodeSpread
from strandline_operator.reading import read_cluster, read_topic
from strandline_operator.topic_settings import effective_config
from tests.chart.analysis_cases import ANALYSIS_STATUS
from tests.chart.cases import COMPLETE, NOW, leaves
from tests.reconcile.samples import CONFIG, Manifest, World, claim, made, pod

BROKERS = 9
NODES = {"n": {"topology.kubernetes.io/zone": "a"}}
LABELS = {"strandline.dev/cluster": COMPLETE["BrokerCluster"]["metadata"]["name"]}


def stored(kind: str, spec: Manifest | None = None, *, status: bool = False) -> Manifest:
    """Return the complete object of a kind as the API server would return it."""
    complete = COMPLETE[kind]
    name = complete["metadata"]["name"]
    whole = made(kinds.KIND_OF[kind], name, spec or complete["spec"], uid="uid", labels=LABELS)
    return {**whole, "status": complete["status"]} if status else whole


def summary_of(cluster: str) -> Manifest:
    """Return the ConfigMap in which the analysis tells of a cluster."""
    told = {"version": 1, "cluster": cluster, **ANALYSIS_STATUS["analysis"]}
    whole = made(kinds.CONFIG_MAP, "a-summary", labels={ANALYSIS_OF_LABEL: cluster})
    return {**whole, "data": {SUMMARY_KEY: json.dumps(told)}}


def of_cluster(cluster: Manifest) -> list[Action]:
    """Return what a cluster makes the operator do, also once its first objects are there."""
    brokers, claims = stored("Broker", status=True), claim(0, of=kinds.name_of(cluster))
    there = {**pod("demo-0", node="n"), "metadata": {**pod("demo-0")["metadata"], "labels": LABELS}}
    summary = summary_of(kinds.name_of(cluster))
    world, actions = World(cluster, brokers, claims, there, summary), list[Action]()
    for _ in range(2):
        found = world.cache.cluster(kinds.name_of(cluster))
        assert found is not None
        planned = plan_cluster(found[0], replace(found[1], node_labels=NODES), CONFIG, now=NOW)
        world.perform(planned)
        actions += planned
    return actions


def of_topic(topic: Manifest) -> tuple[list[Action], StoredTopic | None]:
    cluster = stored("BrokerCluster", {**COMPLETE["BrokerCluster"]["spec"], "replicas": BROKERS})
    found = World(cluster, topic).cache.topic(kinds.name_of(topic))
    assert found is not None
    obeyed_by_brokers = topic_from_object(
        {**topic, "status": COMPLETE["ReplicatedTopic"]["status"]}
    )
    return plan_topic(*found, CONFIG, now=NOW), obeyed_by_brokers


Effects = tuple[list[Action], dict[str, int], set[str] | None]


def of_cluster_and_its_topics(cluster: Manifest) -> Effects:
    """Return what a cluster makes the operator do, the settings of a topic, and the nodes it reads.

    The topic has no settings of its own; the nodes are those that brokers get an ExternalIP of.
    """
    observed = World(cluster).cache.cluster(kinds.name_of(cluster))
    assert observed is not None
    topic = read_topic(
        stored("ReplicatedTopic", {**COMPLETE["ReplicatedTopic"]["spec"], "config": {}})
    )
    config = effective_config(topic, read_cluster(cluster))
    return of_cluster(cluster), config, nodes_asked_for(*observed)


OBEYS: dict[str, Callable[[Manifest], object]] = {
    "BrokerCluster": of_cluster_and_its_topics,
    "ReplicatedTopic": of_topic,
    "Broker": broker_from_object,
    "Partition": partition_from_object,
}
"""For each kind the function whose result depends on the object's fields."""


OBEYED_BY_ADMISSION = {("ReplicatedTopic", "deletionProtection")}
"""Fields that the policy on deletions reads; tests/reconcile/test_deletion_process.py shows it."""


def other(value: Any) -> Any:
    """Return another value of the same type; of an enum that the operator reads another member."""
    if value in tuple(NodeSpread):
        return next(each for each in NodeSpread if each != value)
    if value == EXTERNAL_IP:
        return "InternalIP"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2
    if isinstance(value, str) and value[:1].isdigit():
        return f"1{value}"
    if isinstance(value, list):
        return [*value[1:], value[0]] if value else [1]
    return f"{value}0"


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (kind, path)
        for kind, complete in COMPLETE.items()
        for path in leaves(complete["spec"])
        if (kind, path) not in OBEYED_BY_ADMISSION
    ],
)
def test_another_value_of_a_field_has_another_effect(kind: str, path: str) -> None:
    spec = copy.deepcopy(COMPLETE[kind]["spec"])
    *holders, field = path.split(".")
    holder: Any = spec
    for each in holders:
        holder = holder[each.removesuffix("[]")]
        holder = holder[0] if each.endswith("[]") else holder
    holder[field] = other(holder[field])
    has_status = kind == "Broker"
    obeyed = OBEYS[kind](stored(kind, spec, status=has_status))
    assert obeyed != OBEYS[kind](stored(kind, status=has_status))


def written_by_the_operator(actions: list[Action]) -> set[str]:
    return {
        path
        for action in actions
        for body in (getattr(action, "body", None), getattr(action, "status_body", None))
        if body is not None and "status" in body
        for path in leaves(body["status"])
    }


def test_every_field_of_a_status_is_written() -> None:
    broker = broker_from_object(stored("Broker", status=True)).registration
    assert broker is not None
    # An operator from before spec.rack waits for definitions with this field, which is of no use.
    assert {**broker_status(broker), "rack": "a"} == COMPLETE["Broker"]["status"]
    partition = partition_from_object(stored("Partition", status=True)).state
    assert partition is not None
    assert partition_status(partition, changed_at=NOW) == COMPLETE["Partition"]["status"]
    record = controller_record_from_object(stored("BrokerCluster", status=True))
    by_brokers = {f"controller.{path}" for path in leaves(controller_status(record))}
    lists = cluster_record_from_object(stored("BrokerCluster", status=True))
    by_brokers |= set(leaves(cluster_record_status(lists, now=NOW)))
    by_operator = written_by_the_operator(of_cluster(stored("BrokerCluster")))
    assert by_brokers | by_operator == set(leaves(COMPLETE["BrokerCluster"]["status"]))
    actions, _ = of_topic(stored("ReplicatedTopic"))
    topic = COMPLETE["ReplicatedTopic"]["status"]
    told = {
        f"appliedConfig.{path}" for path in leaves(applied_config_status(applied_config(topic)))
    }
    assert written_by_the_operator(actions) | told == set(leaves(topic))

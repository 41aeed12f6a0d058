"""Conditions of clusters and topics: what is amiss, its reason, and the names in its sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.errors import (
    CoordinationError,
    StoreConflict,
    StoreForbidden,
    StoreNotFound,
    StoreRefused,
    StoreUnavailable,
)
from strandline_operator import kinds
from strandline_operator.actions import Action, ApplyStatus, PostEvent
from strandline_operator.apply import PartitionNotCreated
from strandline_operator.broker_settings import wanted_digest
from strandline_operator.conditions import NAMED_MAX, Readiness, listed
from strandline_operator.plan import plan_cluster
from strandline_operator.plan_topics import plan_topic
from strandline_operator.pods import read_pod
from strandline_operator.reading import read_cluster
from strandline_operator.refusals import FAILURES_TOLD, refusal_of
from tests.chart.cases import COMPLETE

from .samples import CONFIG, LATER, NOW, Manifest, World, cluster, partition, pod, registered, topic

REFUSAL = Readiness(reason="Forbidden", message="could not do it: 403 no", refused=True)
CREATE = PostEvent(about=World(topic()).cache.topics()[0].ref, reason="A", message="b")


def led(
    number: int,
    *,
    isr: list[int],
    leader: int = 0,
    least: int = 2,
    adding: tuple[int, ...] = (),
) -> Manifest:
    """Return a Partition of `orders` with replicas 0, 1 and 2 and this state."""
    found = partition(f"orders-{number}", "uid-orders", number)
    found["metadata"]["labels"] = {"strandline.dev/cluster": "default"}
    found["spec"]["replicas"] = [0, 1, 2]
    state = {**COMPLETE["Partition"]["status"], "reason": "", "elr": [], "elrBrokerEpochs": []}
    state |= {"replicas": [0, 1, 2], "leader": leader, "isr": isr, "minInsyncReplicas": least}
    state |= {"addingReplicas": list(adding), "removingReplicas": []}
    return {**found, "status": {**state, "isrBrokerEpochs": [1] * len(isr)}}


def running(*partitions: Manifest) -> World:
    """Return a cluster whose brokers are ready, with the topic `orders` of these Partitions."""
    orders = topic(partitions=len(partitions), status={"partitionsInitialised": len(partitions)})
    controlled = {**cluster(), "status": {"controller": {"brokerId": 1, "epoch": 1}}}
    world = World(controlled, orders, *partitions)
    world.perform(planned(world))
    status = {"readyReplicas": 3, "updateRevision": "r1", "observedGeneration": 1}
    world.put({**world.get(kinds.STATEFUL_SET, "default"), "status": status})
    digest = wanted_digest(read_cluster(cluster()))
    for number in range(3):
        world.put(pod(f"default-{number}", node=f"node-{number}"))
        world.put(registered(world, number, configDigest=digest))
    return world


def planned(world: World, *, now: str = NOW, refusal: Readiness | None = None) -> list[Action]:
    found = world.cache.cluster("default")
    assert found is not None
    return plan_cluster(*found, CONFIG, now=now, refusal=refusal)


def topic_planned(world: World, refusal: Readiness | None = None) -> list[Action]:
    found = world.cache.topic("orders")
    assert found is not None
    return plan_topic(*found, CONFIG, now=NOW, refusal=refusal)


def conditions_after(world: World, actions: list[Action], name: str = "") -> dict[str, Manifest]:
    """Perform a plan and return the stored conditions by type."""
    world.perform(actions)
    found = world.get(kinds.TOPIC if name else kinds.CLUSTER, name or "default")
    return {each["type"]: each for each in found["status"]["conditions"]}


def shown(conditions: dict[str, Manifest]) -> dict[str, str]:
    return {kind: f"{each['status']} {each['reason']}" for kind, each in conditions.items()}


# --- clusters ----------------------------------------------------------------------------


def test_a_healthy_cluster_says_so_in_every_condition() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    conditions = conditions_after(world, planned(world))
    assert {kind: each["status"] for kind, each in conditions.items()} == {
        "Ready": "True",
        "Available": "True",
        "MinIsrMet": "True",
        "SpreadMet": "True",
        "ConfigApplied": "True",
        "PodsCurrent": "True",
        "Rolling": "False",
        "DisruptionAllowed": "True",
        "Reconciled": "True",
        "Scaling": "False",
    }
    assert {each["observedGeneration"] for each in conditions.values()} == {1}


def test_a_cluster_with_a_partition_under_min_isr_is_not_ready_and_names_it() -> None:
    world = running(led(0, isr=[0, 1, 2]), led(1, isr=[0]))
    found = conditions_after(world, planned(world))
    assert shown(found)["Ready"] == "False UnderMinIsr"
    assert shown(found)["MinIsrMet"] == "False UnderMinIsr"
    assert shown(found)["Available"] == "True AllPartitionsOnline"
    assert found["MinIsrMet"]["message"] == (
        "too few replicas are in sync, so records with acks=all are refused: "
        "orders-1 (ISR [0] of [0, 1, 2], min 2)"
    )


def test_a_cluster_with_an_offline_partition_is_not_ready_and_names_it() -> None:
    world = running(led(0, isr=[0, 1, 2]), led(1, isr=[0, 1], leader=-1))
    found = conditions_after(world, planned(world))
    assert shown(found)["Ready"] == shown(found)["Available"] == "False PartitionsOffline"
    assert found["Available"]["message"] == (
        "1 of 2 partitions have no leader: orders-1 (waits for broker 0 or 1)"
    )


def test_what_partitions_without_a_leader_wait_for_is_told_within_a_bound() -> None:
    none = {"leader": -1, "isr": [], "isrBrokerEpochs": []}
    eligible = {"elr": [2, 0], "elrBrokerEpochs": [1, 1]}
    states = [{**led(n, isr=[1], leader=-1)["status"], "reason": "NoLive"} for n in range(15)]
    states[1] |= {**none, **eligible}
    states[2] |= eligible
    states[3] |= none
    states[4]["reason"] = "UncleanLastReplica"
    states[5]["reason"] = "StateLost"
    world = running(*({**led(n, isr=[1]), "status": each} for n, each in enumerate(states)))
    message = conditions_after(world, planned(world))["Available"]["message"]
    assert message == (
        "15 of 15 partitions have no leader: orders-0 (waits for broker 1), "
        "orders-1 (waits for broker 0 or 2), orders-10 (waits for broker 1), "
        "orders-11 (waits for broker 1), orders-12 (waits for broker 1), "
        "orders-13 (waits for broker 1), orders-14 (waits for broker 1), "
        "orders-2 (waits for broker 0 or 1 or 2), orders-3, orders-4 (UncleanLastReplica) "
        "and 5 more"
    )


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    conditions_after(world, planned(world))
    world.put(led(0, isr=[0]))
    found = conditions_after(world, planned(world, now=LATER))
    moved = {kind for kind, each in found.items() if each["lastTransitionTime"] == LATER}
    assert moved == {"Ready", "MinIsrMet", "DisruptionAllowed"}
    assert {found[kind]["lastTransitionTime"] for kind in found.keys() - moved} == {NOW}
    assert planned(world, now=LATER) == []


def test_the_order_in_which_conditions_are_stored_is_no_difference() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    conditions_after(world, planned(world))
    found = world.get(kinds.CLUSTER, "default")
    found["status"]["conditions"].reverse()
    world.put(found)
    assert planned(world) == []


def test_a_refused_action_of_a_cluster_is_told_once_and_until_it_succeeds() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    conditions_after(world, planned(world))
    event, status = planned(world, now=LATER, refusal=REFUSAL)
    assert isinstance(status, ApplyStatus)
    assert status.body["metadata"]["resourceVersion"] == "7"
    assert isinstance(event, PostEvent)
    assert (event.reason, event.message) == ("Forbidden", REFUSAL.message)
    found = conditions_after(world, [status])
    assert shown(found) == {
        "Ready": "False Forbidden",
        "Available": "True AllPartitionsOnline",
        "MinIsrMet": "True EnoughInSync",
        "SpreadMet": "True OneBrokerPerNode",
        "ConfigApplied": "True Applied",
        "PodsCurrent": "True AllCurrent",
        "Rolling": "Unknown NotReconciled",
        "DisruptionAllowed": "True OneBrokerMayGo",
        "Reconciled": "False Forbidden",
        "Scaling": "False ScalingDone",
        "Stalled": "True Forbidden",
    }
    assert found["Reconciled"]["message"] == REFUSAL.message
    assert planned(world, now=LATER, refusal=REFUSAL) == []
    after = conditions_after(world, planned(world))
    assert shown(after)["Reconciled"] == "True AllApplied"
    assert "Stalled" not in after


def test_a_refused_action_is_told_of_while_other_actions_wait() -> None:
    """The plan that tells of a refusal writes nothing else: it would be refused again."""
    plan = planned(World(cluster()), refusal=REFUSAL)
    assert [type(action) for action in plan] == [PostEvent, ApplyStatus]


# --- pods --------------------------------------------------------------------------------


def test_two_brokers_on_one_node_are_named_and_do_not_cost_readiness() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    world.put(pod("default-2", node="node-0"))
    found = conditions_after(world, planned(world))
    assert shown(found)["SpreadMet"] == "False NodeShared"
    assert found["SpreadMet"]["message"].endswith("default-0 and default-2 on node-0")
    assert shown(found)["Ready"] == "True AllBrokersReady"


def test_pods_of_an_old_revision_or_configuration_are_named() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    old = pod("default-1", node="node-1")
    old["metadata"]["labels"]["controller-revision-hash"] = "r0"
    old["spec"]["volumes"][1]["configMap"]["name"] = "default-config"
    world.put(old)
    found = conditions_after(world, planned(world))
    assert shown(found)["PodsCurrent"] == "False OldRevision"
    assert shown(found)["ConfigApplied"] == "False OldConfiguration"
    for kind in ("PodsCurrent", "ConfigApplied"):
        assert found[kind]["message"].endswith(": default-1")


def test_causes_stand_in_the_sentence_of_a_cluster_that_lacks_brokers() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    status = {"readyReplicas": 1, "updateRevision": "r1"}
    world.put({**world.get(kinds.STATEFUL_SET, "default"), "status": status})
    found = world.cache.cluster("default")
    assert found is not None
    causes = ("pod default-1: Unschedulable: 0/1 nodes", "pod default-2: ImagePullBackOff: no")
    plan = plan_cluster(found[0], replace(found[1], causes=causes), CONFIG, now=NOW)
    ready = conditions_after(world, plan)["Ready"]
    assert ready["reason"] == "BrokersNotReady"
    assert ready["message"] == "1 of 3 brokers are ready; " + "; ".join(causes)


WAITING = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x:1"'}
CRASHED = {
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
    "lastState": {"terminated": {"exitCode": 2, "message": "refusing to start:\n  HTTP_PORT\n"}},
}
UNPLACED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ({"conditions": [UNPLACED]}, "Unschedulable: 0/1"),
        (
            {"containerStatuses": [{"state": {"waiting": WAITING}}]},
            'ImagePullBackOff: Back-off pulling image "x:1"',
        ),
        (
            {"containerStatuses": [CRASHED]},
            "CrashLoopBackOff: exit code 2: refusing to start: HTTP_PORT",
        ),
        (
            {"containerStatuses": [{"state": {"terminated": {"exitCode": 137}}}]},
            "Terminated: exit code 137",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "low on disk"},
            "Evicted: low on disk",
        ),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        ({"containerStatuses": [{"state": {"running": {}}}]}, ""),
        ({}, ""),
    ],
)
def test_the_cause_of_a_pod_that_is_not_ready_is_quoted(status: Manifest, cause: str) -> None:
    found = read_pod(pod("default-0", ready=False, **status))
    assert found is not None
    assert (found.is_ready, found.cause) == (False, cause)
    running_one = read_pod(pod("default-0", **{**status, "phase": "Running"}))
    assert running_one is not None
    assert running_one.cause == ""


def test_a_pod_of_somebody_else_is_not_kept() -> None:
    other = pod("database-0")
    del other["metadata"]["labels"]["strandline.dev/cluster"]
    assert read_pod(other) is None
    world = running(led(0, isr=[0, 1, 2]))
    before = world.cache.cluster("default")
    world.put(other)
    assert world.cache.cluster("default") == before


# --- topics ------------------------------------------------------------------------------


def test_a_topic_under_min_isr_is_not_ready_and_names_its_partitions() -> None:
    world = running(led(0, isr=[0, 1]), led(1, isr=[1], leader=1))
    found = conditions_after(world, topic_planned(world), "orders")
    assert shown(found) == {
        "Ready": "False UnderMinIsr",
        "Reconciled": "True AllApplied",
        "ConfigApplied": "Unknown NotTold",
    }
    assert "orders-1 (ISR [1] of [0, 1, 2], min 2)" in found["Ready"]["message"]
    assert "orders-0" not in found["Ready"]["message"]


def test_a_topic_whose_partitions_are_being_created_is_reconciling() -> None:
    world = World(cluster(), topic())
    found = conditions_after(world, topic_planned(world), "orders")
    assert shown(found) == {
        "Ready": "False CreatingPartitions",
        "Reconciled": "False CreatingPartitions",
        "Reconciling": "True CreatingPartitions",
        "ConfigApplied": "Unknown NoReplicas",
    }
    found = conditions_after(world, topic_planned(world), "orders")
    assert shown(found) == {
        "Ready": "False PartitionsOffline",
        "Reconciled": "True AllApplied",
        "ConfigApplied": "Unknown NoReplicas",
    }


def test_a_refusal_of_a_topic_keeps_what_its_status_must_hold() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    conditions_after(world, topic_planned(world), "orders")
    before = world.get(kinds.TOPIC, "orders")["status"]
    found = conditions_after(world, topic_planned(world, REFUSAL), "orders")
    assert shown(found)["Reconciled"] == "False Forbidden"
    after = world.get(kinds.TOPIC, "orders")["status"]
    assert {**after, "conditions": []} == {**before, "conditions": []}


def test_a_topic_that_only_a_person_can_help_is_stalled() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    lost = led(0, isr=[0, 1, 2], leader=-1)
    lost["status"]["reason"] = "UncleanLastReplica"
    world.put(lost)
    found = conditions_after(world, topic_planned(world), "orders")
    assert shown(found)["Stalled"] == "True UncleanLastReplica"
    assert shown(found)["Reconciled"] == "True AllApplied"


# --- refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreForbidden("create x: 403 exceeded quota"), "Forbidden"),
        (StoreRefused("apply x: 422 a policy says no"), "Refused"),
        (StoreNotFound("apply x: 404 not here"), "NotFound"),
        (PartitionNotCreated("orders-0", StoreForbidden("create x: 403 no")), "Forbidden"),
    ],
)
def test_a_refusal_is_told_at_once_with_the_sentence_of_the_api_server(
    error: CoordinationError, reason: str
) -> None:
    told = refusal_of(CREATE, error, 1)
    assert told is not None
    assert (told.reason, told.ready, told.refused) == (reason, False, True)
    assert told.message == f"could not {CREATE}: {error}"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (StoreConflict("apply x: 409 changed"), "Conflicting"),
        (StoreUnavailable("apply x: 500 failed calling webhook"), "ApiServerFails"),
    ],
)
def test_what_may_heal_itself_is_told_when_it_did_not(
    error: CoordinationError, reason: str
) -> None:
    assert refusal_of(CREATE, error, FAILURES_TOLD - 1) is None
    told = refusal_of(CREATE, error, FAILURES_TOLD)
    assert told is not None
    assert told.reason == reason


def test_a_sentence_names_some_and_counts_the_others() -> None:
    names = [f"orders-{number:02}" for number in range(NAMED_MAX + 5)]
    assert listed(reversed(names)) == ", ".join(names[:NAMED_MAX]) + " and 5 more"
    assert listed(["b", "a"]) == "a, b"

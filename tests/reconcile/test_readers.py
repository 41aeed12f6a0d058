"""What Argo CD and programs that know kstatus make of our statuses, in every state of theirs.

Argo CD runs the check of docs/health.md, here as it is printed there, in Lua 5.1. The rules of
kstatus are written out below. Neither program itself is run.

Source: argoproj/argo-cd, util/lua/lua.go and docs/operator-manual/health.md; kubernetes-sigs/
cli-utils, pkg/kstatus/status/generic.go and status.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from lupa.lua51 import LuaRuntime

from strandline.errors import ExitCode
from strandline_operator import kinds
from strandline_operator.actions import CreateCluster
from strandline_operator.conditions import Readiness
from tests.support.commands import REPOSITORY

from .samples import Manifest, World, cluster, made, pod, registered, topic
from .test_conditions import REFUSAL, led, planned, running, topic_planned

PAGE = (REPOSITORY / "docs" / "health.md").read_text()
CHECKS: list[str] = re.findall(r"^```lua\n(.+?)^```$", PAGE, re.DOTALL | re.MULTILINE)
TABLES: list[str] = re.findall(
    r"^\| (?:Condition|Only while True) \|.+\n\|[-|]+\n((?:\|.+\n)+)", PAGE, re.MULTILINE
)
CONDITIONS = {row.split("`")[1] for table in TABLES for row in table.splitlines()}
KSTATUS_OF_ARGO = {"Healthy": "Current", "Progressing": "InProgress", "Degraded": "Failed"}


def argo(value: Manifest) -> tuple[str, str]:
    """Return (status, message) of the page's check for an object, as Argo CD asks for them."""
    lua = LuaRuntime()  # a fresh one for each object, as in Argo CD
    lua.globals()["obj"] = lua.table_from(value, recursive=True)
    found = lua.execute(CHECKS[0])
    return found["status"], found["message"]


def kstatus(value: Manifest) -> str:
    """Return what kstatus makes of an object of a kind that it does not know."""
    if value["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = value.get("status", {})
    if (
        status.get("observedGeneration", value["metadata"]["generation"])
        != (value["metadata"]["generation"])
    ):
        return "InProgress"
    conditions = status.get("conditions", [])
    for each in conditions:
        if (each["type"], each["status"]) == ("Reconciling", "True"):
            return "InProgress"
        if (each["type"], each["status"]) == ("Stalled", "True"):
            return "Failed"
    ready = {each["status"] for each in conditions if each["type"] == "Ready"}
    return "Current" if ready <= {"True"} else "InProgress"


# --- a state for every way that a status can be ------------------------------------------


def cluster_of(world: World, refusal: Readiness | None = None) -> Manifest:
    """Return the cluster after a plan of the operator."""
    world.perform(planned(world, refusal=refusal))
    return world.get(kinds.CLUSTER, "default")


def topic_of(world: World) -> Manifest:
    """Return the topic `orders` after a plan of the operator."""
    plan = topic_planned(world)
    # The store does not fill in the defaults of a cluster that is created.
    world.perform([each for each in plan if not isinstance(each, CreateCluster)])
    return world.get(kinds.TOPIC, "orders")


def healthy() -> World:
    return running(led(0, isr=[0, 1, 2]))


def with_a_foreign_account(owner: str) -> World:
    """Return a cluster that needs a name which another one, or nobody, has."""
    reference = {**kinds.CLUSTER.type_meta, "name": "default", "uid": owner, "controller": True}
    references = [reference] if owner else []
    account = made(kinds.SERVICE_ACCOUNT, "default-broker", ownerReferences=references)
    return World(cluster(), account)


def with_offline(reason: str = "") -> World:
    world = healthy()
    offline = led(0, isr=[0, 1, 2], leader=-1)
    offline["status"]["reason"] = reason
    world.put(offline)
    return world


def with_full_volumes() -> World:
    world = healthy()
    world.put(registered(world, 1, volumeFull=True))
    return world


def with_a_failed_disk() -> World:
    """Return a cluster one of whose brokers runs again after its log directory failed."""
    world = healthy()
    ended = {"exitCode": ExitCode.LOG_DIRECTORY_FAILED, "finishedAt": "2026-01-02T03:04:05Z"}
    statuses = [{"name": "broker", "ready": True, "lastState": {"terminated": ended}}]
    world.put(pod("default-1", containerStatuses=statuses))
    return world


def changed(world: World, **spec: object) -> World:
    found = world.get(kinds.CLUSTER, "default")
    world.put({**found, "spec": {**found["spec"], **spec}})
    return world


STATES: dict[str, tuple[Callable[[], Manifest], str, str]] = {
    "cluster healthy": (
        lambda: cluster_of(healthy()),
        "Healthy",
        "all 3 brokers are ready",
    ),
    "cluster starts": (
        lambda: cluster_of(World(cluster())),
        "Progressing",
        "0 of 3 brokers are ready",
    ),
    "cluster with a partition without a leader": (
        lambda: cluster_of(with_offline()),
        "Progressing",
        "1 of 1 partitions have no leader: orders-0",
    ),
    "cluster with a partition under min ISR": (
        lambda: cluster_of(running(led(0, isr=[0]))),
        "Progressing",
        "too few replicas are in sync",
    ),
    "cluster with a full volume": (
        lambda: cluster_of(with_full_volumes()),
        "Healthy",
        "all 3 brokers are ready",
    ),
    "cluster with a broker that ended because of its disk": (
        lambda: cluster_of(with_a_failed_disk()),
        "Healthy",
        "all 3 brokers are ready",
    ),
    "cluster that rolls": (
        lambda: cluster_of(changed(healthy(), pod={"labels": {"a": "b"}})),
        "Healthy",
        "all 3 brokers are ready",
    ),
    "cluster that grows": (
        lambda: cluster_of(changed(healthy(), replicas=4)),
        "Progressing",
        "3 of 4 brokers are ready",
    ),
    "cluster whose write was refused": (
        lambda: cluster_of(healthy(), refusal=REFUSAL),
        "Degraded",
        "could not do it: 403 no",
    ),
    "cluster with a version that nobody knows": (
        lambda: cluster_of(changed(healthy(), version="7.0.0")),
        "Degraded",
        "7.0.0",
    ),
    "cluster with a name that is taken": (
        lambda: cluster_of(with_a_foreign_account("")),
        "Degraded",
        "is not this cluster's",
    ),
    "cluster that waits for a deletion": (
        lambda: cluster_of(with_a_foreign_account("old")),
        "Progressing",
        "is not gone yet",
    ),
    "topic healthy": (
        lambda: topic_of(healthy()),
        "Healthy",
        "all 1 partitions have a leader",
    ),
    "topic whose Partitions are being created": (
        lambda: topic_of(World(cluster(), topic())),
        "Progressing",
        "are being created",
    ),
    "topic without a leader": (
        lambda: topic_of(with_offline()),
        "Progressing",
        "0 of 1 partitions have a leader",
    ),
    "topic under min ISR": (
        lambda: topic_of(running(led(0, isr=[0]))),
        "Progressing",
        "too few replicas are in sync",
    ),
    "topic whose state was lost": (
        lambda: topic_of(with_offline("StateLost")),
        "Progressing",
        "was lost",
    ),
    "topic that needs a person": (
        lambda: topic_of(with_offline("UncleanLastReplica")),
        "Degraded",
        "may have lost records",
    ),
    "topic whose name is taken": (
        lambda: topic_of(World(cluster(), topic(), topic("a-first", topicName="orders"))),
        "Degraded",
        "has the name orders already",
    ),
    "topic of no cluster": (
        lambda: topic_of(World(topic(clusterRef="other"))),
        "Degraded",
        "there is no BrokerCluster other",
    ),
    "topic of a cluster that is being created": (
        lambda: topic_of(World(topic())),
        "Progressing",
        "is being created",
    ),
    "topic with more replicas than brokers": (
        lambda: topic_of(World(cluster(), topic(replicationFactor=5))),
        "Degraded",
        "spec.replicationFactor is 5",
    ),
}
"""A state of an object to the health that Argo CD shows, and a part of the message beside it."""


@pytest.mark.parametrize("state", STATES)
def test_argo_cd_shows_the_health_and_the_sentence_of_a_state(state: str) -> None:
    make, health, message = STATES[state]
    shown, told = argo(make())
    assert shown == health
    assert message in told


@pytest.mark.parametrize("state", STATES)
def test_kstatus_reads_a_state_as_argo_cd_does(state: str) -> None:
    make, health, _ = STATES[state]
    value = make()
    assert kstatus(value) == KSTATUS_OF_ARGO[health]
    conditions = {each["type"]: each for each in value["status"]["conditions"]}
    assert not {"Stalled", "Reconciling"} <= conditions.keys()
    # True or absent: kstatus's absence means that all is well.
    marks = [conditions[kind] for kind in ("Stalled", "Reconciling") if kind in conditions]
    assert {each["status"] for each in marks} <= {"True"}
    assert bool(marks) == (health == "Degraded" or conditions["Reconciled"]["status"] != "True")


@pytest.mark.parametrize("state", STATES)
def test_a_spec_that_the_operator_has_not_seen_is_in_progress(state: str) -> None:
    value = STATES[state][0]()
    value["metadata"]["generation"] += 1
    assert argo(value) == ("Progressing", "the operator has not seen the last change of the spec")
    assert kstatus(value) == "InProgress"


@pytest.mark.parametrize("status", [{}, {"controller": {"brokerId": 1, "epoch": 1}}, None])
def test_an_object_without_the_operators_status_is_progressing(status: Manifest | None) -> None:
    value = cluster() if status is None else {**cluster(), "status": status}
    assert argo(value)[0] == "Progressing"


@pytest.mark.parametrize("state", STATES)
def test_an_object_that_is_being_deleted_breaks_no_check(state: str) -> None:
    """Argo CD itself says that its deletion is pending, before it would ask the check."""
    make, health, _ = STATES[state]
    value = make()
    value["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert argo(value)[0] == health
    assert kstatus(value) == "Terminating"


def test_every_condition_of_the_operator_is_in_one_of_the_states() -> None:
    found = {
        condition["type"]
        for make, _, _ in STATES.values()
        for condition in make()["status"]["conditions"]
    }
    neither_program_reads = {
        "VolumesTooSmall",
        "ExternalListener",
        "PartitionsCopied",
        "RacksKnown",
    }
    assert CONDITIONS - found == neither_program_reads


def test_the_page_has_one_check_and_its_key_names_our_kinds() -> None:
    assert len(CHECKS) == 1
    key = CHECKS[0].splitlines()[0].removeprefix("-- ")
    group, kind = key.removeprefix("resource.customizations.health.").split("_")
    assert (group, kind) == (kinds.CLUSTER.resource.group, kinds.CLUSTER.kind)
    assert f"under the same key with {kinds.TOPIC.kind}" in PAGE

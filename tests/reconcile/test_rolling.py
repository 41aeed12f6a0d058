"""Which pod is replaced next: order, canary, one at a time, pause, and what is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_operator import kinds
from strandline_operator.actions import ApplyObject, EvictPod, PostEvent

from .samples import Manifest, World, cluster, pod
from .test_conditions import REFUSAL, conditions_after, led, planned, running

NEW, OLD, OLDEST = "r1", "r0", "r00"
PULL: dict[str, Any] = {
    "containerStatuses": [
        {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling x"}}}
    ]
}


def register(world: World, number: int, *, uid: str = "") -> None:
    """Let a broker register from its pod, or from the pod with that uid."""
    name = f"default-{number}"
    status = {
        "brokerEpoch": 5,
        "cleanSinceEpoch": 1,
        "incarnation": f"{uid or f'uid-{name}'}/1",
        "listeners": [],
        "logDirId": "d",
        "protocolVersion": 1,
    }
    world.put({**world.get(kinds.BROKER, name), "status": status})


def run(world: World, number: int, revision: str, **status: Any) -> None:
    """Put a broker's pod of a revision."""
    found = pod(f"default-{number}", node=f"node-{number}", **status)
    found["metadata"]["labels"]["controller-revision-hash"] = revision
    world.put(found)


def allow(world: World, evictions: int) -> None:
    found = world.get(kinds.POD_DISRUPTION_BUDGET, "default-brokers")
    world.put({**found, "status": {"disruptionsAllowed": evictions, "observedGeneration": 1}})


def old_cluster(*partitions: Manifest, controller: int = 0) -> World:
    """Return a cluster all of whose pods are of an older revision."""
    world = running(*(partitions or (led(0, isr=[0, 1, 2]),)))
    lease = world.get(kinds.LEASE, "default-controller")
    lease["spec"] = {"holderIdentity": f"broker-{controller}/uid-default-{controller}/1"}
    world.put(lease)
    allow(world, 1)
    for number in range(3):
        register(world, number)
        run(world, number, OLD)
    return world


def taken(world: World) -> list[str]:
    """Plan, perform, and return the pods that were taken; a replacement does not come yet."""
    plan = planned(world)
    world.perform(plan)
    return [each.pod.name for each in plan if isinstance(each, EvictPod)]


def rolling(world: World) -> Manifest:
    """Return the condition, after a plan that took no pod."""
    plan = planned(world)
    assert not [each for each in plan if isinstance(each, EvictPod)]
    return conditions_after(world, plan)["Rolling"]


def said(world: World) -> tuple[str, str]:
    found = rolling(world)
    return f"{found['status']} {found['reason']}", str(found["message"])


# --- order -------------------------------------------------------------------------------


@pytest.mark.parametrize(("controller", "order"), [(0, [1, 2, 0]), (1, [0, 2, 1]), (2, [0, 1, 2])])
def test_brokers_go_by_id_and_the_controller_last(controller: int, order: list[int]) -> None:
    world = old_cluster(controller=controller)
    for number in order:
        assert taken(world) == [f"default-{number}"]
        run(world, number, NEW)
    assert said(world) == ("False RollingDone", "no pod is of another revision than r1")


def test_a_controller_that_moves_meanwhile_is_still_the_last() -> None:
    world = old_cluster(controller=2)
    assert taken(world) == ["default-0"]
    run(world, 0, NEW)
    lease = world.get(kinds.LEASE, "default-controller")
    world.put({**lease, "spec": {"holderIdentity": "broker-1/uid-default-1/1"}})
    assert taken(world) == ["default-2"]


def test_the_eviction_is_of_this_pod_whatever_changed_of_it_and_an_event_tells_it() -> None:
    world = old_cluster(controller=2)
    *_, evict, event = planned(world)
    assert isinstance(evict, EvictPod)
    assert (evict.pod.uid, evict.resource_version) == ("uid-default-0", "")
    assert evict.in_sync == {"strandline.dev/cluster": "default"}
    assert isinstance(event, PostEvent)
    assert (event.reason, event.is_warning) == ("BrokerRestarting", False)
    assert event.message == (
        "broker 0 restarts for revision r1: all replicas are in sync; 2 older pods after it"
    )


def test_the_condition_says_who_restarts_before_the_pod_goes() -> None:
    world = old_cluster(controller=2)
    found = conditions_after(world, planned(world))["Rolling"]
    assert (found["status"], found["reason"]) == ("True", "Restarting")
    assert found["observedGeneration"] == 1
    assert "broker 0 restarts for revision r1" in found["message"]


def test_an_unready_pod_goes_before_all_others() -> None:
    world = old_cluster()
    run(world, 2, OLD, ready=False)
    assert taken(world) == ["default-2"]


# --- one at a time, and a canary ---------------------------------------------------------


def test_nothing_is_taken_while_a_broker_has_no_pod() -> None:
    world = old_cluster()
    world.remove(kinds.POD, "default-1")
    assert said(world) == (
        "True WaitingForPod",
        "broker 1 has no pod; until then default-2 stays",
    )


def test_nothing_is_taken_while_a_pod_goes() -> None:
    world = old_cluster()
    found = world.get(kinds.POD, "default-1")
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.put(found)
    assert said(world)[0] == "True WaitingForPod"
    assert "pod default-1 is being deleted" in said(world)[1]


def test_an_evicted_pod_that_watches_still_show_keeps_the_others() -> None:
    world = old_cluster(controller=2)
    (evict,) = [each for each in planned(world) if isinstance(each, EvictPod)]
    world.cache.evicted(evict.pod)
    assert "pod default-0 is being deleted" in said(world)[1]
    run(world, 0, OLD)
    assert "pod default-0 is being deleted" in said(world)[1]
    replacement = pod("default-0")
    replacement["metadata"]["uid"] = "uid-of-another"
    world.put(replacement)
    register(world, 0, uid="uid-of-another")
    assert taken(world) == ["default-1"]


def test_a_new_pod_that_is_not_ready_keeps_all_others_and_its_cause_is_told() -> None:
    world = old_cluster()
    run(world, 1, NEW, ready=False, **PULL)
    assert said(world) == (
        "True WaitingForPod",
        (
            "pod default-1 of revision r1 is not ready: ImagePullBackOff: Back-off pulling x; "
            "until then default-2 stays"
        ),
    )


def test_a_stuck_pod_goes_at_once_when_the_spec_is_changed_back() -> None:
    world = running(led(0, isr=[0, 2]))
    allow(world, 0)
    run(world, 1, OLDEST, ready=False, **PULL)
    plan = planned(world)
    world.perform(plan)
    assert [each.pod.name for each in plan if isinstance(each, EvictPod)] == ["default-1"]
    (evict,) = [each for each in plan if isinstance(each, EvictPod)]
    assert (evict.in_sync, evict.resource_version) == ({}, "7")


def test_a_stuck_pod_goes_at_once_when_the_spec_is_changed_again() -> None:
    world = old_cluster(led(0, isr=[0, 2]))
    run(world, 1, OLDEST, ready=False, **PULL)
    assert taken(world) == ["default-1"]
    run(world, 1, NEW, ready=False, **PULL)
    assert said(world)[0] == "True WaitingForPod"


def test_pods_that_are_all_stuck_are_tried_with_one_of_them() -> None:
    world = old_cluster()
    for number in range(3):
        run(world, number, OLD, ready=False, **PULL)
    assert taken(world) == ["default-0"]
    run(world, 0, NEW, ready=False)
    assert said(world)[0] == "True WaitingForPod"
    run(world, 0, NEW)
    assert taken(world) == ["default-1"]


def test_a_pod_whose_process_restarts_is_waited_for() -> None:
    """It registered before, and may be reading its log: nothing is won by another restart."""
    world = old_cluster(led(0, isr=[0, 2]))
    run(world, 1, OLD, ready=False)
    assert said(world)[0] == "True WaitingForInSync"


def test_while_the_first_of_them_has_gone_and_its_next_pod_is_not_seen_the_others_stay() -> None:
    world = old_cluster()
    for number in range(3):
        run(world, number, OLD, ready=False, **PULL)
    assert taken(world) == ["default-0"]
    assert "broker 0 has no pod" in said(world)[1]


def test_a_pod_that_only_cannot_be_seen_is_not_stuck() -> None:
    world = old_cluster(led(0, isr=[0, 2]))
    run(world, 1, OLD, ready=False, reason="NodeLost")
    assert said(world)[0] == "True WaitingForInSync"


# --- what is waited for ------------------------------------------------------------------


def test_nobody_goes_while_replicas_are_behind_and_the_sentence_names_them() -> None:
    world = old_cluster(led(0, isr=[0, 1, 2]), led(1, isr=[0, 1], least=1))
    assert said(world) == (
        "True WaitingForInSync",
        (
            "not all replicas are in sync: orders-1 (ISR [0, 1] of [0, 1, 2], min 1); "
            "until then default-1 stays"
        ),
    )


def test_nobody_goes_while_a_partition_has_no_state() -> None:
    bare = led(0, isr=[0])
    del bare["status"]
    world = old_cluster(bare)
    assert "orders-0 has no state yet" in said(world)[1]


def test_a_partition_without_a_spare_replica_does_not_stop_the_roll() -> None:
    assert taken(old_cluster(led(0, isr=[0, 1, 2], least=3))) == ["default-1"]


def test_a_broker_must_have_registered_from_its_present_pod() -> None:
    world = old_cluster()
    register(world, 2, uid="uid-of-an-earlier-pod")
    assert said(world)[0] == "True WaitingForRegistration"
    assert "brokers [2]" in said(world)[1]


def test_a_closed_budget_is_waited_for() -> None:
    world = old_cluster()
    allow(world, 0)
    assert said(world)[0] == "True WaitingForBudget"
    allow(world, 1)
    assert taken(world) == ["default-1"]


@pytest.mark.parametrize("value", ["true", "yes", ""])
def test_the_annotation_holds_the_roll_until_it_goes(value: str) -> None:
    world = old_cluster()
    run(world, 2, OLD, ready=False, **PULL)
    whole = world.get(kinds.CLUSTER, "default")
    whole["metadata"]["annotations"] = {"strandline.dev/pause-rolling": value}
    world.put(whole)
    assert said(world) == (
        "True Paused",
        (
            "annotation strandline.dev/pause-rolling keeps pods of older revisions: "
            "default-0, default-1, default-2"
        ),
    )
    whole = world.get(kinds.CLUSTER, "default")
    whole["metadata"]["annotations"] = {"strandline.dev/pause-rolling": "false"}
    world.put(whole)
    assert taken(world) == ["default-2"]


def test_nothing_is_taken_before_the_revision_is_that_of_the_present_spec() -> None:
    world = old_cluster()
    changed = {**world.get(kinds.CLUSTER, "default"), "spec": cluster(timing="cloud")["spec"]}
    world.put(changed)
    plan = planned(world)
    assert any(isinstance(each, ApplyObject) for each in plan)
    assert conditions_after(world, plan)["Rolling"]["reason"] == "RevisionUnknown"
    found = world.get(kinds.STATEFUL_SET, "default")
    status = {"readyReplicas": 3, "updateRevision": OLD, "observedGeneration": 0}
    world.put({**found, "status": status})
    assert rolling(world)["reason"] == "RevisionUnknown"


def test_nothing_is_taken_while_the_operator_cannot_write() -> None:
    world = old_cluster()
    plan = planned(world, refusal=REFUSAL)
    assert not [each for each in plan if isinstance(each, EvictPod)]
    assert conditions_after(world, plan)["Rolling"]["reason"] == "NotReconciled"


def test_a_roll_that_waits_writes_nothing_again() -> None:
    world = old_cluster()
    allow(world, 0)
    rolling(world)
    assert planned(world) == []


def test_other_pods_with_the_clusters_label_are_left_alone() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    foreign = pod("somebody")
    foreign["metadata"]["labels"]["controller-revision-hash"] = OLD
    world.put(foreign)
    assert said(world)[0] == "False RollingDone"

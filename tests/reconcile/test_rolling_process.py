"""Pods of a real API server are replaced one by one; tests stand in for kubelets and brokers."""

from __future__ import annotations

import json
import shlex
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.killed_operator import run_killed_after_each_write
from tests.reconcile.test_conditions import led
from tests.reconcile.test_operator_process import topic
from tests.reconcile.test_pods_process import HEALTH, PARTITIONS, patch_status
from tests.reconcile.test_refusals_process import conditions, events, shown
from tests.support.documented import commands

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

BROKERS = "brokers.strandline.dev"
LAST, OTHERS = 1, (0, 2)
"""The broker that is the controller, and the others."""
ENDS = "strandline.dev/a-kubelet-ends-it"
"""Finalizer that keeps a pod until `Cluster` ends it."""
REVISION = "controller-revision-hash"
ROLLED = "False RollingDone"
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
PULL = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
KILLS_MIN = 6
"""Of each pod at least the eviction and the status that tells of it."""
CONTAINER = {"name": "broker", "image": "x", "imageID": "", "ready": False, "restartCount": 0}


class Cluster:
    """Three pods without kubelets, and brokers that have only what they registered."""

    def __init__(self, operator: OperatorProcess) -> None:
        self.operator = operator
        self._epochs, self._versions = count(1), count()
        operator.kubectl("apply", "-f", "-", stdin=topic("orders", partitions=1))
        operator.wait_for("Partition", lambda: operator.get(PARTITIONS, "orders-0"))
        operator.wait_for("pods", lambda: len(operator.list("pods")) == 3)
        holder = {"spec": {"holderIdentity": f"broker-{LAST}/somewhere/1"}}
        self._patch("lease", "default-controller", holder)
        self.in_sync(0, 1, 2)
        for number in range(3):
            self.wake(number)
        operator.wait_for("an open budget", lambda: self.evictions() == 1)
        self.wait_for_rolling(ROLLED)

    def _patch(self, kind: str, name: str, patch: dict[str, Any]) -> None:
        self.operator.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch))

    def in_sync(self, *isr: int) -> None:
        """Let the controller write the ISR of the only partition."""
        state = {**led(0, isr=list(isr), leader=isr[-1])["status"], "recovery": "Clean"}
        version = next(self._versions)
        state |= {"leaderEpoch": version, "partitionEpoch": version}
        patch_status(self.operator, PARTITIONS, "orders-0", state)

    def wake(self, number: int) -> None:
        """Let a broker register from its pod, and a kubelet find it ready.

        The finalizer comes first: a pod that waits for its restart may be evicted at once.
        """
        name, epoch = f"default-{number}", next(self._epochs)
        self._patch("pod", name, {"metadata": {"finalizers": [ENDS]}})
        registration = {
            "brokerEpoch": epoch,
            "cleanSinceEpoch": epoch,
            "incarnation": f"{self.uid(number)}/1",
            "listeners": [{"name": "INTERNAL", "host": "h", "port": 1}],
            "logDirId": "d",
            "protocolVersion": 1,
        }
        patch_status(self.operator, BROKERS, name, registration)
        held = [{"type": "Ready", "status": "True"}]
        patch_status(self.operator, "pod", name, {"phase": "Running", "conditions": held})

    def let_go(self, number: int) -> None:
        """End a pod as a kubelet does: not before the disruption controller saw that it goes.

        Until then the budget holds the pod's name for disrupted, whoever has it, for two minutes.
        """
        name = f"default-{number}"
        metadata = (self.operator.get("pod", name) or {}).get("metadata", {})
        budget = self.operator.get("pdb", "default-brokers") or {}
        is_counted = name in budget.get("status", {}).get("disruptedPods", {})
        if "deletionTimestamp" in metadata and "finalizers" in metadata and not is_counted:
            self._patch("pod", name, {"metadata": {"finalizers": None}})

    def uid(self, number: int) -> str:
        found = self.operator.get("pod", f"default-{number}") or {}
        is_going = "deletionTimestamp" in found.get("metadata", {})
        return "" if is_going else str(found.get("metadata", {}).get("uid", ""))

    def uids(self) -> dict[int, str]:
        return {number: self.uid(number) for number in range(3)}

    def evictions(self) -> int:
        budget = self.operator.get("pdb", "default-brokers") or {}
        return int(budget.get("status", {}).get("disruptionsAllowed", 0))

    def revision(self) -> str:
        found = self.operator.get("statefulset", "default") or {}
        return str(found["status"]["updateRevision"])

    def wait_for_rolling(self, wanted: str, part: str = "") -> None:
        """Wait until the condition Rolling has this status and reason, and says so."""

        def is_shown() -> bool:
            found = conditions(self.operator, "default", "bc").get("Rolling", {})
            says = f"{found.get('status')} {found.get('reason')}"
            return says == wanted and part in found["message"]

        self.operator.wait_for(f"Rolling {wanted} {part}", is_shown, 40_000)

    def wait_for_replacement(self, number: int, before: dict[int, str]) -> None:
        """Wait for another pod of a broker; no other broker's pod may have changed."""

        def is_replaced() -> bool:
            self.let_go(number)
            return self.uid(number) not in ("", before[number])

        self.operator.wait_for(f"another pod of {number}", is_replaced, 40_000)
        others = {each: uid for each, uid in self.uids().items() if each != number}
        assert others == {each: uid for each, uid in before.items() if each != number}

    def set_label(self, value: str | None) -> None:
        """Change the pods' template by a field of the spec."""
        self._patch("bc", "default", {"spec": {"pod": {"labels": {"team": value}}}})


def documented() -> list[list[str]]:
    """Return the arguments of the commands that the page gives for rolls."""
    found = [each.line for each in commands(HEALTH) if each.heading.startswith("Rolling")]
    return [shlex.split(line.replace("NAME", "default"))[1:] for line in found]


def test_kubectl_rollout_restart_takes_one_pod_after_the_other_and_the_controller_last(
    operator: OperatorProcess,
) -> None:
    cluster = Cluster(operator)
    before = cluster.uids()
    restart, pause, go_on = documented()
    operator.kubectl(*pause)
    first = cluster.revision()
    operator.kubectl(*restart)
    operator.wait_for("a revision", lambda: cluster.revision() != first)
    cluster.wait_for_rolling("True Paused", "default-0, default-1, default-2")
    assert cluster.uids() == before
    operator.kubectl(*go_on)
    for number in (*OTHERS, LAST):
        cluster.wait_for_replacement(number, before)
        left = [each for each in range(3) if each != number]
        cluster.in_sync(*left)
        before = cluster.uids()
        if number == LAST:
            cluster.wait_for_rolling(ROLLED)
        else:
            cluster.wait_for_rolling("True WaitingForPod", f"pod default-{number} of revision ")
        cluster.wake(number)
        if number != LAST:
            behind = f"orders-0 (ISR {left} of [0, 1, 2], min 2)"
            cluster.wait_for_rolling("True WaitingForInSync", behind)
            assert cluster.uids() == before
        cluster.in_sync(0, 1, 2)
    cluster.wait_for_rolling(ROLLED)
    assert cluster.uids() == before
    pods = operator.list("pods")
    assert {each["metadata"]["labels"][REVISION] for each in pods} == {cluster.revision()}
    template = (operator.get("statefulset", "default") or {})["spec"]["template"]
    assert RESTARTED_AT in template["metadata"]["annotations"]
    told = events(operator, "default", "BrokerRestarting")
    assert sorted(each.split(" restarts")[0] for each in told) == [
        *("broker 0", "broker 1", "broker 2")
    ]


def test_an_image_that_cannot_be_pulled_costs_one_pod_and_going_back_replaces_it(
    operator: OperatorProcess,
) -> None:
    cluster = Cluster(operator)
    before, first = cluster.uids(), cluster.revision()
    cluster.set_label("new")
    cluster.wait_for_replacement(0, before)
    assert cluster.revision() != first
    cluster.in_sync(1, 2)
    waiting = [{**CONTAINER, "state": {"waiting": PULL}}]
    patch_status(operator, "pod", "default-0", {"containerStatuses": waiting})

    def is_told() -> bool:
        message = conditions(operator, "default", "bc")["Rolling"]["message"]
        return "is not ready: ImagePullBackOff: Back-off pulling image" in message

    operator.wait_for("the cause", is_told)
    assert shown(operator, "default", "bc", "Rolling") == "True WaitingForPod"
    stuck = cluster.uids()
    assert {each: stuck[each] for each in (1, 2)} == {each: before[each] for each in (1, 2)}
    cluster.set_label(None)
    cluster.wait_for_replacement(0, stuck)
    assert cluster.revision() == first
    cluster.wait_for_rolling(ROLLED)
    assert {each: cluster.uid(each) for each in (1, 2)} == {each: before[each] for each in (1, 2)}


def test_a_broker_that_reads_its_logs_is_not_restarted_until_it_has(
    operator: OperatorProcess,
) -> None:
    """Its pod is of an old revision, unready, and not the one that it registered from."""
    cluster = Cluster(operator)
    operator.kubectl("delete", "pod", "default-0", "--wait=false")
    cluster.wait_for_replacement(0, cluster.uids())
    reads = {"readingLogs": f"{cluster.uid(0)}/2"}
    patch_status(operator, BROKERS, "default-0", reads)
    before = cluster.uids()
    cluster.set_label("new")
    cluster.wait_for_rolling("True WaitingForLogs", "brokers [0] read their logs")
    assert cluster.uids() == before
    patch_status(operator, BROKERS, "default-0", {"readingLogs": None})
    cluster.wake(0)
    cluster.wait_for_replacement(0, before)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_operator_killed_after_each_of_its_writes_restarts_every_broker_once(
    operator: OperatorProcess, tmp_path: Path
) -> None:
    cluster = Cluster(operator)
    before = cluster.uids()
    awake, replaced = dict(before), list[int]()

    def is_done() -> bool:
        """Stand in for kubelet and brokers; tell whether the roll is over."""
        now = cluster.uids()
        changed = [number for number in now if now[number] != awake[number]]
        assert len(changed) <= 1, f"{changed} at once"
        for number in changed:
            cluster.let_go(number)
            if now[number]:
                replaced.append(number)
                cluster.wake(number)
                awake[number] = now[number]
        return len(replaced) == 3 and shown(operator, "default", "bc", "Rolling") == ROLLED

    begin = partial(cluster.set_label, "new")
    killed = run_killed_after_each_write(operator, tmp_path, begin, is_done, within_ms=60_000)
    assert killed >= KILLS_MIN
    assert replaced == [*OTHERS, LAST]
    assert cluster.uids() == awake
    revisions = {each["metadata"]["labels"][REVISION] for each in operator.list("pods")}
    assert revisions == {cluster.revision()}

"""An operator killed after each of its writes scales brokers as one that was not.

There is no kubelet and no broker: tests stand in for both, and for the controller.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.chart.cases import COMPLETE
from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.killed_operator import run_killed_after_each_write
from tests.reconcile.test_conditions import led
from tests.reconcile.test_operator_process import topic
from tests.reconcile.test_pods_process import PARTITIONS
from tests.support.object_reader import Manifest

pytestmark = [pytest.mark.long, pytest.mark.timeout(420)]

KINDS = f"{PARTITIONS},statefulsets,pods,brokers.strandline.dev,bc"
"""Partitions are read first: they name ever fewer brokers, and pods go after that."""
FEW, MANY = 3, 4
FACTOR, NUMBER = 2, 6
SHARE = NUMBER * FACTOR // MANY
BROKER = f"default-{MANY - 1}"
"""The broker that comes and goes."""
KILLS_MIN = SHARE + 1
"""The moves and what makes or removes the broker; a kill may come after two writes."""
WITHIN_MS = 120_000


class Scaled:
    """A cluster of pods that nobody runs; what its brokers and its controller would write."""

    def __init__(self, operator: OperatorProcess) -> None:
        self.operator = operator
        self._awake: set[str] = set()
        orders = topic("orders", partitions=NUMBER, replicationFactor=FACTOR)
        operator.kubectl("apply", "-f", "-", stdin=orders)
        operator.wait_for("Partitions", lambda: len(operator.list(PARTITIONS)) == NUMBER)
        operator.wait_for("StatefulSet", lambda: operator.get("statefulset", "default"))
        self.wait_until_scaled(FEW)

    def ask_for(self, brokers: int) -> None:
        self.operator.kubectl("scale", "bc", "default", f"--replicas={brokers}")

    def wait_until_scaled(self, brokers: int) -> None:
        """Wait for an operator that is not killed."""
        what = f"{brokers} brokers"
        self.operator.wait_for(what, partial(self.has_scaled, brokers), WITHIN_MS)

    def has_scaled(self, brokers: int) -> bool:
        """Let brokers, kubelets and the controller act; tell whether nothing is left to do."""
        found = self.operator.list(KINDS)
        written = [*self._woken(found), *self._followed(found)]
        if written:
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": written})
            self.operator.kubectl("replace", "--subresource=status", "-f", "-", stdin=text)
            self._awake.update(_uid(each) for each in written)
            return False
        (cluster,) = _of("BrokerCluster", found)
        held = _scaling(cluster)
        is_of_spec = held["observedGeneration"] == cluster["metadata"]["generation"]
        is_done = is_of_spec and held["reason"] == "ScalingDone"
        return is_done and bool(cluster["status"]["spreadOver"] == brokers)

    def _woken(self, found: list[Manifest]) -> Iterator[Manifest]:
        """Let new pods' brokers register, and a kubelet find the pods ready."""
        brokers = {each["metadata"]["name"]: each for each in _of("Broker", found)}
        for pod in _of("Pod", found):
            broker = brokers[pod["metadata"]["name"]]
            if _uid(pod) not in self._awake:
                # A broker that comes back registers above the epoch that it had.
                epoch = broker.get("status", {}).get("brokerEpoch", 0) + 1
                told = {"incarnation": f"{_uid(pod)}/1", "volumeFull": False, "brokerEpoch": epoch}
                told["cleanSinceEpoch"] = epoch
                yield {**broker, "status": {**COMPLETE["Broker"]["status"], **told}}
                held = [{"type": "Ready", "status": "True"}]
                yield {**pod, "status": {"phase": "Running", "conditions": held}}

    def _followed(self, found: list[Manifest]) -> Iterator[Manifest]:
        """Let the controller follow one Partition, and all new ones.

        A broker that a Partition names must not have lost its pod until then.
        """
        partitions, (stateful_set,) = _of("Partition", found), _of("StatefulSet", found)
        pods = stateful_set["spec"]["replicas"]
        named = {each for one in partitions for each in _named(one)}
        assert max(named) < pods, f"{pods} pods, but Partitions name brokers {sorted(named)}"
        is_first = True
        for each in partitions:
            replicas = each["spec"]["replicas"]
            is_new = "status" not in each
            if is_new or (is_first and each["status"]["replicas"] != replicas):
                is_first = False
                state = led(0, isr=replicas, leader=replicas[0])["status"]
                epoch = 0 if is_new else each["status"]["partitionEpoch"] + 1
                state |= {"replicas": replicas, "leaderEpoch": epoch, "partitionEpoch": epoch}
                yield {**each, "status": state}

    def pods(self) -> int:
        return int((self.operator.get("statefulset", "default") or {})["spec"]["replicas"])

    def uids(self) -> dict[str, str]:
        """Return the pods of the brokers that stay: nobody restarts for another one."""
        found = {each["metadata"]["name"]: each for each in self.operator.list("pods")}
        return {name: found[name]["metadata"]["uid"] for name in sorted(found) if name != BROKER}

    def specs(self) -> dict[str, list[int]]:
        found = self.operator.list(PARTITIONS)
        return {each["metadata"]["name"]: each["spec"]["replicas"] for each in found}

    def write(self, specs: dict[str, list[int]]) -> None:
        """Move partitions by hand, and wait until that is over."""
        for name, replicas in specs.items():
            patch = f'{{"spec":{{"replicas":{replicas}}}}}'
            self.operator.kubectl("patch", PARTITIONS, name, "--type=merge", "-p", patch)
        self.wait_until_scaled(FEW)
        assert self.specs() == specs, "the operator leaves alone what people move"

    def end(self) -> dict[str, Any]:
        """Return what a scale of brokers leaves behind, but for times and versions."""
        cluster = self.operator.get("bc", "default") or {}
        status, held = cluster["status"], _scaling(cluster)
        brokers = self.operator.list("brokers.strandline.dev")
        return {
            "pods": self.pods(),
            "replicas": status["replicas"],
            "spreadOver": status["spreadOver"],
            "Scaling": (held["status"], held["reason"], held["message"]),
            "specs": self.specs(),
            "removed": {each["metadata"]["name"]: each["spec"].get("removed") for each in brokers},
            "rows": [each["id"] for each in status["brokers"]],
            "moving": status["partitions"]["moving"],
        }


def _of(kind: str, found: list[Manifest]) -> list[Manifest]:
    return [each for each in found if each["kind"] == kind]


def _uid(value: Manifest) -> str:
    return str(value["metadata"]["uid"])


def _scaling(cluster: Manifest) -> dict[str, Any]:
    (held,) = [each for each in cluster["status"]["conditions"] if each["type"] == "Scaling"]
    return dict(held)


def _named(partition: Manifest) -> set[int]:
    return {*partition["spec"]["replicas"], *partition.get("status", {}).get("replicas", [])}


def test_an_operator_killed_after_each_of_its_writes_scales_brokers_up_and_down(
    operator: OperatorProcess, tmp_path: Path
) -> None:
    cluster = Scaled(operator)
    first, pods = cluster.specs(), cluster.uids()
    ends = []
    for brokers in (MANY, FEW):
        killed = run_killed_after_each_write(
            operator,
            tmp_path,
            partial(cluster.ask_for, brokers),
            partial(cluster.has_scaled, brokers),
            within_ms=WITHIN_MS,
        )
        assert killed >= KILLS_MIN
        ends.append(cluster.end())

    operator.start()
    cluster.write(first)
    for brokers, killed_end in zip((MANY, FEW), ends, strict=True):
        cluster.ask_for(brokers)
        cluster.wait_until_scaled(brokers)
        assert cluster.end() == killed_end
    more, fewer = ends
    assert sum(MANY - 1 in each for each in more["specs"].values()) == SHARE
    assert (more["pods"], more["removed"][BROKER]) == (MANY, None)
    assert (fewer["pods"], fewer["removed"][BROKER]) == (FEW, True)
    assert cluster.uids() == pods, "no broker that stays restarts"

"""An operator killed after each of its writes ends as one that was not, whatever it was doing.

For a new cluster, a roll and volumes that grow see the tests of those.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.killed_operator import run_killed_after_each_write
from tests.reconcile.test_conditions import led
from tests.reconcile.test_operator_process import names, reason, topic
from tests.reconcile.test_pods_process import patch_status
from tests.reconcile.test_refusals_process import events

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

PARTITIONS = "partitions.strandline.dev"
WITHIN_MS = 60_000
INVALID = "InvalidReplicationFactor"
GROWTH_KILLS_MIN = 5
"""As many as there are new Partitions."""


def start(operator: OperatorProcess) -> None:
    operator.kubectl("apply", "-f", "-", stdin=topic("orders", partitions=1))
    operator.wait_for("a topic", lambda: reason(operator, "orders") == "PartitionsOffline")
    operator.wait_for("a cluster", lambda: reason(operator, "default", "bc") == "BrokersNotReady")


def status(operator: OperatorProcess, kind: str, name: str) -> dict[str, Any]:
    return dict((operator.get(kind, name) or {}).get("status", {}))


def test_an_operator_killed_after_each_of_its_writes_grows_a_topic_and_tells_of_a_wrong_one(
    operator: OperatorProcess, tmp_path: Path
) -> None:
    start(operator)
    first = operator.list(PARTITIONS)[0]["metadata"]["uid"]

    def begin() -> None:
        patch = '{"spec":{"partitions":6}}'
        operator.kubectl("patch", "rtopic", "orders", "--type=merge", "-p", patch)
        operator.kubectl("apply", "-f", "-", stdin=topic("wrong", replicationFactor=5))

    def is_done() -> bool:
        cluster = status(operator, "bc", "default")
        return (
            reason(operator, "wrong") == INVALID
            and len(events(operator, "wrong", INVALID)) == 1
            and len(operator.list(PARTITIONS)) == 6
            and cluster["partitions"]["total"] == 6
            and status(operator, "rtopic", "orders")["partitions"]["total"] == 6
        )

    killed = run_killed_after_each_write(operator, tmp_path, begin, is_done, within_ms=WITHIN_MS)
    assert killed >= GROWTH_KILLS_MIN
    found = operator.list(PARTITIONS)
    assert first in {each["metadata"]["uid"] for each in found}
    assert sorted(each["spec"]["partition"] for each in found) == list(range(6))


def test_an_operator_killed_after_each_of_its_writes_lets_a_topic_go(
    operator: OperatorProcess, tmp_path: Path
) -> None:
    start(operator)
    operator.kubectl("apply", "-f", "-", stdin=topic("other", partitions=1))
    operator.wait_for("both", lambda: status(operator, "bc", "default")["topics"] == 2)

    def begin() -> None:
        operator.kubectl("delete", "rtopic", "orders", "--wait=false")

    def is_done() -> bool:
        cluster = status(operator, "bc", "default")
        left = names(operator, PARTITIONS)
        return left == ["other-0"] and cluster["topics"] == cluster["partitions"]["total"] == 1

    killed = run_killed_after_each_write(operator, tmp_path, begin, is_done, within_ms=WITHIN_MS)
    assert killed >= 1
    assert reason(operator, "other") == "PartitionsOffline"


def test_an_operator_killed_after_each_of_its_writes_changes_a_replication_factor(
    operator: OperatorProcess, tmp_path: Path
) -> None:
    partitions = 4
    two = topic("orders", partitions=partitions, replicationFactor=2)
    operator.kubectl("apply", "-f", "-", stdin=two)
    operator.wait_for("Partitions", lambda: len(operator.list(PARTITIONS)) == partitions)
    before = {}
    for each in operator.list(PARTITIONS):
        name, replicas = each["metadata"]["name"], each["spec"]["replicas"]
        before[name] = replicas
        state = led(0, isr=replicas, leader=replicas[0])["status"]
        patch_status(operator, PARTITIONS, name, {**state, "replicas": replicas})
    operator.wait_for("leaders", lambda: reason(operator, "orders") == "AllPartitionsOnline")

    def begin() -> None:
        patch = '{"spec":{"replicationFactor":3}}'
        operator.kubectl("patch", "rtopic", "orders", "--type=merge", "-p", patch)

    def wanted() -> dict[str, list[int]]:
        found = operator.list(PARTITIONS)
        return {each["metadata"]["name"]: each["spec"]["replicas"] for each in found}

    def is_done() -> bool:
        moving = status(operator, "rtopic", "orders")["partitions"].get("moving")
        return moving == partitions and all(len(each) == 3 for each in wanted().values())

    killed = run_killed_after_each_write(operator, tmp_path, begin, is_done, within_ms=WITHIN_MS)
    assert killed >= partitions
    assert {name: replicas[:2] for name, replicas in wanted().items()} == before

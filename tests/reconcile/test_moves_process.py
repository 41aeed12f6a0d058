"""The operator, with the permissions that the chart gives it, changes where partitions shall be."""

from __future__ import annotations

import json

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import reason, settle, topic

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


def test_another_replication_factor_is_written_into_the_partitions(
    operator: OperatorProcess,
) -> None:
    spec = {"partitions": 2, "replicationFactor": 2, "config": {"minInsyncReplicas": 1}}
    operator.kubectl("apply", "-f", "-", stdin=topic("grown", **spec))
    operator.wait_for("Partitions", lambda: len(operator.list("partitions.strandline.dev")) == 2)
    before = [each["spec"]["replicas"] for each in operator.list("partitions.strandline.dev")]
    for number, replicas in enumerate(before):
        status = {
            "replicas": replicas,
            "leader": replicas[0],
            "leaderEpoch": 0,
            "partitionEpoch": 0,
            "isr": replicas,
            "isrBrokerEpochs": [1, 1],
            "minInsyncReplicas": 1,
            "controllerEpoch": 1,
            "recovery": "Clean",
        }
        operator.kubectl(
            *("patch", "partitions.strandline.dev", f"grown-{number}", "--subresource=status"),
            *("--type=merge", "-p", json.dumps({"status": status})),
        )
    operator.wait_for("Ready", lambda: reason(operator, "grown") == "AllPartitionsOnline")
    operator.kubectl(
        *("patch", "rtopic", "grown", "--type=merge", "-p", '{"spec":{"replicationFactor":3}}')
    )

    def written() -> bool:
        after = [each["spec"]["replicas"] for each in operator.list("partitions.strandline.dev")]
        assert [each[:2] for each in after] == before, "no replica that was there moves"
        return all(sorted(each) == [0, 1, 2] for each in after)

    operator.wait_for("three replicas", written)
    settle(operator)
    counts = (operator.get("rtopic", "grown") or {})["status"]["partitions"]
    assert counts["moving"] == 2, "no broker runs here, so nothing follows the specs"

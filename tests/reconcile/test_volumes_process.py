"""Full volumes as people see them: a condition of the cluster, a column of the Broker, Events."""

from __future__ import annotations

import json

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import apply_orders

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def test_a_full_volume_is_a_condition_and_an_event_until_it_has_room(
    operator: OperatorProcess,
) -> None:
    apply_orders(operator)
    operator.wait_for("Broker", lambda: operator.get("brokers.strandline.dev", "default-1"))

    def say(**fields: object) -> None:
        operator.kubectl(
            "patch",
            "brokers.strandline.dev",
            "default-1",
            "--subresource=status",
            "--type=merge",
            "-p",
            json.dumps({"status": fields}),
        )

    def is_shown() -> bool:
        status = (operator.get("brokercluster", "default") or {})["status"]
        return "VolumesFull" in {each["type"] for each in status["conditions"]}

    def told(wanted: str) -> bool:
        found = [each for each in operator.list("events") if each["reason"] == wanted]
        return bool(found) and found[0]["involvedObject"]["name"] == "default"

    say(
        brokerEpoch=1,
        cleanSinceEpoch=1,
        incarnation="a/1",
        listeners=[{"name": "INTERNAL", "host": "h", "port": 1}],
        logDirId="d",
        protocolVersion=1,
        volumeFull=True,
    )
    operator.wait_for("an Event", lambda: told("VolumesFull"))
    operator.wait_for("a condition", is_shown)
    printed = operator.kubectl("get", "brokers.strandline.dev", "default-1", "--no-headers")
    assert printed.split()[5] == "true"
    say(volumeFull=None)
    operator.wait_for("a second Event", lambda: told("VolumesHaveRoom"))
    operator.wait_for("no condition", lambda: not is_shown())

"""The end of a broker on a real API server: pods whose status a kubelet would write."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

from strandline.errors import ExitCode
from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import apply_orders
from tests.reconcile.test_pods_process import patch_status
from tests.reconcile.test_refusals_process import conditions, events, shown

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]


def test_an_end_is_told_while_its_broker_runs_again(operator: OperatorProcess) -> None:
    apply_orders(operator)
    operator.wait_for("pods", lambda: len(operator.list("pods")) == 3)
    at = "2026-01-02T03:04:05Z"
    terminated: dict[str, Any] = {
        "exitCode": int(ExitCode.LOG_DIRECTORY_FAILED),
        "finishedAt": at,
        "startedAt": at,
        "message": "append: EIO",
    }
    running = {
        "name": "broker",
        "image": "x",
        "imageID": "",
        "ready": True,
        "restartCount": 1,
        "state": {"running": {"startedAt": at}},
        "lastState": {"terminated": terminated},
    }
    held = [{"type": "Ready", "status": "True"}]
    patch_status(
        operator,
        "pod",
        "default-1",
        {"phase": "Running", "conditions": held, "containerStatuses": [running]},
    )
    operator.wait_for(
        "the condition",
        lambda: shown(operator, "default", "bc", "BrokerFailed") == "True LogDirectoryFailed",
    )
    told = conditions(operator, "default", "bc")["BrokerFailed"]["message"]
    assert f"default-1 at {at} (LogDirectoryFailed)" in told
    (event,) = operator.wait_for(
        "the Event", lambda: events(operator, "default", "LogDirectoryFailed")
    )
    assert event == f"default-1 at {at} (LogDirectoryFailed): append: EIO"
    text = operator.wait_for("metrics", lambda: sample(operator))
    assert text.endswith(" 1.0")


def sample(operator: OperatorProcess) -> str:
    """Return the line of the condition among the operator's metrics, "" without it."""
    url = f"http://127.0.0.1:{operator.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=5) as response:
        lines = response.read().decode().splitlines()
    found = [line for line in lines if 'condition="BrokerFailed"' in line]
    return found[0] if found else ""

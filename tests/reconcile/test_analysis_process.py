"""What the analysis writes into its ConfigMap, on a real API server and with a real operator."""

from __future__ import annotations

import base64
import json
import re
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from strandline_analysis import config_map
from strandline_operator.analysis import FOUND_INCIDENTS
from tests.chart import rendered
from tests.chart.analysis_cases import ANALYSIS_STATUS
from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_refusals_process import events
from tests.support import audited
from tests.support.audited import Permission
from tests.support.commands import CommandError
from tests.support.control_plane import ControlPlane
from tests.support.strandline_objects import cluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

NAME = "strandline-analysis-summary"
ACCOUNT = "strandline-analysis"
INCIDENTS = 'strandline_analysis_incidents{cluster="demo"}'
PASSES = 'strandline_operator_reconciles_total{kind="BrokerCluster",result="done"}'
STATUS: dict[str, Any] = ANALYSIS_STATUS["analysis"]
FIRST = json.dumps({"version": 1, "cluster": "demo", **STATUS})
SECOND = json.dumps(
    {"version": 1, "cluster": "demo", **STATUS, "endedAt": "2026-11-25T16:00:07Z", "incidents": 2}
)


def install(plane: ControlPlane, namespace: str, folder: Path) -> config_map.Account:
    """Apply what the chart makes for an analysis, without its Job; return the account of a pod."""
    values = ("--set=analysis.enabled=true", "--set=analysis.summaryOf=demo")
    wanted = {"ConfigMap", "ServiceAccount", "Role", "RoleBinding"}
    plane.apply(
        [
            item
            for item in rendered.render(*values, namespace=namespace)
            if item["kind"] in wanted and item["metadata"]["name"] in {NAME, ACCOUNT}
        ]
    )
    config = yaml.safe_load(plane.service_account_kubeconfig(namespace, ACCOUNT).read_text())
    server = config["clusters"][0]["cluster"]
    folder.mkdir()
    (folder / "token").write_text(config["users"][0]["user"]["token"])
    (folder / "namespace").write_text(namespace)
    (folder / "ca.crt").write_bytes(certificate(server))
    host, _, port = server["server"].removeprefix("https://").rpartition(":")
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    return config_map.pod_account(folder, environment)


def certificate(server: dict[str, str]) -> bytes:
    """Return the certificate of a kubeconfig's cluster."""
    if "certificate-authority" in server:
        return Path(server["certificate-authority"]).read_bytes()
    return base64.b64decode(server["certificate-authority-data"])


def sample(operator: OperatorProcess, begin: str) -> str:
    """Return the value of the first sample whose line begins so, "" without one."""
    url = f"http://127.0.0.1:{operator.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=5) as response:
        lines = response.read().decode().splitlines()
    found = [line for line in lines if line.startswith(begin)]
    return found[0].rpartition(" ")[2] if found else ""


def pass_over(operator: OperatorProcess) -> None:
    """Wait until the operator has planned the cluster with all that it has seen so far."""
    # The pass that is counted first may have begun before.
    for _ in range(2):
        before = float(sample(operator, PASSES))
        operator.kubectl("annotate", "bc", "demo", f"test/at={before}", "--overwrite")
        operator.wait_for("a pass", partial(_is_more_than, operator, before))


def _is_more_than(operator: OperatorProcess, before: float) -> bool:
    return float(sample(operator, PASSES)) > before


def ignored(operator: OperatorProcess) -> int:
    """Return how often the operator has told that it ignores a summary."""
    return operator.messages().count("analysis summary ignored")


def _is_ignored_again(operator: OperatorProcess, before: int) -> bool:
    return ignored(operator) > before


def test_a_run_reaches_status_event_and_metrics_and_a_broken_one_changes_nothing(
    operator: OperatorProcess, tmp_path: Path
) -> None:
    account = install(operator.plane, operator.namespace, tmp_path / "account")
    operator.plane.apply(cluster(operator.namespace))

    def shown() -> Any:
        return (operator.get("bc", "demo") or {})["status"].get("analysis")

    def told() -> list[str]:
        return events(operator, "demo", FOUND_INCIDENTS)

    operator.wait_for(
        "a status", lambda: "conditions" in (operator.get("bc", "demo") or {})["status"]
    )
    assert config_map.write(account, NAME, FIRST) == ""
    operator.wait_for("the first run", lambda: shown() == STATUS)
    (event,) = operator.wait_for("its Event", told)
    assert event.endswith("1 incident; the widest: broker 1 is at the root")
    operator.wait_for("its metrics", lambda: sample(operator, INCIDENTS) == "1.0")
    for broken in ("garbage", "x" * 9_000, FIRST.replace('"incidents": 1', '"incidents": "many"')):
        before = ignored(operator)
        assert config_map.write(account, NAME, broken) == ""
        operator.wait_for("a line in the log", partial(_is_ignored_again, operator, before))
        pass_over(operator)
        assert (shown(), len(told())) == (STATUS, 1)
    assert config_map.write(account, NAME, SECOND) == ""
    operator.wait_for("the second run", lambda: (shown() or {}).get("incidents") == 2)
    operator.wait_for("its Event", lambda: len(told()) == 2)
    assert operator.failures() == []
    operator.kubectl("delete", "configmap", NAME)
    operator.wait_for("no analysis", lambda: shown() is None)
    operator.wait_for("no metrics", lambda: not sample(operator, INCIDENTS))


def test_the_jobs_account_may_write_its_own_config_map_and_nothing_else(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> None:
    plane, account = control_plane, install(control_plane, namespace, tmp_path / "account")

    def found(name: str) -> dict[str, Any]:
        return plane.get("configmap", name, "-n", namespace)

    for text in (FIRST, SECOND):
        assert config_map.write(account, NAME, text) == ""
        assert found(NAME)["data"] == {"summary.json": text}
    # What the chart gave it stays.
    assert found(NAME)["metadata"]["labels"]["strandline.dev/analysis-of"] == "demo"
    plane.kubectl("create", "configmap", "another", "-n", namespace)
    plane.apply(cluster(namespace))
    for name in ("another", "absent"):
        said = config_map.write(account, name, FIRST)
        assert re.match(rf"ConfigMap {namespace}/{name} has no new summary: 403 .*forbidden", said)
        assert "or the account may not patch it" in said
        assert "\n" not in said
    assert "data" not in found("another")
    assert not plane.kubectl("get", "configmap", "absent", "-n", namespace, "--ignore-not-found")
    user = f"--as=system:serviceaccount:{namespace}:{ACCOUNT}"
    with pytest.raises(CommandError, match="forbidden"):
        plane.kubectl(
            *("patch", "bc", "demo", "-n", namespace, "--subresource=status", user),
            *("--type=merge", "-p", json.dumps({"status": {"analysis": STATUS}})),
        )
    log = plane.audit_log.parent
    used = audited.read(log, accounts={re.compile(re.escape(ACCOUNT)): namespace})
    assert Permission(namespace, "patch", "configmaps") in used


def test_a_key_that_somebody_else_wrote_is_left_to_them(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    account = install(control_plane, namespace, tmp_path / "account")
    patch = json.dumps({"data": {"summary.json": "mine"}})
    control_plane.kubectl("patch", "configmap", NAME, "-n", namespace, "--type=merge", "-p", patch)
    said = config_map.write(account, NAME, FIRST)
    assert re.match(rf"ConfigMap {namespace}/{NAME} has no new summary: 409 .*conflict", said)
    assert "somebody else wrote its key summary.json" in said
    found = control_plane.get("configmap", NAME, "-n", namespace)
    assert found["data"] == {"summary.json": "mine"}
    patch = json.dumps({"data": None})
    control_plane.kubectl("patch", "configmap", NAME, "-n", namespace, "--type=merge", "-p", patch)
    assert config_map.write(account, NAME, FIRST) == ""

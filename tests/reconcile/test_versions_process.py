"""Operators of two releases on a real API server: brokers follow spec.version, not the operator.

Tests stand in for kubelets and brokers.
"""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_pods_process import HEALTH
from tests.reconcile.test_refusals_process import conditions, events, shown
from tests.reconcile.test_rolling_process import LAST, OTHERS, Cluster
from tests.support.commands import CommandError
from tests.support.documented import commands
from tests.support.strandline_objects import CHART

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

BEFORE, AFTER = "example.com/broker:0.1.0", "example.com/broker:0.2.0"
VERSIONS = f'--set-json=broker.versions={{"0.1.0": "{BEFORE}"}}'


def next_release(folder: Path) -> Path:
    """Return the chart as the release after this one."""
    chart = folder / "next-release"
    shutil.copytree(CHART, chart)
    about = chart / "Chart.yaml"
    about.write_text(about.read_text().replace("appVersion: 0.1.0", "appVersion: 0.2.0"))
    return chart


def image(operator: OperatorProcess, name: str = "default") -> str:
    template = (operator.get("statefulset", name) or {})["spec"]["template"]
    return str(template["spec"]["containers"][0]["image"])


def set_version(operator: OperatorProcess, version: str) -> None:
    """Change the field as docs/health.md says."""
    (line,) = (each.line for each in commands(HEALTH) if each.heading.startswith("Versions"))
    line = line.replace("NAME", "default").replace("0.1.0", version)
    operator.kubectl(*shlex.split(line)[1:])


def in_status(operator: OperatorProcess, name: str = "default") -> tuple[str, str]:
    status = (operator.get("bc", name) or {}).get("status", {})
    return status.get("version", ""), status.get("image", "")


def test_a_new_operator_restarts_nobody_and_a_cluster_follows_its_field_and_back(
    operator: OperatorProcess, tmp_path: Path
) -> None:
    cluster = Cluster(operator)
    assert (image(operator), in_status(operator)) == (BEFORE, ("0.1.0", BEFORE))
    before, first = cluster.uids(), cluster.revision()

    operator.stop()
    operator.kubectl("delete", "service", "default-bootstrap")
    operator.upgrade(VERSIONS, chart=next_release(tmp_path))
    operator.start()
    operator.kubectl("apply", "-f", "-", stdin=other_cluster())
    operator.wait_for("a pass", lambda: operator.get("service", "default-bootstrap"))
    operator.wait_for("the new cluster", lambda: in_status(operator, "new") == ("0.2.0", AFTER))
    operator.wait_for("its pods", lambda: operator.get("statefulset", "new"))
    assert (image(operator, "new"), image(operator)) == (AFTER, BEFORE)
    cluster.wait_for_rolling("False RollingDone")
    assert (cluster.uids(), cluster.revision()) == (before, first)

    set_version(operator, "0.2.0")
    operator.wait_for("the new image", lambda: image(operator) == AFTER)
    operator.wait_for("the status", lambda: in_status(operator) == ("0.2.0", AFTER))
    cluster.wait_for_replacement(OTHERS[0], before)
    (told,) = events(operator, "default", "VersionChanged")
    assert told == (
        f"brokers get version 0.2.0, image {AFTER} instead of version 0.1.0, image {BEFORE}, one "
        "after the other"
    )

    # A roll that is changed back replaces what it had begun, and nobody else.
    begun = cluster.uids()
    set_version(operator, "0.1.0")
    cluster.wait_for_replacement(OTHERS[0], begun)
    cluster.wake(OTHERS[0])
    cluster.wait_for_rolling("False RollingDone")
    assert cluster.revision() == first
    others = (OTHERS[1], LAST)
    assert {each: cluster.uid(each) for each in others} == {each: before[each] for each in others}
    assert (image(operator), in_status(operator)) == (BEFORE, ("0.1.0", BEFORE))


def test_versions_that_are_unknown_empty_or_too_far_are_refused_and_nobody_restarts(
    operator: OperatorProcess,
) -> None:
    cluster = Cluster(operator)
    before = cluster.uids()
    for wrong, sentence in (("", "should match"), ("0.3.0", "at most one release before or after")):
        with pytest.raises(CommandError, match=sentence):
            set_version(operator, wrong)
    set_version(operator, "0.2.0")
    operator.wait_for(
        "the refusal", lambda: shown(operator, "default", "bc", "Stalled") == "True UnknownVersion"
    )
    message = conditions(operator, "default", "bc")["Ready"]["message"]
    assert "this operator has images of versions 0.1.0 only" in message
    (told,) = events(operator, "default", "UnknownVersion")
    assert told == message
    operator.kubectl("delete", "service", "default-bootstrap")
    operator.wait_for("the Service", lambda: operator.get("service", "default-bootstrap"))
    assert (image(operator), cluster.uids()) == (BEFORE, before)
    set_version(operator, "0.1.0")
    operator.wait_for(
        "the end of it",
        lambda: shown(operator, "default", "bc", "Reconciled") == "True AllApplied",
    )
    assert (image(operator), cluster.uids()) == (BEFORE, before)


def other_cluster() -> str:
    spec = {"replicas": 1, "timing": "demo"}
    metadata = {"name": "new"}
    return json.dumps(
        {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "BrokerCluster",
            "metadata": metadata,
            "spec": spec,
        }
    )

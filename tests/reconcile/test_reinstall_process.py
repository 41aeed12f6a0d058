"""A release of another name in another namespace takes over the clusters of one that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_rolling_process import LAST, OTHERS, Cluster
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import namespace_name

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

ROLE = "role.rbac.authorization.k8s.io/strandline-broker"
"""The Role of the first release for brokers, which its end leaves to them."""
SERVICE = "default-bootstrap"


def brokers_may_write(operator: OperatorProcess) -> bool:
    """Tell whether the account of the cluster's brokers may write Leases."""
    account = f"--as=system:serviceaccount:{operator.namespace}:default-broker"
    # kubectl ends with an error where the answer is no.
    return "yes" in operator.kubectl("auth", "can-i", "update", "leases", account)


def test_another_release_takes_a_cluster_over_without_a_restart_and_rolls_it(
    operator: OperatorProcess, control_plane: ControlPlane, tmp_path: Path
) -> None:
    cluster = Cluster(operator)
    before, first = cluster.uids(), cluster.revision()
    operator.stop()
    operator.uninstall()
    assert brokers_may_write(operator)
    operator.kubectl("delete", "service", SERVICE)
    home, folder = namespace_name("home"), tmp_path / "other"
    control_plane.kubectl("create", "namespace", home)
    folder.mkdir()
    values = f"--set=watchNamespaces={{{operator.namespace}}}"
    other = OperatorProcess(control_plane, home, folder, values, release="other")
    other.start()
    try:
        other.wait_for("a pass", lambda: operator.get("service", SERVICE))
        cluster.wait_for_rolling("False RollingDone")
        assert (cluster.uids(), cluster.revision()) == (before, first)
        # The Role of the new release holds the brokers, also without the former one.
        operator.kubectl("delete", ROLE)
        assert brokers_may_write(operator)
        cluster.set_label("new")
        cluster.wait_for_replacement(OTHERS[0], before)
        assert cluster.uid(LAST) == before[LAST]
    finally:
        other.kill()
        control_plane.kubectl("delete", "namespace", home, "--wait=false")

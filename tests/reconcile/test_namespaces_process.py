"""Operators side by side: one of several namespaces, another one of its own namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline_operator.operator_lease import NAME as OPERATOR_LEASE
from tests.reconcile.conftest import OperatorProcess
from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane
from tests.support.fixtures import namespace_name

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

PARTITION = ("get", "partitions.strandline.dev", "--ignore-not-found", "-o", "name")


@pytest.fixture
def watched(control_plane: ControlPlane) -> Iterator[list[str]]:
    """Provide two namespaces that an operator elsewhere watches."""
    names = [namespace_name(f"watched-{number}") for number in range(2)]
    for name in names:
        control_plane.kubectl("create", "namespace", name)
    yield names
    for name in names:
        control_plane.kubectl("delete", "namespace", name, "--wait=false")


def test_two_releases_serve_their_namespaces_and_no_others(
    operator: OperatorProcess,
    control_plane: ControlPlane,
    watched: list[str],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "of-two"
    folder.mkdir()
    home = namespace_name("home")
    control_plane.kubectl("create", "namespace", home)
    values = f"--set=watchNamespaces={{{','.join(watched)}}}"
    of_two = OperatorProcess(control_plane, home, folder, values)
    of_two.use_pod_name("operator-2")
    of_two.start()
    try:
        for name in (operator.namespace, home, *watched):
            control_plane.apply(objects.topic(name, f"in-{name[:7]}", clusterRef="default"))
        for name in (operator.namespace, *watched):

            def made(namespace: str = name) -> bool:
                found = control_plane.kubectl(*PARTITION, "-n", namespace)
                return found.count("\n") == 1

            of_two.wait_for(f"Partition in {name}", made)
            lease = control_plane.get("lease", OPERATOR_LEASE, "-n", name)
            holder = "operator-1" if name == operator.namespace else "operator-2"
            assert lease["spec"]["holderIdentity"] == holder
        of_two.wait_for("readiness", lambda: of_two.probe("/ready") == (200, "ok"))
        assert control_plane.kubectl(*PARTITION, "-n", home) == ""
        assert sum("create Partition" in action for action in operator.actions()) == 1
        of_two.stop()
        for name in watched:
            lease = control_plane.get("lease", OPERATOR_LEASE, "-n", name)
            assert not lease["spec"].get("holderIdentity")
    finally:
        of_two.kill()
        control_plane.kubectl("delete", "namespace", home, "--wait=false")

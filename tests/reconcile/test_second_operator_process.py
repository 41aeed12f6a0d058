"""Two operators of one namespace: one works, and the other takes over when the first is gone."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline import names
from tests.reconcile.conftest import OperatorProcess
from tests.reconcile.test_operator_process import apply_orders, topic

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

SENTENCE = "another operator works in this namespace, so this one waits"


@pytest.fixture
def second(operator: OperatorProcess, tmp_path: Path) -> Iterator[OperatorProcess]:
    """Start another pod's operator, which waits for the Lease of the first."""
    apply_orders(operator)
    folder = tmp_path / "second"
    folder.mkdir()
    found = OperatorProcess(operator.plane, operator.namespace, folder)
    found.use_pod_name("operator-2")
    found.start()
    try:
        found.wait_for("the sentence", lambda: SENTENCE in found.messages())
        yield found
    finally:
        found.kill()


def told_objects(operator: OperatorProcess) -> bool:
    """Tell whether an operator's metrics speak of clusters and topics."""
    url = f"http://127.0.0.1:{operator.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as response:
        lines = response.read().decode().splitlines()
    return any(line.startswith(names.OPERATOR_CONDITION.name + "{") for line in lines)


def wait_until_it_works(operator: OperatorProcess) -> None:
    operator.kubectl("delete", "service", "default-bootstrap")
    operator.wait_for("its turn", lambda: operator.get("service", "default-bootstrap"))
    # It tells of a write once it has the answer, and the Service may be seen before that.
    operator.wait_for("what it did", operator.actions)
    assert operator.actions() == ["apply Service default-bootstrap: it is missing"]


def test_a_second_operator_waits_and_says_so_until_the_first_ends(
    operator: OperatorProcess, second: OperatorProcess
) -> None:
    operator.kubectl("apply", "-f", "-", stdin=topic("later", partitions=1))
    first = "create Partition later-0"
    operator.wait_for("the first one's work", lambda: first in operator.actions())
    assert second.actions() == []
    operator.stop()
    wait_until_it_works(second)


def test_a_second_operator_is_ready_while_it_waits_and_its_metrics_tell_of_no_object(
    operator: OperatorProcess, second: OperatorProcess
) -> None:
    second.wait_for("readiness", lambda: second.probe("/ready")[0] == 200)
    operator.wait_for("metrics of conditions", lambda: told_objects(operator))
    assert not told_objects(second)


def test_a_second_operator_works_when_the_lease_of_a_killed_one_ran_out(
    operator: OperatorProcess, second: OperatorProcess
) -> None:
    operator.kill()
    wait_until_it_works(second)
    assert told_objects(second)

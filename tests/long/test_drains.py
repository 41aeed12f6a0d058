"""A broker is emptied, and node after node is drained, beside an operator at work and a load."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest

from strandline_cli.commands import CommandFailed
from strandline_cli.release import RELEASE
from strandline_operator.resources import DATA_PATH
from tests.support.cluster import Cluster
from tests.support.commands import programs
from tests.support.eventually import eventually
from tests.support.evictions import REFUSED
from tests.support.installed import Installed, release_of
from tests.support.isr_watch import IsrWatch

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

BROKERS = 4
EMPTIED = 3
"""The broker that is emptied; the three others can hold three replicas of everything."""
TOPIC = "drained"
LIMIT_MS = 120_000
COMMAND_SECONDS = 240


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Installed]:
    """Provide a release with four brokers."""
    with release_of(cluster, "drains", f"defaultCluster.spec.replicas={BROKERS}") as made:
        yield made


def replicas(installed: Installed, part: str) -> list[list[int]]:
    """Return the replicas of the topic's partitions, wanted (spec) or present (status)."""
    found = installed.kubernetes.get("partitions")["items"]
    return [each[part]["replicas"] for each in found if each["spec"]["topicName"] == TOPIC]


def typed(command: list[str]) -> str:
    """Run a command as a person does; return what it printed, fail with that if it failed."""
    done = subprocess.run(
        command,
        env={**os.environ, "PATH": f"{programs()}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_broker_is_emptied_and_node_after_node_is_drained_under_load(
    installed: Installed,
) -> None:
    kubernetes = installed.kubernetes
    where = (f"--kubeconfig={kubernetes.kubeconfig}", "-n", kubernetes.namespace)
    with installed.under_load(TOPIC) as run, IsrWatch(kubernetes, TOPIC) as isrs:
        assert any(EMPTIED in each for each in replicas(installed, "status"))
        program = [sys.executable, "-m", "strandline_cli", "drain", str(EMPTIED), *where]

        def empty() -> None:
            said = typed(program)
            assert f"broker {EMPTIED} holds no replica any more" in said

        run.short_fault("strandline drain", empty)
        check_empty(installed)
        # A new operator, which knows nothing of the drain, leaves it as it is.
        wanted = replicas(installed, "spec")
        former = installed.operator_pods()
        kubernetes.kubectl("rollout", "restart", f"deployment/{RELEASE}-operator")
        eventually(lambda: not {*former} & {*installed.operator_pods()}, LIMIT_MS, "the next one")
        installed.wait_ready(TOPIC)

        refusals: list[str] = []

        def drain_nodes() -> None:
            for broker in range(BROKERS):
                refusals.extend(drain_node(installed, installed.node_of(broker)))

        before = run.view.seen().pods
        run.short_fault("kubectl drain of node after node", drain_nodes)
        after = run.view.seen().pods
        assert not {pod.uid for pod in before.values()} & {pod.uid for pod in after.values()}
        assert refusals, "no eviction had to wait for the broker before it"
        assert replicas(installed, "spec") == wanted
        check_empty(installed)
        seen = isrs.seen()
        assert isrs.is_running()
        assert any(len(each.isr) == each.minimum for each in seen), "a drain costs one member"
        assert [each for each in seen if len(each.isr) < each.minimum] == []
        run.judged()


def check_empty(installed: Installed) -> None:
    """Fail unless the broker has, and shall have, no replica of the topic, and soon no log."""
    parts = ("spec", "status")
    assert not any(EMPTIED in each for part in parts for each in replicas(installed, part))
    topic_id, listed = installed.topic_id(TOPIC), ("ls", DATA_PATH)
    look = partial(installed.kubernetes.exec, f"default-{EMPTIED}", *listed, container="broker")
    gone = "the logs of the emptied broker"
    eventually(lambda: topic_id not in look(), LIMIT_MS, gone, retry_on=(CommandFailed,))


def drain_node(installed: Installed, node: str) -> list[str]:
    """Drain a node of its broker and take it into service again; return what was refused."""
    kubernetes = installed.kubernetes
    selector = "--pod-selector=app.kubernetes.io/component=broker"
    limit = f"--timeout={COMMAND_SECONDS}s"
    try:
        said = typed(kubernetes.command("kubectl", "drain", node, selector, limit))
    finally:
        kubernetes.kubectl("uncordon", node)
    return [line for line in said.splitlines() if REFUSED in line]

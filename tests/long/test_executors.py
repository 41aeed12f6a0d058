"""The analysis with executors in pods: equal tables, exact permissions, nothing left behind.

All tests share one installation: brokers under load, a killed leader, and the same range analysed
in the Job's pod alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support import audited
from tests.support.audited import Permission
from tests.support.cluster import Cluster
from tests.support.commands import CommandError
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name
from tests.support.observed_installation import (
    JOB_LIMIT_SECONDS,
    RELEASE,
    SETTLED_WITHIN_MS,
    SMALL_EXECUTOR,
    Installation,
    now_ms,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

CALM_MS = 15_000
"""Time before the fault."""
Tables = dict[str, list[dict[str, Any]]]

KILL_JAVA = (
    "import os, signal\n"
    "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
    "    program = open(f'/proc/{pid}/cmdline', 'rb').read().split(b'\\0')[0]\n"
    "    if program.endswith(b'java'):\n"
    "        os.kill(int(pid), signal.SIGKILL)\n"
)
KILLED = 137


@dataclass
class Observed:
    """The installation, its range, and the tables of that range without executors."""

    installation: Installation
    cluster: Cluster
    namespace: str
    started_ms: int
    ended_ms: int
    faults: list[dict[str, Any]]
    tables: Tables


@pytest.fixture(scope="module")
def observed(cluster: Cluster) -> Iterator[Observed]:
    """Provide an installation, a killed leader, and the analysis in one pod."""
    namespace = namespace_name("executors")
    cluster.create_restricted_namespace(namespace)
    installation = Installation(cluster, namespace)
    try:
        installation.install()
        started_ms = now_ms()
        installation.wait_scrapes(after_ms=started_ms + CALM_MS)
        faults = [installation.kill(installation.leader_of(0))]
        ended_ms = now_ms()
        report, tables = installation.analyse(faults, start_ms=started_ms, end_ms=ended_ms)
        print(report)
        yield Observed(
            installation=installation,
            cluster=cluster,
            namespace=namespace,
            started_ms=started_ms,
            ended_ms=ended_ms,
            faults=faults,
            tables=tables,
        )
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def kill(observed: Observed, executor: str) -> None:
    """End an executor's Java as a lack of memory does; Spark then deletes the failed pod."""
    try:
        observed.cluster.exec(observed.namespace, executor, "python", "-c", KILL_JAVA)
    except CommandError as error:
        if error.status != KILLED:  # the container may end before the command does
            raise


def test_an_executor_that_is_killed_changes_nothing_in_the_tables(observed: Observed) -> None:
    cluster, job = observed.cluster, f"{RELEASE}-executors"
    since = datetime.now(tz=UTC).isoformat()
    observed.installation.start_analysis(
        observed.faults,
        start_ms=observed.started_ms,
        end_ms=observed.ended_ms,
        name="executors",
        executors=2,
        executor=SMALL_EXECUTOR,
    )

    installation = observed.installation

    def two_at_work() -> list[str]:
        running = installation.executors(job)
        worked = len(running) == 2 and all(map(installation.has_run_a_task, running))
        return [each["metadata"]["name"] for each in running] if worked else []

    killed = eventually(two_at_work, JOB_LIMIT_SECONDS * 1000, "both executors have run a task")
    kill(observed, killed[0])
    report, tables = observed.installation.analysed(job)
    print(report)

    def in_order(found: Tables) -> dict[str, list[str]]:
        return {
            name: sorted(json.dumps(row, sort_keys=True) for row in rows)
            for name, rows in found.items()
        }

    assert in_order(tables) == in_order(observed.tables)
    eventually(
        lambda: observed.installation.left_behind() == [],
        SETTLED_WITHIN_MS,
        "Spark's objects are gone",
    )
    role = cluster.get(f"role/{job}", "-n", observed.namespace)
    allowed = {
        Permission("analysis", verb, resource)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    accounts = {re.compile(re.escape(job)): "analysis"}
    used = audited.read(cluster.folder / "log", since=since, accounts=accounts)
    assert used == allowed


def test_a_driver_that_is_killed_leaves_nothing_behind(observed: Observed) -> None:
    cluster, job = observed.cluster, f"{RELEASE}-killed"
    observed.installation.start_analysis(
        observed.faults,
        start_ms=observed.started_ms,
        end_ms=observed.ended_ms,
        name="killed",
        executors=1,
        executor=SMALL_EXECUTOR,
    )
    eventually(
        lambda: observed.installation.executors(job),
        JOB_LIMIT_SECONDS * 1000,
        "the executor is running",
    )
    # Its pod is no longer there to clean up, nor does a second one begin.
    cluster.kubectl(
        *("delete", "job", job, "-n", observed.namespace, "--cascade=background", "--wait=false")
    )
    cluster.kubectl(
        *("delete", "pod", "-n", observed.namespace, "-l", f"job-name={job}"),
        *("--force", "--grace-period=0"),
    )
    eventually(
        lambda: observed.installation.left_behind() == [],
        SETTLED_WITHIN_MS,
        "Spark's objects are gone",
    )

"""The analysis as a CronJob on pods: at once when asked, then by its schedule, from one lake.

Between the two runs Prometheus loses all that it has, so that what the second one tells of the time
before can only come from the lake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from strandline import names
from tests.support.cluster import Cluster
from tests.support.commands import CommandError
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name
from tests.support.observed_installation import RELEASE, Installation, now_ms, query

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

NAME = f"{RELEASE}-nightly"
AT_ONCE = "at-once"
SLICE_MS = 60_000
LANDS_AFTER_MS = SLICE_MS
"""Age of a slice's end at which an ingest takes it."""
SELDOM, EACH_MINUTE = "0 0 29 2 *", "* * * * *"
SCHEDULE = {
    "name": "nightly",
    "window": "30m",
    # The lake begins two hours before the first run, when nothing was scraped yet.
    "coverageMin": 0,
    "deadlineSeconds": 1500,
    "lake": {"sliceMinutes": 1, "size": "1Gi"},
}
JOB_LIMIT_SECONDS = 1500
COMES_WITHIN_MS = 180_000
FORGOTTEN_WITHIN_MS = 120_000
Tables = dict[str, list[dict[str, Any]]]


@dataclass
class Run:
    """What one Job did."""

    landed: int
    """Slices that its ingest landed."""
    lake: dict[str, Any]
    """lake.json after it."""
    tables: Tables


class Lake:
    """The CronJob of an installation, and its volume."""

    def __init__(self, installation: Installation) -> None:
        self._on = installation

    def schedule(self, line: str) -> None:
        """Create the CronJob, or change its schedule."""
        self._on.apply_analysis(schedule=line, **SCHEDULE)

    def facts(self) -> dict[str, Any]:
        """Return lake.json, as it is on the volume."""
        cluster = self._on.cluster
        claim = cluster.get(f"pvc/{NAME}", "-n", self._on.namespace)
        volume = cluster.get(f"pv/{claim['spec']['volumeName']}")
        path = cluster.folder / "nodes"
        (found,) = path.glob(f"*/pv/{volume['metadata']['name']}/lake.json")
        facts: dict[str, Any] = json.loads(found.read_text())
        return facts

    def job_of_the_schedule(self) -> str:
        """Return a Job that the schedule made, not a person; empty if there is none."""
        jobs = self._on.cluster.get("jobs", "-n", self._on.namespace)["items"]
        made = (
            job["metadata"]["name"]
            for job in jobs
            for owner in job["metadata"].get("ownerReferences", [])
            if owner["kind"] == "CronJob" and job["metadata"]["name"] != AT_ONCE
        )
        return next(made, "")

    def ran(self, job: str) -> Run:
        """Wait for a Job's end, and return what it did."""
        report, tables = self._on.analysed(job, limit_seconds=JOB_LIMIT_SECONDS)
        namespace = ("-n", self._on.namespace)
        ingest = self._on.cluster.kubectl("logs", *namespace, f"job/{job}", "-c", "ingest")
        print(report, ingest)
        match = re.search(rf"([0-9]+) slices of {SLICE_MS} ms landed", ingest)
        assert match is not None, ingest
        return Run(landed=int(match[1]), lake=self.facts(), tables=tables)


@dataclass
class Observed:
    """Both runs, and the fault before the first one."""

    fault: dict[str, Any]
    forgotten_ms: int
    """Oldest sample that Prometheus had in the second run."""
    at_once: Run
    by_schedule: Run


@pytest.fixture(scope="module")
def observed(cluster: Cluster) -> Iterator[Observed]:
    """Provide an installation, a killed leader, and the two runs."""
    namespace = namespace_name("schedule")
    cluster.create_restricted_namespace(namespace)
    try:
        yield story(Installation(cluster, namespace))
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def story(installation: Installation) -> Observed:
    cluster, namespace = installation.cluster, installation.namespace
    lake = Lake(installation)
    installation.install()
    fault = installation.kill(installation.leader_of(0))
    lake.schedule(SELDOM)
    wait_landable(now_ms())
    cluster.kubectl("create", "job", AT_ONCE, f"--from=cronjob/{NAME}", "-n", namespace)
    at_once = lake.ran(AT_ONCE)

    # Its samples lie in the pod, so that the next pod begins with none.
    since_ms = now_ms()
    selector = "app.kubernetes.io/component=prometheus"
    cluster.kubectl("delete", "pod", "-n", namespace, "-l", selector)
    oldest = f"min(min_over_time(timestamp({names.BROKER_EPOCH.name})[1h:1s]))"

    def oldest_ms() -> float:
        (found,) = query(cluster, namespace, oldest)
        return float(found["value"][1]) * 1000

    mistaken = (CommandError, ValueError)
    forgotten_ms = eventually(oldest_ms, FORGOTTEN_WITHIN_MS, "Prometheus", retry_on=mistaken)
    assert forgotten_ms >= since_ms
    wait_landable(now_ms())
    lake.schedule(EACH_MINUTE)
    job = eventually(lake.job_of_the_schedule, COMES_WITHIN_MS, "a Job", retry_on=(CommandError,))
    lake.schedule(SELDOM)
    return Observed(
        fault=fault,
        forgotten_ms=round(forgotten_ms),
        at_once=at_once,
        by_schedule=lake.ran(job),
    )


def wait_landable(moment_ms: int) -> None:
    """Wait until the slice of a moment is whole and old enough to be landed."""
    until_ms = moment_ms - moment_ms % SLICE_MS + SLICE_MS + LANDS_AFTER_MS
    eventually(lambda: now_ms() > until_ms, 3 * SLICE_MS, "the slice is whole")


def elections(run: Run, fault: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the elections that took partitions from the broker of the fault, soon after it."""
    return [
        row
        for row in run.tables["elections"]
        if row["old_leader"] == fault["brokerId"]
        and 0 <= row["t_first_new_ms"] - fault["atMs"] < SLICE_MS
    ]


def test_a_job_from_the_cron_job_runs_at_once(observed: Observed) -> None:
    run = observed.at_once
    assert run.landed > 0
    assert run.lake["end_ms"] > observed.fault["atMs"]
    assert elections(run, observed.fault)


def test_the_schedule_reads_on_from_the_last_landed_slice(observed: Observed) -> None:
    before, after = observed.at_once.lake, observed.by_schedule.lake
    assert observed.by_schedule.landed > 0
    assert after["end_ms"] == before["end_ms"] + observed.by_schedule.landed * SLICE_MS
    assert after["start_ms"] == before["start_ms"]


def test_what_prometheus_has_forgotten_is_told_from_the_lake(observed: Observed) -> None:
    assert observed.forgotten_ms > observed.at_once.lake["end_ms"]
    found = elections(observed.by_schedule, observed.fault)
    assert found == elections(observed.at_once, observed.fault)
    assert observed.by_schedule.lake["end_ms"] > observed.forgotten_ms

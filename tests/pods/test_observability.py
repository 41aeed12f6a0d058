"""Prometheus, dashboard and analysis beside real brokers show what really happened.

All tests share one installation: brokers under load, two faults, then the analysis as a Job. The
tests compare its tables with the states that the controller committed, as a watch saw them.
"""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from strandline import names
from tests.support import dashboard
from tests.support.broker_group import FAULT_LIMIT_MS
from tests.support.cluster import Cluster
from tests.support.commands import REPOSITORY, CommandError, run
from tests.support.eventually import eventually
from tests.support.fixtures import namespace_name
from tests.support.observed_installation import (
    ANALYSIS_NODE,
    BROKERS,
    JOB_LIMIT_SECONDS,
    PARTITIONS,
    RELEASE,
    SETTLED_WITHIN_MS,
    SMALL_EXECUTOR,
    Installation,
    now_ms,
    query,
)
from tests.support.partition_watch import CommittedStates, PartitionWatch

pytestmark = pytest.mark.pods

JOB = f"{RELEASE}-analysis"
INTERVAL_MS = 1000
COUNTED_MS = 20_000
"""Time before the first fault; a test counts the scrapes in it."""
SHOWN_SECONDS = 900
"""Range of the dashboard when it opens."""
JITTER_MS = 50
"""How far the median pause between two scrapes may be from the interval."""

TOLD_WITHIN_MS = 60_000
"""Of what takes a second or two on an idle machine, after the Job has ended."""

EVENTS = {"change", "leader_change"}
"""Reasons of edges at which something happened."""

WHEN_IT_HAPPENS = {
    names.ISR_UPDATE_FAILURES_TOTAL,
    names.TRUNCATIONS_TOTAL,
    names.TRUNCATED_RECORDS_TOTAL,
    names.TRUNCATIONS_BELOW_HIGH_WATERMARK_TOTAL,
    names.UNSUPPORTED_REQUESTS_TOTAL,
    names.INVARIANT_VIOLATIONS_TOTAL,
    names.KUBERNETES_CONFLICTS_TOTAL,
    names.LOG_FLUSH_SECONDS,
    # The operator tells of a run after its Job has ended; a test of its own waits for that.
    *(row for row in names.OPERATOR_METRICS if row.labels[:1] == ("cluster",)),
}
"""Rows without samples before their first event, which gives them their label values."""


@dataclass
class Observed:
    """The module's installation and what happened in it."""

    cluster: Cluster
    namespace: str
    started_ms: int
    ended_ms: int
    committed: dict[int, CommittedStates]
    faults: list[dict[str, Any]]
    executors: list[dict[str, Any]]
    """Pods that were there while the Job ran."""
    report: str
    tables: dict[str, list[dict[str, Any]]]
    values: list[str]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return a query's result in this installation's Prometheus at the end of the run."""
        return query(self.cluster, self.namespace, expression, at_ms=self.ended_ms)


@pytest.fixture(scope="module")
def observed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Provide a whole run: install, load, kill a leader, delete another leader's pod, analyse."""
    namespace = namespace_name("observability")
    cluster.create_restricted_namespace(namespace)
    installation = Installation(cluster, namespace)
    try:
        yield story(installation, tmp_path_factory.mktemp("watch") / "partitions.json")
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def story(installation: Installation, watched: Path) -> Observed:
    installation.install()
    installation.wait_scrapes(after_ms=now_ms())
    watch = PartitionWatch(installation.cluster, installation.namespace, watched)
    started_ms = now_ms()
    try:
        installation.wait_scrapes(after_ms=started_ms + COUNTED_MS)
        faults = [installation.kill(installation.leader_of(0))]
        # Not the controller's pod: no scrape would see the counter of its own shutdown.
        faults.append(installation.delete(installation.leader_besides_the_controller()))
        ended_ms = now_ms()
    finally:
        committed = watch.stop()
    # Executors as pods do the work, as `make test-long` compares with a run in the Job's pod alone.
    installation.start_analysis(
        faults, start_ms=started_ms, end_ms=ended_ms, executors=1, executor=SMALL_EXECUTOR
    )
    executors = eventually(
        lambda: installation.executors(JOB),
        JOB_LIMIT_SECONDS * 1000,
        "the executor is running",
        retry_on=(CommandError,),
    )
    report, tables = installation.analysed(JOB)
    return Observed(
        cluster=installation.cluster,
        namespace=installation.namespace,
        started_ms=started_ms,
        ended_ms=ended_ms,
        committed=committed,
        faults=faults,
        executors=executors,
        report=report,
        tables=tables,
        values=installation.values,
    )


def test_prometheus_has_samples_of_every_row_that_brokers_export(observed: Observed) -> None:
    result = observed.query('count by (__name__) ({__name__=~"strandline_.+"})')
    found = {each["metric"]["__name__"] for each in result}
    found |= {name.removesuffix(end) for name in found for end in ("_bucket", "_sum", "_count")}
    rows = names.ALL_METRICS + names.OPERATOR_METRICS
    wanted = {row.name for row in rows if row not in WHEN_IT_HAPPENS}
    assert wanted - found == set()
    declared = {row.name for row in rows}
    parts = {f"{name}{end}" for name in declared for end in ("_bucket", "_sum", "_count")}
    assert found - declared - parts == set()


def test_the_clusters_status_and_prometheus_tell_what_the_analysis_found(
    observed: Observed,
) -> None:
    def told() -> dict[str, Any]:
        found = observed.cluster.get("brokercluster/default", "-n", observed.namespace)
        run: dict[str, Any] = found["status"].get("analysis", {})
        return run

    run = eventually(told, TOLD_WITHIN_MS, "the status", retry_on=(CommandError,))
    assert run["incidents"] == len(observed.tables["incidents"])
    assert run["elections"] == len(observed.tables["elections"])
    ended = names.ANALYSIS_RUN_TIMESTAMP_SECONDS.name
    (sample,) = eventually(
        lambda: query(observed.cluster, observed.namespace, f'{ended}{{cluster="default"}}'),
        TOLD_WITHIN_MS,
        "the metric",
        retry_on=(CommandError,),
    )
    wanted = datetime.fromisoformat(run["endedAt"]).timestamp()
    assert float(sample["value"][1]) == wanted


def test_a_pod_of_the_same_image_did_the_work_and_is_gone(observed: Observed) -> None:
    (pod,) = observed.executors
    job = observed.cluster.get(f"job/{JOB}", "-n", observed.namespace)
    (driver,) = job["spec"]["template"]["spec"]["containers"]
    assert "--executors=/etc/strandline/executors.json" in driver["args"]
    (container,) = pod["spec"]["containers"]
    assert container["image"] == driver["image"]
    (owner,) = pod["metadata"]["ownerReferences"]
    assert owner["name"].startswith(f"{JOB}-")
    eventually(
        lambda: installation_of(observed).left_behind() == [],
        SETTLED_WITHIN_MS,
        "Spark's objects are gone",
    )


def installation_of(observed: Observed) -> Installation:
    """Return the module's installation, for a look at its objects."""
    return Installation(observed.cluster, observed.namespace)


def pods_scraped_each_second(observed: Observed, job: str) -> set[str]:
    """Return the pods of a job, all of which responded to scrapes at the interval before faults."""
    calm = f'up{{job="{job}"}}[{COUNTED_MS}ms]'
    calm_ms = observed.started_ms + COUNTED_MS
    series = query(observed.cluster, observed.namespace, calm, at_ms=calm_ms)
    for each in series:
        times_ms = [at_seconds * 1000 for at_seconds, _ in each["values"]]
        pauses_ms = [later - earlier for earlier, later in itertools.pairwise(times_ms)]
        # A busy machine delays single scrapes, so the median pause shows the interval.
        assert abs(statistics.median(pauses_ms) - INTERVAL_MS) <= JITTER_MS, each
        assert len(times_ms) >= COUNTED_MS // INTERVAL_MS // 2, each
        assert statistics.median(int(is_up) for _, is_up in each["values"]) == 1, each
    return {each["metric"]["pod"] for each in series}


def test_prometheus_scrapes_the_operator_each_second(observed: Observed) -> None:
    (pod,) = pods_scraped_each_second(observed, "strandline-operator")
    assert pod.startswith(f"{RELEASE}-operator-")
    (passes,) = observed.query(
        f'sum by (pod) ({names.OPERATOR_RECONCILES_TOTAL.name}{{job="strandline-operator"}})'
    )
    assert passes["metric"] == {"pod": pod}
    assert float(passes["value"][1]) > 0


def test_prometheus_scrapes_each_second_under_its_own_account(observed: Observed) -> None:
    assert len(pods_scraped_each_second(observed, "strandline")) == BROKERS
    account = f"system:serviceaccount:{observed.namespace}:{RELEASE}-prometheus"
    can = observed.cluster.kubectl(
        "auth", "can-i", "list", "pods", f"--as={account}", "-n", observed.namespace
    )
    assert can.strip() == "yes"
    for refused in (
        ("list", "secrets", "-n", observed.namespace),
        ("list", "pods", "-n", "default"),
    ):
        with pytest.raises(CommandError):
            observed.cluster.kubectl("auth", "can-i", *refused, f"--as={account}")


def test_the_analysis_is_on_one_node_alone_and_its_wheel_is_not_built_again(
    observed: Observed,
) -> None:
    cluster, wanted = observed.cluster, f"localhost/{RELEASE}-analysis:"
    holders = [
        node
        for node in cluster.nodes()
        if any(reference.startswith(wanted) for reference in cluster.images_of(node))
    ]
    assert holders == [ANALYSIS_NODE]
    command = [str(REPOSITORY / "hack" / "analysis"), "wheel"]
    before = wheels(run(command, limit_seconds=JOB_LIMIT_SECONDS))
    assert len(before) == 1
    assert wheels(run(command, limit_seconds=JOB_LIMIT_SECONDS)) == before


def wheels(printed: str) -> dict[str, int]:
    folder = Path(printed.splitlines()[-1])
    return {wheel.name: wheel.stat().st_mtime_ns for wheel in folder.glob("pyspark-*.whl")}


def test_elections_found_are_those_that_were_committed(observed: Observed) -> None:
    assert observed.committed.keys() == set(range(PARTITIONS))
    rows = {(row["partition"], row["epoch"]): row for row in observed.tables["elections"]}
    truth = {
        (partition, epoch): election
        for partition, committed in observed.committed.items()
        for epoch, election in committed.elections().items()
    }
    assert rows.keys() == truth.keys()
    for key, (_, new_leader, at_ms) in truth.items():
        row = rows[key]
        if not row["observed"]:
            # No scrape saw a leader of this epoch: it must have ended before the next scrape.
            partition, epoch = key
            following = min(at for at in truth if at[0] == partition and at[1] > epoch)
            assert truth[following][2] - at_ms <= 2 * INTERVAL_MS, (row, truth)
            continue
        assert row["new_leader"] == new_leader
        assert abs(row["t_first_new_ms"] - at_ms) <= INTERVAL_MS, (row, at_ms)


def test_each_fault_shows_as_elections_of_its_kind(observed: Observed) -> None:
    for fault, kind in zip(observed.faults, ("broker_failure", "controlled"), strict=True):
        moved = [
            row
            for row in observed.tables["elections"]
            if row["old_leader"] == fault["brokerId"]
            and fault["atMs"] <= row["t_first_new_ms"] < fault["atMs"] + FAULT_LIMIT_MS
        ]
        assert moved, fault
        assert {row["kind"] for row in moved} == {kind}
        assert fault["name"] in observed.report


def test_isr_intervals_found_are_those_that_were_committed(observed: Observed) -> None:
    unmatched = [row for row in observed.tables["isr_intervals"] if row["in_isr"] is False]
    seen = set()
    for partition, committed in observed.committed.items():
        versions = versions_that_leaders_showed(observed, partition)
        for absence in committed.absences():
            rows = [
                row
                for row in observed.tables["isr_intervals"]
                if (row["partition"], row["replica"]) == (partition, absence.replica)
                and absence.left_ms < row["end_ms"]
                and row["start_ms"] < absence.back_ms + INTERVAL_MS
            ]
            away = [row for row in rows if row["in_isr"] is False]
            told = (absence, rows, versions)
            if not away:
                # Between two scrapes of its leader a replica may go and come back; where scrapes
                # failed, the report says that it knows nothing.
                assert not any(map(absence.shown_by, versions)), told
                lasted_ms = absence.back_ms - absence.left_ms
                assert lasted_ms <= 2 * INTERVAL_MS or None in [r["in_isr"] for r in rows], told
                continue
            (row,) = away
            unmatched.remove(row)
            late_ms, stays_ms = row["start_ms"] - absence.left_ms, row["end_ms"] - absence.back_ms
            assert late_ms >= -INTERVAL_MS, told
            assert stays_ms <= INTERVAL_MS + row["end_err_ms"], told
            # An edge of another reason is one of what the samples tell, not of the ISR.
            if row["start_reason"] in EVENTS:
                assert late_ms <= INTERVAL_MS + row["start_err_ms"], told
                seen.add(absence.replica)
            if row["end_reason"] in EVENTS:
                assert stays_ms >= -INTERVAL_MS - row["end_err_ms"], told
    assert unmatched == []
    assert seen == {fault["brokerId"] for fault in observed.faults}


def versions_that_leaders_showed(observed: Observed, partition: int) -> set[int]:
    """Return the partition epochs of all samples; only leaders tell them."""
    range_ms = observed.ended_ms - observed.started_ms
    labels = f'{{topic="orders",partition="{partition}"}}'
    series = observed.query(f"{names.PARTITION_PARTITION_EPOCH.name}{labels}[{range_ms}ms]")
    return {int(value) for each in series for _, value in each["values"]}


def test_isr_intervals_cover_the_range_without_overlap(observed: Observed) -> None:
    by_replica: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in sorted(observed.tables["isr_intervals"], key=lambda row: row["start_ms"]):
        by_replica.setdefault((row["partition"], row["replica"]), []).append(row)
    assert len(by_replica) == PARTITIONS * BROKERS
    for rows in by_replica.values():
        edges = [(row["start_ms"], row["end_ms"]) for row in rows]
        assert edges[0][0] == observed.started_ms
        assert edges[-1][1] == observed.ended_ms
        assert all(end == start for (_, end), (start, _) in itertools.pairwise(edges))


def test_every_query_of_the_dashboard_has_data(observed: Observed) -> None:
    found = observed.cluster.get(f"configmap/{RELEASE}-dashboards", "-n", observed.namespace)
    assert json.loads(found["data"]["strandline.json"]) == dashboard.dashboard()
    queries = [*dashboard.panel_queries(), *dashboard.variable_queries()]
    assert len(queries) >= 20

    def filled_in(query: dashboard.Query) -> str:
        return dashboard.filled_in(
            query.expression,
            namespace=observed.namespace,
            cluster="default",
            scrape_seconds=INTERVAL_MS / 1000,
            range_seconds=SHOWN_SECONDS,
        )

    assert [each.asked_by for each in queries if not observed.query(filled_in(each))] == []

"""Real pods go through faults, scraped at 1 s and at 15 s; the analysis agrees with what was done.

All tests share one installation, whose brokers write every record to disks of their own, and two
Prometheus that scrape the same pods. The truth is the log of faults, the states that the controller
committed, as a watch saw them, and the counters of brokers, added up here by plain Python.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from strandline import names
from tests.support.cluster import Cluster
from tests.support.fixtures import namespace_name
from tests.support.observed_installation import (
    ANALYSIS_NODE,
    BROKERS,
    RELEASE,
    Installation,
    now_ms,
    query,
)
from tests.support.partition_watch import Absence, CommittedStates, PartitionWatch
from tests.support.pod_faults import Fault, PodFaults

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

FAST, SLOW = RELEASE, "seldom"
"""Releases whose Prometheus scrape at 1 s and at 15 s."""
INTERVALS_MS = {FAST: 1_000, SLOW: 15_000}
CALM_MS = 60_000
"""Between two faults: an incident stays open for 10 s after its last sign, and a scrape at 15 s
tells of a state for up to 37.5 s."""
SEEN_WITHIN_MS = 20_000
"""From a fault to its first sign at 1 s, on a loaded machine."""
LATE_MS = 2_000
"""From a commit of the controller until brokers show it, and of a scrape of a loaded machine."""
MUST_LOSE_LEADERS = {"cut", "pause", "delete the pod"}
UP = "up"
SERIES = (
    names.ISR_SHRINKS_TOTAL.name,
    names.ISR_EXPANDS_TOTAL.name,
    UP,
)
"""What tests read of Prometheus themselves."""
LAG_TIME_MAX_MS = 10_000
"""Of the timing profile demo."""
JOB_LIMIT_SECONDS = 1_500
LOAD_SECONDS = 3_600
Tables = dict[str, list[dict[str, Any]]]


@dataclass
class Observed:
    """What was done, what was committed, and what each analysis made of it."""

    started_ms: int
    ended_ms: int
    faults: list[Fault]
    committed: dict[int, CommittedStates]
    series: dict[str, dict[str, list[dict[str, Any]]]]
    """Series of brokers as Prometheus has them, by release and metric."""
    reports: dict[str, str]
    tables: dict[str, Tables]


@pytest.fixture(scope="module")
def observed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """Provide the whole story and the two analyses of it."""
    namespace = namespace_name("faults-on-pods")
    cluster.create_restricted_namespace(namespace)
    try:
        yield story(Installation(cluster, namespace), tmp_path_factory.mktemp("watch"))
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def story(installation: Installation, folder: Path) -> Observed:
    on_its_node = json.dumps({"kubernetes.io/hostname": ANALYSIS_NODE})
    installation.install(
        "--set=defaultCluster.spec.storage.storageClassName=sized",
        "--set=defaultCluster.spec.config.logFlushIntervalMessages=1",
        f"--set-json=prometheus.nodeSelector={on_its_node}",
        load_seconds=LOAD_SECONDS,
    )
    installation.add_prometheus(SLOW, "--set=prometheus.scrapeInterval=15s")
    wait_scraped(installation, after_ms=now_ms())
    watch = PartitionWatch(installation.cluster, installation.namespace, folder / "watch.json")
    started_ms = now_ms()
    try:
        faults = broken(installation)
        ended_ms = now_ms()
    finally:
        committed = watch.stop()
    installation.stop_load()
    told = {
        release: analysed(installation, release, faults, start_ms=started_ms, end_ms=ended_ms)
        for release in INTERVALS_MS
    }
    return Observed(
        started_ms=started_ms,
        ended_ms=ended_ms,
        faults=faults,
        committed=committed,
        series={
            release: series_of(installation, release, start_ms=started_ms, end_ms=ended_ms)
            for release in INTERVALS_MS
        },
        reports={release: report for release, (report, _) in told.items()},
        tables={release: tables for release, (_, tables) in told.items()},
    )


def wait_scraped(installation: Installation, *, after_ms: int) -> None:
    """Wait until both Prometheus have scraped every broker after a moment."""
    for release in INTERVALS_MS:
        installation.wait_scrapes(after_ms=after_ms, release=release)


def broken(installation: Installation) -> list[Fault]:
    """Inject every fault, and return the log of them."""

    def settle() -> None:
        wait_scraped(installation, after_ms=now_ms() + CALM_MS)

    faults = PodFaults(installation, settle=settle)
    settle()
    try:
        faults.cut()
        faults.pause()
        faults.delete_leader()
        faults.slow_disk()
        faults.kill_controller()
        faults.rolling_restart()
    finally:
        print(faults.written())
    return faults.log


def analysed(
    installation: Installation, release: str, faults: list[Fault], *, start_ms: int, end_ms: int
) -> tuple[str, Tables]:
    """Analyse what one Prometheus has; return the report and every table."""
    name = f"every-{INTERVALS_MS[release] // 1000}s"
    installation.start_analysis(
        [fault.told for fault in faults],
        start_ms=start_ms,
        end_ms=end_ms,
        name=name,
        prometheusUrl=f"http://{release}-prometheus:9090",
        allTables=True,
        lagTimeMaxMs=LAG_TIME_MAX_MS,
        summaryOf="",
        deadlineSeconds=JOB_LIMIT_SECONDS,
    )
    report, tables = installation.analysed(f"{RELEASE}-{name}", limit_seconds=JOB_LIMIT_SECONDS)
    print(report)
    return report, tables


def series_of(
    installation: Installation, release: str, *, start_ms: int, end_ms: int
) -> dict[str, list[dict[str, Any]]]:
    """Return series of the brokers in the range, as one Prometheus has them."""
    return {
        name: query(
            installation.cluster,
            installation.namespace,
            f'{name}{{job="strandline"}}[{end_ms - start_ms}ms]',
            at_ms=end_ms,
            release=release,
        )
        for name in SERIES
    }


def incidents_of(observed: Observed, release: str, fault: Fault) -> list[dict[str, Any]]:
    """Return the incidents of a fault's time, oldest first, without those of the scrapes alone."""
    rows = sorted(observed.tables[release]["incidents"], key=lambda row: int(row["start_ms"]))
    return [
        row
        for row in rows
        if row["kind"] != "scrape"
        and row["start_ms"] <= fault.healed_ms
        and fault.at_ms <= row["end_ms"]
    ]


def lost_leader(fault: Fault) -> bool:
    return fault.lost_leader and fault.broker is not None


def test_each_lost_leader_is_an_incident_with_its_broker_at_the_root(observed: Observed) -> None:
    faults = [fault for fault in observed.faults if lost_leader(fault)]
    assert {fault.name for fault in faults} >= MUST_LOSE_LEADERS
    for fault in faults:
        found = incidents_of(observed, FAST, fault)
        assert found, fault
        assert found[0]["root_broker"] == fault.broker, (fault, found)
        assert found[0]["start_ms"] <= fault.at_ms + SEEN_WITHIN_MS, (fault, found)
        assert found[0]["end_ms"] <= fault.healed_ms + CALM_MS, (fault, found)


def test_a_slow_disk_is_at_the_root_of_its_incident(observed: Observed) -> None:
    (fault,) = [fault for fault in observed.faults if fault.name == "slow disk"]
    for release in INTERVALS_MS:
        (found,) = incidents_of(observed, release, fault)
        assert (found["root_broker"], found["kind"]) == (fault.broker, "broker"), found
        away = [
            row
            for row in observed.tables[release]["isr_intervals"]
            if row["in_isr"] is False and fault.at_ms <= row["start_ms"] <= fault.healed_ms
        ]
        assert {row["replica"] for row in away} == {fault.broker}


def test_a_rolling_restart_is_one_new_process_for_each_broker(observed: Observed) -> None:
    (fault,) = [fault for fault in observed.faults if fault.broker is None]
    assert incidents_of(observed, FAST, fault)
    for release, tables in observed.tables.items():
        begun = [
            row["broker"]
            for row in tables["restarts"]
            if fault.at_ms <= row["at_ms"] <= fault.healed_ms
        ]
        assert sorted(begun) == list(range(BROKERS)), release


@pytest.mark.parametrize("release", INTERVALS_MS)
def test_no_incident_is_without_a_fault_and_none_blames_another_broker(
    observed: Observed, release: str
) -> None:
    near = [(fault, incidents_of(observed, release, fault)) for fault in observed.faults]
    explained = {row["id"] for _, rows in near for row in rows}
    for fault, rows in near:
        blamed = {row["root_broker"] for row in rows} - {None}
        assert fault.broker is None or blamed <= {fault.broker}, (fault, rows)
    others = [row for row in observed.tables[release]["incidents"] if row["id"] not in explained]
    # A loaded machine lets scrapes fail, which is an incident of the scrapes, if they did.
    assert {row["kind"] for row in others} <= {"scrape"}, others
    for row in others:
        assert failed_scrapes(observed, release, row), row


def failed_scrapes(observed: Observed, release: str, row: dict[str, Any]) -> list[str]:
    """Return the pods of which Prometheus itself says that scrapes failed in an incident's time."""
    margin_ms = 2 * INTERVALS_MS[release]
    return [
        each["metric"]["pod"]
        for each in observed.series[release][UP]
        for at_seconds, is_up in each["values"]
        if is_up == "0"
        and row["start_ms"] - margin_ms <= at_seconds * 1000 <= row["end_ms"] + margin_ms
    ]


@pytest.mark.parametrize("release", INTERVALS_MS)
def test_the_elections_are_those_that_were_committed(observed: Observed, release: str) -> None:
    interval_ms = INTERVALS_MS[release]
    truth = {
        (partition, epoch): election
        for partition, committed in observed.committed.items()
        for epoch, election in committed.elections().items()
    }
    rows = {(row["partition"], row["epoch"]): row for row in observed.tables[release]["elections"]}
    assert rows.keys() == truth.keys()
    for key, row in rows.items():
        _, new_leader, at_ms = truth[key]
        if row["observed"]:
            assert row["new_leader"] == new_leader, row
            late_ms = row["t_first_new_ms"] - at_ms
            assert -LATE_MS <= late_ms <= row["t_first_new_err_ms"] + LATE_MS, (row, at_ms)
            continue
        # No scrape saw it: it ended before the next but one.
        following = min(at for at in truth if at[0] == key[0] and at[1] > key[1])
        assert truth[following][2] - at_ms <= 2 * interval_ms + LATE_MS, (row, truth)


@pytest.mark.parametrize("release", INTERVALS_MS)
def test_no_election_is_told_as_unclean_that_was_a_clean_one(
    observed: Observed, release: str
) -> None:
    told = [row for row in observed.tables[release]["elections"] if row["kind"] == "unclean"]
    for row in told:
        assert row["epoch"] in observed.committed[row["partition"]].unclean_epochs(), row


@pytest.mark.parametrize("release", INTERVALS_MS)
def test_no_replica_is_told_to_be_out_of_sync_that_was_in_sync(
    observed: Observed, release: str
) -> None:
    for row in observed.tables[release]["isr_intervals"]:
        if row["in_isr"] is not False:
            continue
        absences = [
            absence
            for absence in observed.committed[row["partition"]].absences()
            if absence.replica == row["replica"]
            and row["start_ms"] <= absence.back_ms + LATE_MS
            and absence.left_ms <= row["end_ms"]
        ]
        assert absences, row
        # At its start a sample or the leader's own clock shows it out of sync.
        begin = min(absence.left_ms for absence in absences)
        assert begin - LATE_MS <= row["start_ms"], (row, absences)


def increases(series: list[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """Return how much counters rose from their first scrape on, by (partition, broker)."""
    found: dict[tuple[int, int], int] = {}
    for each in series:
        labels = each["metric"]
        key = int(labels["partition"]), int(labels["pod"].rpartition("-")[2])
        counts = [int(value) for _, value in each["values"]]
        steps = (b - a if b >= a else b for a, b in itertools.pairwise(counts))
        found[key] = found.get(key, 0) + sum(steps)
    return found


def counted(observed: Observed, release: str, counter: names.Metric) -> dict[tuple[int, int], int]:
    return increases(observed.series[release][counter.name])


@pytest.mark.parametrize("release", INTERVALS_MS)
@pytest.mark.parametrize(
    ("counter", "column"),
    [(names.ISR_SHRINKS_TOTAL, "shrinks"), (names.ISR_EXPANDS_TOTAL, "expands")],
    ids=("shrinks", "expands"),
)
def test_changes_of_isrs_are_as_many_as_leaders_counted(
    observed: Observed, release: str, counter: names.Metric, column: str
) -> None:
    rows = observed.tables[release]["missed_edges"]
    told = {(row["partition"], row["broker"]): row[f"counted_{column}"] for row in rows}
    assert told == counted(observed, release, counter)
    assert sum(told.values()) > 0


def shrinks_of_leaders(committed: CommittedStates) -> int:
    """Return how many changes took replicas from an ISR under a leader that stayed."""
    return sum(
        before["leaderEpoch"] == after["leaderEpoch"]
        and not set(before["isr"]) <= set(after["isr"])
        for before, after in itertools.pairwise(committed.states)
    )


def test_leaders_counted_the_shrinks_that_were_committed(observed: Observed) -> None:
    truth = {number: shrinks_of_leaders(each) for number, each in observed.committed.items()}
    for release in INTERVALS_MS:
        found = dict.fromkeys(truth, 0)
        for (partition, _), count in counted(observed, release, names.ISR_SHRINKS_TOTAL).items():
            found[partition] += count
        # What a leader counts between its last scrape and its end is lost, and nothing is added.
        assert all(found[number] <= truth[number] for number in truth), (release, found, truth)
        assert release != FAST or found == truth


def test_what_scrapes_at_15_s_have_not_seen_is_told_as_missed(observed: Observed) -> None:
    (rolling,) = [fault for fault in observed.faults if fault.broker is None]
    for number, committed in observed.committed.items():
        tables = observed.tables[SLOW]
        rows = [row for row in tables["isr_intervals"] if row["partition"] == number]
        elected = {at_ms for _, _, at_ms in committed.elections().values()}
        # A leader that ends soon after a change takes its count with it, as brokers that begin
        # anew one after the other do. An election is told by its own table.
        unseen = {
            absence.left_ms
            for absence in committed.absences()
            if absence.left_ms not in elected
            and absence.left_ms < rolling.at_ms
            and not any(shows(row, absence) for row in rows)
        }
        told = [row for row in tables["missed_edges"] if row["partition"] == number]
        assert len(unseen) <= sum(row["missed_shrinks"] for row in told), (unseen, told)


def shows(row: dict[str, Any], absence: Absence) -> bool:
    """Tell whether a row has a replica out of sync, or nothing of it, at the time of an absence."""
    overlap = row["start_ms"] <= absence.back_ms + LATE_MS and absence.left_ms <= row["end_ms"]
    return row["replica"] == absence.replica and row["in_isr"] is not True and overlap


def test_times_without_a_leader_have_bounds_that_agree(observed: Observed) -> None:
    fast, slow = (
        {(row["partition"], row["epoch"]): row for row in observed.tables[release]["elections"]}
        for release in (FAST, SLOW)
    )
    both = [
        key for key in fast.keys() & slow.keys() if fast[key]["observed"] and slow[key]["observed"]
    ]
    assert both
    for key in both:
        assert slow[key]["no_leader_low_ms"] <= fast[key]["no_leader_high_ms"], (
            fast[key],
            slow[key],
        )
        assert fast[key]["no_leader_low_ms"] <= slow[key]["no_leader_high_ms"], (
            fast[key],
            slow[key],
        )
    widths = [
        sum(rows[key]["no_leader_high_ms"] - rows[key]["no_leader_low_ms"] for key in both)
        for rows in (fast, slow)
    ]
    assert widths[0] < widths[1]


@pytest.mark.parametrize("release", INTERVALS_MS)
def test_the_report_opens_with_its_scrapes_and_with_what_is_known(
    observed: Observed, release: str
) -> None:
    seconds = INTERVALS_MS[release] / 1000
    assert f"scraped every {seconds:.1f} s" in observed.reports[release]
    assert "of the partitions' time is known" in observed.reports[release]

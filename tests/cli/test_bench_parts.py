"""The pure functions of the bench: rows and their remarks, events, targets, failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench import report
from bench.failover import a_leader_to_delete, a_leader_to_kill, the_controller
from bench.figures import (
    CASCADE_GAP,
    FIGURES,
    QUIET,
    SERVICE_BACK,
    Sample,
    row_of,
    rows_of,
    unmeasured,
)
from bench.processes import ProcessSeen, cpu_percent, registration_in
from bench.run import BenchRun
from strandline_cli import tables
from strandline_cli.cluster_view import ClusterSeen, PartitionSeen, PodSeen
from strandline_cli.clusters import Cluster
from strandline_cli.commands import NotRecovered
from strandline_cli.kubectl_watch import TimedWatchEvent, timed_event_of
from strandline_cli.screen import Screen


def samples(*values: float, key: str = SERVICE_BACK.key) -> list[Sample]:
    return [Sample(key=key, value=value, load_average=value * 2) for value in values]


@pytest.mark.parametrize(
    ("values", "remark"),
    [
        ((0.1, 0.2, 1.0), "met"),
        ((0.1, 0.2, 1.01), "met, not every time"),
        ((0.1, 1.01, 1.5), "missed"),
        ((0.1, 2.0, 9.0), "missed"),
        ((0.1, 2.01, 9.0), "MISSED BY MORE THAN DOUBLE"),
    ],
)
def test_a_figure_is_judged_by_its_median_and_names_a_single_miss(
    values: tuple[float, ...], remark: str
) -> None:
    row = row_of(SERVICE_BACK, samples(*values))
    assert row is not None
    assert row.remark == remark
    assert (row.least, row.median, row.most, row.count) == (values[0], values[1], values[2], 3)
    assert row.loads == (values[0] * 2, values[2] * 2)


def test_a_figure_without_an_aim_is_reported_without_a_remark() -> None:
    row = row_of(QUIET, samples(3.0, key=QUIET.key))
    assert row is not None
    assert (row.ratio, row.remark) == (None, "")


def test_rows_come_in_the_order_of_the_report_and_gaps_in_it_are_named() -> None:
    found = samples(1.0) + samples(0.1, key=QUIET.key)
    assert [row.figure for row in rows_of(found)] == [QUIET, SERVICE_BACK]
    assert len(unmeasured(found)) == len(FIGURES) - 2
    assert unmeasured([Sample(key=each.key, value=0, load_average=0) for each in FIGURES]) == []


def test_only_a_gap_is_compared_with_the_gap_without_a_fault() -> None:
    found = samples(0.5, key=QUIET.key) + samples(2.0, key=CASCADE_GAP.key) + samples(0.1)
    assert [row.over_quiet for row in rows_of(found)] == [None, None, 4.0]
    assert [row.over_quiet for row in rows_of(found[1:])] == [None, None]


def run_of(*failures: str) -> BenchRun:
    cluster = Cluster(kind="hack", kubeconfig="/k", programs="", started=False)
    run = BenchRun(
        number=1,
        root=Path(),
        kubernetes=cluster.kubernetes("bench"),
        images={},
        screen=Screen(),
        failures=list(failures),
    )
    run.samples = [Sample(key=each.key, value=0.5, load_average=0) for each in FIGURES]
    return run


def test_a_missed_figure_is_no_failure_and_a_lost_record_is() -> None:
    run = run_of()
    run.samples += samples(100.0, 100.0, 100.0)
    assert report.failures_of([run]) == []
    assert report.failures_of([run_of("lost in bench-0")]) == ["run 1: lost in bench-0"]


def test_a_figure_that_was_not_measured_fails_the_bench() -> None:
    run = run_of()
    run.samples = [each for each in run.samples if each.key != QUIET.key]
    assert report.failures_of([run]) == [f"never measured: {QUIET.title}"]


def test_a_table_in_a_pipe_is_aligned() -> None:
    assert tables.plain([("a", "10", "x"), ("bcd", "9", "")], left={0, 2}) == [
        "a    10  x",
        "bcd   9",
    ]


# --- events and logs ----------------------------------------------------------------------


def test_a_line_of_a_watch_is_read_with_empty_fields_and_other_output_is_not() -> None:
    seen = TimedWatchEvent(
        at=1.5, event="ADDED", name="bench", uid="u", deleting=False, ready=False
    )
    assert timed_event_of("ADDED|bench|u||\n", 1.5) == seen
    assert timed_event_of("ADDED|bench|u||False\n", 1.5) == seen
    assert timed_event_of("ADDED|bench|u||True\n", 1.5) == replace(seen, ready=True)
    assert timed_event_of("ADDED|bench|u|2026-01-01T00:00:00Z|\n", 1.5) == replace(
        seen, deleting=True
    )
    assert timed_event_of("No resources found\n", 1.5) is None


def test_a_registration_is_found_among_other_lines() -> None:
    log = 'no json\n[1]\n{"message": "http listening"}\n{"message": "registered", "seconds": 0.4}\n'
    assert registration_in(log) == {"message": "registered", "seconds": 0.4}
    assert registration_in("") is None


def test_cpu_is_the_share_of_one_core_and_of_one_process() -> None:
    before = ProcessSeen(pid=7, at=100.0, started=50.0, used=3.0)
    after = replace(before, at=160.0, used=6.0)
    assert cpu_percent(before, after) == pytest.approx(5.0)
    with pytest.raises(NotRecovered):
        cpu_percent(before, replace(after, started=55.0))
    with pytest.raises(NotRecovered):
        cpu_percent(before, replace(after, pid=8))


# --- targets of a fault ---------------------------------------------------------------------


def seen_with(leaders: list[int], controller: int, restarts: list[int]) -> ClusterSeen:
    return ClusterSeen(
        partitions={
            number: PartitionSeen(number=number, leader=leader)
            for number, leader in enumerate(leaders)
        },
        pods={
            f"default-{broker}": PodSeen(uid="u", ready=True, restarts=count, image="i")
            for broker, count in enumerate(restarts)
        },
        controller=controller,
    )


def test_a_leader_that_is_killed_is_never_the_controller() -> None:
    seen = seen_with([0, 1, 2], controller=0, restarts=[0, 1, 0])
    assert (the_controller(seen), a_leader_to_kill(seen), a_leader_to_delete(seen)) == (0, 2, 1)


def test_a_broker_that_leads_nothing_is_not_killed_as_a_leader() -> None:
    seen = seen_with([0, 2, -1], controller=0, restarts=[0, 0, 5])
    assert a_leader_to_kill(seen) == 2
    with pytest.raises(NotRecovered, match="no broker leads but broker 0"):
        a_leader_to_kill(seen_with([0, 0, -1], controller=0, restarts=[0, 0, 0]))


def test_without_a_controller_no_broker_is_killed() -> None:
    with pytest.raises(NotRecovered):
        the_controller(seen_with([0, 1, 2], controller=-1, restarts=[0, 0, 0]))

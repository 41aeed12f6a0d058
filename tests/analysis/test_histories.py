"""Histories hold together: what the truth says, what replicas show, and what faults do."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from bench.histories import signals, summed, truth
from bench.histories.brokers import ClusterHistory, Scrape, happened
from bench.histories.lines import Line
from bench.histories.partition import walked
from bench.histories.plan import FaultKind, Plan, planned
from bench.histories.replicas import PartitionHistory
from strandline import names
from strandline_analysis import catalogue

SEEDS = range(4)
LENGTH_MS = 1_800_000
Rows = dict[str, list[dict[str, Any]]]


@cache
def cluster_of(seed: int) -> ClusterHistory:
    return happened(planned(Plan(seed=seed, length_ms=LENGTH_MS)))


@cache
def partitions_of(seed: int) -> tuple[PartitionHistory, ...]:
    cluster = cluster_of(seed)
    return tuple(walked(cluster, *subject) for subject in cluster.plan.subjects())


@cache
def truth_of(seed: int) -> Rows:
    cluster, found = cluster_of(seed), defaultdict[str, list[dict[str, Any]]](list)
    histories = partitions_of(seed)
    sums = summed.Summed(cluster.plan)
    for history in histories:
        for name, row in sums.added(history, truth.of_partition(cluster, history)):
            found[name].append(row)
    for topic in cluster.plan.topic_names():
        of_topic = [history for history in histories if history.topic == topic]
        for name, row in truth.of_topic(cluster, of_topic):
            found[name].append(row)
    for name, row in [*truth.of_cluster(cluster), *sums.rows()]:
        found[name].append(row)
    return found


def of_kind(kind: FaultKind, *, minutes: int = 10, **given: Any) -> ClusterHistory:
    """Return a history in which the same fault comes again and again."""
    return happened(planned(Plan(seed=1, length_ms=minutes * 60_000, **given), [kind]))


def all_partitions(cluster: ClusterHistory) -> list[PartitionHistory]:
    return [walked(cluster, *subject) for subject in cluster.plan.subjects()]


def moments(history: PartitionHistory, plan: Plan) -> Iterator[int]:
    """Yield the times around all changes, and times in between."""
    changes = [state.at_ms for state in history.states] + [
        piece.at_ms for replica in history.replicas for piece in replica.end.pieces
    ]
    for at_ms in sorted({*changes, *range(plan.start_ms, plan.end_ms, 7_777)}):
        for each in (at_ms - 1, at_ms):
            if plan.start_ms <= each < plan.end_ms:
                yield each


@pytest.mark.parametrize("seed", SEEDS)
def test_true_states_are_disjoint_and_cover_the_range(seed: int) -> None:
    plan, rows = cluster_of(seed).plan, truth_of(seed)
    for table, key, value in (
        ("isr_intervals", ("topic", "partition", "replica"), "in_isr"),
        ("isr_size_intervals", ("topic", "partition"), "isr_size"),
    ):
        by_key = defaultdict(list)
        for row in rows[table]:
            by_key[tuple(row[name] for name in key)].append(row)
        assert by_key
        for found in by_key.values():
            assert (found[0]["start_ms"], found[-1]["end_ms"]) == (plan.start_ms, plan.end_ms)
            for before, after in itertools.pairwise(found):
                assert before["end_ms"] == after["start_ms"] > before["start_ms"]
                assert before[value] != after[value]


@pytest.mark.parametrize("seed", SEEDS)
def test_episodes_last_as_long_as_their_states(seed: int) -> None:
    rows = truth_of(seed)
    bad = sum(
        row["end_ms"] - row["start_ms"]
        for row in rows["isr_size_intervals"]
        if row["isr_size"] < row["replicas"]
    )
    assert sum(row["bad_ms"] for row in rows["ur_episodes"]) == bad > 0
    for row in rows["ur_episodes"]:
        assert row["missing_replicas"]


@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_keep_the_promises_of_replication(seed: int) -> None:
    plan = cluster_of(seed).plan
    for history in partitions_of(seed):
        before = -1
        unclean = {e.at_ms for e in history.elections if e.kind == "unclean"}
        for at_ms in moments(history, plan):
            state, committed = history.at(at_ms), history.committed.at(at_ms)
            ends = {replica.broker: replica.end.at(at_ms) for replica in history.replicas}
            assert state.leader in state.isr
            assert all(ends[broker] >= committed for broker in state.isr), at_ms
            assert committed >= before or at_ms in unclean
            before = committed
            for replica in history.replicas:
                below = [t for t in history.truncations if t.broker == replica.broker]
                assert replica.watermark.at(at_ms) <= ends[replica.broker]
                assert not any(t.at_ms == at_ms and t.leo_to != ends[t.broker] for t in below)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_epoch_has_one_leader_and_its_election(seed: int) -> None:
    for history in partitions_of(seed):
        epochs = [election.epoch for election in history.elections]
        assert epochs == list(range(2, history.states[-1].epoch + 1))
        for election in history.elections:
            assert history.at(election.at_ms).leader == election.new_leader
            assert history.at(election.at_ms - 1).leader == election.old_leader
            assert election.lost_ms <= election.at_ms
        versions = [state.version for state in history.states]
        assert versions == list(range(1, len(versions) + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_at_most_the_zombies_lead_beside_the_leader(seed: int) -> None:
    plan = cluster_of(seed).plan
    for history in partitions_of(seed):
        for at_ms in moments(history, plan):
            leading = set()
            for replica in history.replicas:
                shown = [each for each in replica.shown if each.at_ms <= at_ms][-1]
                if shown.leads:
                    leading.add(replica.broker)
            zombies = {z.broker for z in history.zombies if z.from_ms <= at_ms < z.until_ms}
            assert zombies <= leading <= zombies | {history.at(at_ms).leader}


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_have_the_columns_of_the_catalogue(seed: int) -> None:
    rows = truth_of(seed)
    assert set(rows) <= {*truth.TABLES, *summed.TABLES, truth.FAULTS}
    for name in (*truth.TABLES, *summed.TABLES):
        for row in rows[name]:
            assert set(row) == set(catalogue.TABLES[name].names), name


def test_every_kind_of_fault_comes_and_each_has_time_to_heal() -> None:
    plan = cluster_of(0).plan
    assert {fault.kind for fault in plan.faults} == set(FaultKind)
    for before, after in itertools.pairwise(plan.faults):
        assert after.at_ms - before.until_ms >= plan.settle_ms
    for history in partitions_of(0):
        for fault in plan.faults:
            healed = history.at(fault.until_ms + plan.settle_ms)
            assert healed.isr == set(plan.assignment(history.topic, history.partition)), fault


def test_a_plan_gives_the_same_history_each_time() -> None:
    again = happened(planned(Plan(seed=2, length_ms=LENGTH_MS)))
    assert again == cluster_of(2)
    assert all_partitions(again) == list(partitions_of(2))
    other = happened(planned(Plan(seed=2, length_ms=LENGTH_MS, cluster="green")))
    assert other.steps != again.steps


def test_a_slow_follower_leaves_after_the_lag_time_and_before_the_next_check() -> None:
    cluster = of_kind(FaultKind.SLOW_DISK)
    plan = cluster.plan
    for history in all_partitions(cluster):
        for fault in plan.faults:
            within = [s for s in history.states if fault.at_ms <= s.at_ms < fault.until_ms]
            if history.at(fault.at_ms).leader == fault.broker:
                assert within == []
                continue
            (left,) = within
            assert fault.broker not in left.isr
            behind_ms = left.at_ms - fault.at_ms
            assert plan.lag_time_max_ms < behind_ms <= 1.5 * plan.lag_time_max_ms + 1


@pytest.mark.parametrize("kind", [FaultKind.SCRAPE_GAP, FaultKind.CONTROLLER_LOSS])
def test_what_does_not_hit_a_broker_changes_no_partition(kind: FaultKind) -> None:
    cluster = of_kind(kind)
    assert cluster.plan.faults
    assert all(len(history.states) == 1 for history in all_partitions(cluster))


def test_a_counter_reset_is_too_short_to_be_seen_in_the_isr_of_followers() -> None:
    cluster = of_kind(FaultKind.COUNTER_RESET)
    assert any(len(spans) > 1 for spans in cluster.processes)
    for spans in cluster.processes:
        for before, after in itertools.pairwise(spans):
            assert after.from_ms - before.until_ms < 1000


def test_a_flapping_replica_leaves_and_returns_several_times() -> None:
    cluster = of_kind(FaultKind.FLAP, minutes=5, topics=1, partitions=1, brokers=3)
    (history,) = all_partitions(cluster)
    (fault, *_) = cluster.plan.faults
    sizes = [len(state.isr) for state in history.states]
    if history.states[0].leader == fault.broker:
        assert sizes == [3]
    else:
        assert sizes[:9] == [3, 2, 3, 2, 3, 2, 3, 2, 3]


def test_an_unclean_election_loses_what_one_replica_had_alone() -> None:
    cluster = of_kind(FaultKind.UNCLEAN, minutes=20)
    rows = [row for h in all_partitions(cluster) for row in truth.of_partition(cluster, h)]
    at_risk = [row for name, row in rows if name == "data_at_risk"]
    # What was not lost was alone on the new leader until a second replica had it.
    assert all(row["lost"] == (0 if row["recovered"] else row["offsets"]) for row in at_risk)
    alone = [f for f in cluster.plan.faults if cluster.plan.min_isr(f.topic or "") == 1]
    assert sum(row["lost"] > 0 for row in at_risk) == len(alone)
    # Where two replicas must have each record, nothing was committed by one.
    refused = [row for name, row in rows if name == "umi_episodes"]
    assert len(refused) == len(cluster.plan.faults) - len(alone) > 0
    unclean = [row for name, row in rows if name == "elections" and row["kind"] == "unclean"]
    assert len(unclean) == len(cluster.plan.faults)
    cut = [row for name, row in rows if name == "truncations"]
    assert all(row["records_low"] > 0 for row in cut)


def test_a_leader_that_died_with_records_of_its_own_cuts_them_off() -> None:
    cluster = of_kind(FaultKind.TRUNCATION)
    cut = [t for h in all_partitions(cluster) for t in h.truncations]
    expected = {fault.records for fault in cluster.plan.faults}
    assert {t.leo_from - t.leo_to for t in cut} == expected
    assert not any(t.below_hw for t in cut)


@pytest.mark.parametrize(
    ("kind", "seen"), [(FaultKind.ZOMBIE, Scrape.SAMPLES), (FaultKind.CUT, Scrape.FAILED)]
)
def test_zombies_lead_until_they_are_reached_again(kind: FaultKind, seen: Scrape) -> None:
    cluster = of_kind(kind)
    zombies = [z for h in all_partitions(cluster) for z in h.zombies]
    assert zombies
    for zombie in zombies:
        assert cluster.scrape(zombie.broker, zombie.from_ms) == seen
        (fault,) = [f for f in cluster.plan.faults if f.at_ms < zombie.from_ms < f.until_ms]
        assert fault.until_ms < zombie.until_ms < fault.until_ms + 500


@pytest.mark.parametrize("seed", SEEDS)
def test_produced_records_of_the_minutes_are_those_in_the_logs(seed: int) -> None:
    plan, rows = cluster_of(seed).plan, truth_of(seed)
    counted = sum(row["records"] for row in rows["replication_throughput"])
    appended = 0
    for history in partitions_of(seed):
        cut = sum(t.leo_from - t.leo_to for t in history.truncations)
        appended += history.committed.at(plan.end_ms - 1) - history.committed.at(plan.start_ms)
        appended += cut
    # What a log got with its leader's death was never counted.
    own = sum(fault.records for fault in plan.faults) * plan.topics * plan.partitions
    assert counted - own <= appended + plan.rate * plan.lag_time_max_ms // 1000
    assert appended - own <= counted + len(partitions_of(seed))


def test_series_have_labels_of_the_list_of_metrics() -> None:
    cluster, histories = cluster_of(0), partitions_of(0)
    elections = [each for history in histories for each in history.elections]
    shown = [
        *(each for h in histories for each in signals.of_partition(cluster, h)),
        *signals.of_topic(cluster, histories[: cluster.plan.partitions]),
        *signals.of_cluster(cluster, elections),
    ]
    given = {"__name__", "cluster", "instance", "namespace", "pod"}
    labels = {metric.name: set(metric.labels) for metric in names.ALL_METRICS}
    for signal in shown:
        name = signal.labels["__name__"]
        if name != signals.UP:
            assert set(signal.labels) - given == labels[name]
    assert {signal.labels["__name__"] for signal in shown} == set(signals.METRICS)
    assert len({tuple(sorted(signal.labels.items())) for signal in shown}) == len(shown)


def test_a_range_without_kinds_and_values_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="kinds is empty"):
        planned(Plan(), [])
    with pytest.raises(ValueError, match="topics is 501; it accepts 1 to 500"):
        Plan(topics=501)
    with pytest.raises(ValueError, match="replicas is 4; it accepts 1 to 3"):
        replace(Plan(), replicas=4)


def test_a_line_is_exact_and_its_times_only_rise() -> None:
    line = Line()
    line.set(0, 5, rise=3)
    line.set(2_000, 1)
    assert [line.at(at) for at in (0, 999, 1_000, 1_999, 2_000, 9_000)] == [5, 7, 8, 10, 1, 1]
    assert (line.before(2_000), line.before(1_000), line.before(9_000)) == (11, 8, 1)
    with pytest.raises(ValueError, match="times only rise"):
        line.set(1_000, 0)

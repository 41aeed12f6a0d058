"""What a scrape keeps of the one before is never older than the replica that it shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strandline import names
from strandline.core.leader import LeaderReplica
from strandline.core.partition import IDLE, Failed, Partition
from strandline.model import PartitionEpoch, TopicPartition
from strandline.names import Metric
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.observability import replica_metrics
from strandline.runtime.observability.replica_lines import (
    COUNTED_ROWS,
    FOLLOWER_ROWS,
    ROWS,
    SINCE_ROWS,
    STATE_ROWS,
)
from strandline.runtime.observability.replica_metrics import ReplicaMetrics
from tests.runtime.clients.test_broker_api import OTHER, TP, Node, with_node
from tests.runtime.observability.test_replica_metrics import lead

CHANGED = TopicPartition(topic_id=TP.topic_id, partition=1)
SHOWN = (*ROWS, *COUNTED_ROWS, names.BROKER_PARTITIONS)
ONLY_LED = (*STATE_ROWS[2:], *SINCE_ROWS, *FOLLOWER_ROWS)
"""Of a leader, and of no other replica."""


class StillClock(Clock):
    """Stands still, so that two scrapes of the same differ in nothing."""

    def now_ms(self) -> int:
        return 1_000

    def wall_time_us(self) -> int:
        return 5_000_000


def replica(metrics: ReplicaMetrics) -> Partition:
    return metrics.replicas._partitions[CHANGED]


def leader(metrics: ReplicaMetrics) -> LeaderReplica:
    role = replica(metrics).role
    assert isinstance(role, LeaderReplica)
    return role


def move_log_start(metrics: ReplicaMetrics) -> None:
    replica(metrics).log.log_start_offset += 1


def move_log_end(metrics: ReplicaMetrics) -> None:
    replica(metrics).log.log_end_offset += 1


def move_high_watermark(metrics: ReplicaMetrics) -> None:
    replica(metrics).log.high_watermark += 1


def grow(metrics: ReplicaMetrics) -> None:
    metrics.store.logs[CHANGED]._segments._sealed_bytes += 1


def roll(metrics: ReplicaMetrics) -> None:
    segments = metrics.store.logs[CHANGED]._segments._segments
    segments.append(segments[-1])


def change_state(metrics: ReplicaMetrics) -> None:
    proposer = leader(metrics).proposer
    proposer.state = replace(proposer.state, partition_epoch=PartitionEpoch(7))


def shrink_isr(metrics: ReplicaMetrics) -> None:
    proposer = leader(metrics).proposer
    proposer.state = replace(proposer.state, isr=proposer.state.isr[:1])


def stop_leading(metrics: ReplicaMetrics) -> None:
    replica(metrics).role = IDLE


def fail(metrics: ReplicaMetrics) -> None:
    replica(metrics).role = Failed(reason="lost")


def begin_to_lead(metrics: ReplicaMetrics) -> None:
    metrics.reporter.leader_since[CHANGED] = 3.0


def note_isr_change(metrics: ReplicaMetrics) -> None:
    metrics.reporter.isr_changed_at[CHANGED] = 4.0


def move_follower(metrics: ReplicaMetrics) -> None:
    leader(metrics).followers[OTHER].log_end_offset += 1


def catch_up(metrics: ReplicaMetrics) -> None:
    leader(metrics).followers[OTHER].last_caught_up_ms = 123


def lose_log(metrics: ReplicaMetrics) -> None:
    del metrics.store.logs[CHANGED]


def lose_replica(metrics: ReplicaMetrics) -> None:
    del metrics.replicas._controller_requests._partitions[CHANGED]


CHANGES: tuple[tuple[Callable[[ReplicaMetrics], None], set[Metric]], ...] = (
    (move_log_start, {names.PARTITION_LOG_START_OFFSET}),
    (move_log_end, {names.PARTITION_LOG_END_OFFSET}),
    (move_high_watermark, {names.PARTITION_HIGH_WATERMARK}),
    (grow, {names.PARTITION_LOG_SIZE_BYTES}),
    (roll, {names.PARTITION_LOG_SEGMENTS}),
    (change_state, {names.PARTITION_PARTITION_EPOCH}),
    (
        shrink_isr,
        {
            names.PARTITION_ISR_SIZE,
            names.PARTITION_ISR_MEMBER,
            names.BROKER_UNDER_REPLICATED_PARTITIONS,
            names.BROKER_AT_MIN_ISR_PARTITIONS,
        },
    ),
    (
        stop_leading,
        {
            names.PARTITION_IS_LEADER,
            names.BROKER_LEADERS,
            *ONLY_LED,
        },
    ),
    (
        fail,
        {
            names.PARTITION_IS_LEADER,
            names.BROKER_LEADERS,
            names.BROKER_OFFLINE_REPLICAS,
            *ONLY_LED,
        },
    ),
    (begin_to_lead, {names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS}),
    (note_isr_change, {names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS}),
    (move_follower, {names.REPLICA_LOG_END_OFFSET}),
    (catch_up, {names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS}),
    (lose_log, {names.BROKER_PARTITIONS, names.BROKER_LEADERS, *ROWS}),
    (lose_replica, {names.BROKER_PARTITIONS, names.BROKER_LEADERS, *ROWS}),
)


def families(metrics: ReplicaMetrics) -> dict[str, str]:
    """Return the families of a scrape by name, without those that no replica changes."""
    parts = "".join(metrics.pieces()).split("# HELP ")[1:]
    by_name = {part.split(" ", 1)[0]: part for part in parts}
    return {row.name: by_name[row.name] for row in SHOWN}


async def still(node: Node, *, partitions: int, detail_max: int = 100) -> ReplicaMetrics:
    """Lead that many partitions, since a known time, by a clock that stands still."""
    metrics = await lead(node, partitions)
    for tp in node.store.logs:
        metrics.reporter.leader_since[tp], metrics.reporter.isr_changed_at[tp] = 1.0, 2.0
    return replace(metrics, clock=StillClock(), detail_max=detail_max)


@pytest.fixture
def _two_for_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_metrics, "PARTITIONS_PER_STEP", 2)


@pytest.mark.usefixtures("_two_for_each_step")
@pytest.mark.parametrize(
    ("change", "rows"), CHANGES, ids=lambda each: getattr(each, "__name__", "")
)
def test_the_next_scrape_shows_what_changed_and_nothing_else(
    change: Callable[[ReplicaMetrics], None], rows: set[Metric], tmp_path: Path
) -> None:
    async def scenario(node: Node) -> None:
        metrics = await still(node, partitions=5)
        before = families(metrics)
        assert families(metrics) == before
        change(metrics)
        after = families(metrics)
        assert {name for name in after if after[name] != before[name]} == {r.name for r in rows}
        assert after == families(replace(metrics))

    with_node(tmp_path, scenario)


@pytest.mark.usefixtures("_two_for_each_step")
def test_replicas_that_go_and_come_move_the_others_from_step_to_step(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        metrics = await still(node, partitions=5, detail_max=3)
        whole = families(metrics)
        assert detailed(whole) == ["0", "1", "2"]
        hosted: tuple[dict[TopicPartition, Any], ...] = (
            node.store.logs,
            node._replicas._controller_requests._partitions,
        )
        for replicas in hosted:
            gone = replicas.pop(CHANGED)
            fewer = families(metrics)
            assert detailed(fewer) == ["0", "2", "3"]
            assert fewer == families(replace(metrics))
            replicas[CHANGED] = gone
            assert families(metrics) == whole

    with_node(tmp_path, scenario)


@pytest.mark.usefixtures("_two_for_each_step")
def test_nothing_is_kept_of_replicas_that_are_gone(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        metrics = await still(node, partitions=5)
        families(metrics)
        del node.store.logs[CHANGED]
        families(metrics)
        assert len(metrics._kept) == 4
        node.store.logs.clear()
        assert families(metrics) == families(replace(metrics))
        assert not metrics._kept
        assert not metrics._blocks

    with_node(tmp_path, scenario)


def detailed(shown: dict[str, str]) -> list[str]:
    """Return the partitions that are shown one by one."""
    return re.findall('partition="(.)"', shown[names.PARTITION_LOG_END_OFFSET.name])

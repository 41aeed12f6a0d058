"""The gauges of replicas are made in steps whose work does not grow with the partitions."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import Metric as MetricFamily
from prometheus_client.parser import text_string_to_metric_families

from strandline import component_settings, names
from strandline.config.replication import ControllerConfig, ReplicationConfig
from strandline.config.timing import TimingConfig
from strandline.controller.controller import Controller
from strandline.core.events import FollowerFetchReceived, LeaderAndIsrReceived
from strandline.core.fetch_changes import FetchChanges, FetchPartition
from strandline.model import (
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    TopicPartition,
)
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.observability.metrics import Metrics
from strandline.runtime.observability.notice_reporters import CoreNoticeReporter
from strandline.runtime.observability.replica_metrics import ReplicaMetrics
from tests.runtime.clients.test_broker_api import EPOCH, ME, OTHER, TOPIC, TP, Node, with_node
from tests.support.counted_calls import calls_of
from tests.support.eventually import aeventually

LIMIT_MS = 20_000
CALLS_FOR_EACH_PARTITION_MAX = 28
"""Of one that this broker leads with one follower: 25, as only the follower's lines are made."""


def command(partition: int, replicas: tuple[BrokerId, ...] = (ME, OTHER)) -> PartitionCommand:
    state = PartitionState(
        replicas=replicas,
        leader=ME,
        leader_epoch=LeaderEpoch(1),
        partition_epoch=PartitionEpoch(1),
        isr=tuple(IsrEntry(broker_id=each, broker_epoch=EPOCH) for each in (ME, OTHER)),
        min_insync_replicas=1,
        controller_epoch=ControllerEpoch(1),
    )
    tp = TopicPartition(topic_id=TP.topic_id, partition=partition)
    return PartitionCommand(tp=tp, topic_name=TOPIC, state=state)


async def lead(
    node: Node,
    partitions: int,
    replicas: tuple[BrokerId, ...] = (ME, OTHER),
    detail_max: int = 2_000,
) -> ReplicaMetrics:
    """Lead that many partitions and return their metrics."""
    received = LeaderAndIsrReceived(
        request_id=1,
        controller_epoch=ControllerEpoch(1),
        broker_epoch=EPOCH,
        partitions=tuple(command(each, replicas) for each in range(partitions)),
    )
    node._driver.submit(received)

    async def leads_all() -> bool:
        led = [view for view in node._replicas.views() if view.role.value == "leader"]
        return len(led) == partitions

    await aeventually(leads_all, LIMIT_MS, "leads all")
    timing = component_settings.controller(TimingConfig(), ControllerConfig(), ReplicationConfig())
    return ReplicaMetrics(
        broker_id=ME,
        replicas=node._replicas,
        store=node.store,
        space=node.space,
        metadata=node._metadata,
        controller=Controller(broker_id=ME, identity="me", rank=0, timing=timing),
        reporter=CoreNoticeReporter(Metrics(), Clock()),
        clock=Clock(),
        detail_max=detail_max,
    )


def scraped(metrics: ReplicaMetrics) -> dict[str, MetricFamily]:
    """Return what a scrape shows, by family."""
    text = "".join(metrics.pieces())
    return {each.name: each for each in text_string_to_metric_families(text)}


def longest_step(metrics: ReplicaMetrics) -> tuple[int, str]:
    """Return the calls of the longest step of a scrape, and its text."""
    pieces, made = metrics.pieces(), list[str | None]()
    longest = 0
    while not made or made[-1] is not None:
        longest = max(longest, calls_of(lambda: made.append(next(pieces, None))))
    return longest, "".join(piece or "" for piece in made)


def test_a_step_of_a_scrape_costs_the_same_beside_twice_the_partitions(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        few, _ = longest_step(await lead(node, 100, detail_max=150))
        many, text = longest_step(await lead(node, 200, detail_max=150))
        assert many < 1.2 * few
        families = {each.name: each for each in text_string_to_metric_families(text)}
        members = families[names.PARTITION_ISR_MEMBER.name].samples
        assert {(each.labels["replica"], each.value) for each in members} == {("1", 1), ("2", 1)}
        ends = families[names.PARTITION_LOG_END_OFFSET.name].samples
        assert [each.labels["partition"] for each in ends] == [str(each) for each in range(150)]
        assert families[names.BROKER_LEADERS.name].samples[0].value == 200
        assert families[names.BROKER_LEADERS_FOR_OTHERS.name].samples[0].value == 0

    with_node(tmp_path, scenario)


def test_a_scrape_shows_a_new_state_in_place_of_the_kept_one(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        metrics = await lead(node, 2)
        assert values(scraped(metrics)[names.PARTITION_ISR_SIZE.name]) == [2, 2]
        former = command(1)
        alone = replace(
            former.state,
            isr=former.state.isr[:1],
            min_insync_replicas=2,
            partition_epoch=PartitionEpoch(2),
        )
        node._driver.submit(
            LeaderAndIsrReceived(
                request_id=2,
                controller_epoch=ControllerEpoch(1),
                broker_epoch=EPOCH,
                partitions=(replace(former, state=alone),),
            )
        )

        async def shows_it() -> bool:
            return values(scraped(metrics)[names.PARTITION_PARTITION_EPOCH.name]) == [1, 2]

        await aeventually(shows_it, LIMIT_MS, "the new state is shown")
        families = scraped(metrics)
        assert values(families[names.PARTITION_ISR_SIZE.name]) == [2, 1]
        assert values(families[names.PARTITION_ISR_MEMBER.name]) == [1, 1, 1, 0]
        assert values(families[names.PARTITION_MIN_INSYNC_REPLICAS.name]) == [1, 2]
        assert values(families[names.BROKER_UNDER_REPLICATED_PARTITIONS.name]) == [1]
        assert values(families[names.BROKER_UNDER_MIN_ISR_PARTITIONS.name]) == [1]

    with_node(tmp_path, scenario)


def test_a_scrape_costs_the_same_few_calls_for_each_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        calls = []
        for partitions in (1, 101, 1_001):
            metrics = await lead(node, partitions)
            scraped(metrics)
            calls.append(calls_of(partial(deque, metrics.pieces(), 0)))
        few, many = (calls[1] - calls[0]) / 100, (calls[2] - calls[1]) / 900
        assert many == pytest.approx(few, rel=0.05)
        assert many < CALLS_FOR_EACH_PARTITION_MAX

    with_node(tmp_path, scenario)


def test_fetches_that_tell_nothing_new_move_the_time_at_which_a_follower_was_caught_up(
    tmp_path: Path,
) -> None:
    position = FetchPartition(
        tp=TP,
        fetch_offset=0,
        leader_epoch=LeaderEpoch(1),
        last_fetched_epoch=LeaderEpoch(1),
        high_watermark=0,
        log_start_offset=0,
    )

    def fetch(session_epoch: int) -> FollowerFetchReceived:
        changed = () if session_epoch else (position,)
        return FollowerFetchReceived(
            request_id=session_epoch,
            follower=OTHER,
            broker_epoch=EPOCH,
            clean_since_epoch=EPOCH,
            max_wait_ms=0,
            partitions=(position,),
            changes=FetchChanges(
                session_id=1, session_epoch=session_epoch, changed=changed, forgotten=()
            ),
        )

    async def scenario(node: Node) -> None:
        metrics = await lead(node, 1)
        session_epochs = itertools.count()
        node._driver.submit(fetch(next(session_epochs)))
        name = names.REPLICA_LAST_CAUGHT_UP_TIMESTAMP_SECONDS.name
        (first,) = values(scraped(metrics)[name])

        async def moved() -> bool:
            node._driver.submit(fetch(next(session_epochs)))
            (now,) = values(scraped(metrics)[name])
            return now > first + 0.1  # more than the rounding of one time

        await aeventually(moved, LIMIT_MS, "a later time is shown")

    with_node(tmp_path, scenario)


def values(family: MetricFamily) -> list[float]:
    return [each.value for each in family.samples]


def test_partitions_led_in_the_place_of_another_broker_are_counted(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        _, text = longest_step(await lead(node, 3, replicas=(OTHER, ME)))
        families = {each.name: each for each in text_string_to_metric_families(text)}
        assert families[names.BROKER_LEADERS_FOR_OTHERS.name].samples[0].value == 3

    with_node(tmp_path, scenario)


def test_a_watch_that_nobody_needs_any_more_has_no_time() -> None:
    metrics = Metrics()
    for resource in ("leases", "topics"):
        metrics.watch_alive(resource)
    metrics.watch_ended("topics")
    metrics.watch_ended("topics")
    name = names.WATCH_LAST_EVENT_TIMESTAMP_SECONDS.name
    (family,) = [each for each in metrics.registry.collect() if each.name == name]
    assert [each.labels for each in family.samples] == [{"resource": "leases"}]

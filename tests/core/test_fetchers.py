"""Fetches per leader: one at a time, superseded, paused, in turn."""

from __future__ import annotations

from dataclasses import replace

from strandline.core.broker_context import BrokerContext
from strandline.core.effects import Effect, SendFetch
from strandline.core.fetchers import Fetchers
from strandline.core.follower import FollowerReplica
from strandline.core.settings import CoreSettings
from strandline.model import NO_LEADER, BrokerId, TopicId, TopicPartition

from .samples import OTHER_TP, SETTINGS, TP, context, log, state


def replica(tp: TopicPartition = TP, *, leader: int = 1, le: int = 0) -> FollowerReplica:
    mine = log()
    mine.tp = tp
    return FollowerReplica(log=mine, state=state(leader=leader, le=le))


def fetchers(settings: CoreSettings = SETTINGS) -> tuple[Fetchers, BrokerContext]:
    broker_context = context(settings=settings)
    return Fetchers(broker_context), broker_context


def sent(effects: list[Effect]) -> list[SendFetch]:
    assert all(isinstance(each, SendFetch) for each in effects)
    return [each for each in effects if isinstance(each, SendFetch)]


def names(effect: SendFetch) -> list[int]:
    return [each.tp.partition for each in effect.partitions]


def test_one_fetch_per_leader_until_its_response() -> None:
    work, _ = fetchers()
    work.follow(TP, replica())
    work.follow(OTHER_TP, replica(OTHER_TP, leader=2))
    first = sent(work.plan(0))
    assert [(each.leader, names(each)) for each in first] == [(1, [0]), (2, [1])]
    assert work.plan(1) == []
    assert work.take_outstanding(BrokerId(1), first[0].request_id) is not None
    assert [each.leader for each in sent(work.plan(1))] == [1]


def test_partition_that_comes_does_not_wait_for_a_held_fetch() -> None:
    work, _ = fetchers()
    work.follow(TP, replica())
    first = sent(work.plan(0))[0]
    work.follow(OTHER_TP, replica(OTHER_TP))
    second = sent(work.plan(1))[0]
    assert names(second) == [0, 1]
    assert work.take_outstanding(BrokerId(1), first.request_id) is None
    assert work.take_outstanding(BrokerId(2), second.request_id) is None
    assert work.take_outstanding(BrokerId(1), second.request_id) is not None
    assert work.take_outstanding(BrokerId(1), second.request_id) is None


def test_delayed_partition_lets_the_others_go_on_and_then_joins_them() -> None:
    work, _ = fetchers()
    slow = replica()
    work.follow(TP, slow)
    work.follow(OTHER_TP, replica(OTHER_TP))
    found = work.take_outstanding(BrokerId(1), sent(work.plan(0))[0].request_id)
    assert found is not None
    slow.delayed_until_ms = 50
    work.after_response(found[0], TP, 10)
    assert names(sent(work.plan(10))[0]) == [1]
    assert work.next_wakeup_ms == 50
    assert work.plan(49) == []
    assert names(sent(work.plan(50))[0]) == [0, 1]


def test_fenced_partition_is_fetched_no_more() -> None:
    work, _ = fetchers()
    own = replica()
    work.follow(TP, own)
    found = work.take_outstanding(BrokerId(1), sent(work.plan(0))[0].request_id)
    assert found is not None
    own.fenced = True
    work.after_response(found[0], TP, 0)
    assert work.plan(0) == []
    assert work.next_wakeup_ms is None


def test_no_fetch_is_sent_without_a_leader() -> None:
    work, _ = fetchers()
    work.follow(TP, replica(leader=NO_LEADER))
    work.follow(OTHER_TP, replace(replica(OTHER_TP), fenced=True))
    assert work.plan(0) == []


def test_forgotten_partition_takes_its_fetcher_along() -> None:
    work, _ = fetchers()
    work.follow(TP, replica())
    first = sent(work.plan(0))[0]
    work.forget(TP)
    work.forget(TP)
    assert work.take_outstanding(BrokerId(1), first.request_id) is None
    work.on_fetch_failed(BrokerId(1), first.request_id, 0)
    assert work.next_wakeup_ms is None


def test_failed_fetch_pauses_the_leader_and_only_the_outstanding_one_does() -> None:
    work, _ = fetchers()
    work.follow(TP, replica())
    first = sent(work.plan(0))[0]
    work.on_fetch_failed(BrokerId(1), first.request_id + 1, 0)
    assert work.plan(0) == []
    work.on_fetch_failed(BrokerId(1), first.request_id, 0)
    assert work.next_wakeup_ms == SETTINGS.fetch_backoff_min_ms
    assert work.plan(SETTINGS.fetch_backoff_min_ms - 1) == []
    assert len(work.plan(SETTINGS.fetch_backoff_min_ms)) == 1


def test_silent_leader_counts_as_failed() -> None:
    work, _ = fetchers()
    work.follow(TP, replica())
    work.plan(0)
    deadline_ms = SETTINGS.fetch_wait_max_ms + SETTINGS.fetch_timeout_ms
    assert work.next_wakeup_ms == deadline_ms
    assert work.plan(deadline_ms) == []
    assert len(work.plan(deadline_ms + SETTINGS.fetch_backoff_min_ms)) == 1


def test_many_partitions_take_turns_without_waiting() -> None:
    work, _ = fetchers(replace(SETTINGS, fetch_partitions_max=2))
    for number in range(3):
        tp = TopicPartition(topic_id=TopicId("t"), partition=number)
        work.follow(tp, replica(tp))
    seen = []
    for _ in range(3):
        fetch = sent(work.plan(0))[0]
        assert fetch.max_wait_ms == 0
        seen.append(names(fetch))
        work.take_outstanding(BrokerId(1), fetch.request_id)
    assert seen == [[0, 1], [2, 0], [1, 2]]


def test_all_delayed_leaves_nothing_to_send() -> None:
    work, _ = fetchers()
    slow = replica()
    work.follow(TP, slow)
    found = work.take_outstanding(BrokerId(1), sent(work.plan(0))[0].request_id)
    assert found is not None
    slow.delayed_until_ms = 50
    work.after_response(found[0], TP, 0)
    assert work.plan(0) == []
    assert work.next_wakeup_ms == 50


def test_two_partitions_fenced_by_one_leader_can_both_take_a_new_role() -> None:
    work, _ = fetchers()
    first, second = replica(), replica(OTHER_TP)
    work.follow(TP, first)
    work.follow(OTHER_TP, second)
    fetch = sent(work.plan(0))[0]
    taken = work.take_outstanding(BrokerId(1), fetch.request_id)
    assert taken is not None
    for tp, each in ((TP, first), (OTHER_TP, second)):
        each.fenced = True
        work.after_response(taken[0], tp, 0)
    assert work.plan(0) == []
    work.forget(TP)
    work.follow(OTHER_TP, replica(OTHER_TP, leader=2, le=1))
    assert [(each.leader, names(each)) for each in sent(work.plan(1))] == [(2, [1])]

"""A follower's fetches: one at a time to each leader, superseded, paused, in turn."""

from __future__ import annotations

from dataclasses import replace

from strandline.core.effects import Effect, SendFetch
from strandline.core.events import FetchedPartition, FetchResponseReceived
from strandline.core.fetchers import Fetchers
from strandline.core.follower import FollowerReplica
from strandline.core.settings import CoreSettings
from strandline.errors import ErrorCode
from strandline.model import NO_LEADER, BrokerId, TopicId, TopicPartition, TopicSettings
from tests.support.counted_calls import calls_of

from .samples import OTHER_TP, SETTINGS, TP, context, log, state


def replica(tp: TopicPartition = TP, *, leader: int = 1, le: int = 0) -> FollowerReplica:
    return FollowerReplica(log=log(tp=tp), state=state(leader=leader, le=le))


def fetchers(settings: CoreSettings = SETTINGS) -> Fetchers:
    return Fetchers(context(settings=settings))


def respond(
    work: Fetchers,
    request_id: int,
    *refused: TopicPartition,
    leader: int = 1,
    error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER,
    now_ms: int = 0,
) -> None:
    """Let a leader respond to a fetch and refuse some of its partitions."""
    partitions = tuple(
        FetchedPartition(tp=tp, error=error, high_watermark=0, log_start_offset=0) for tp in refused
    )
    event = FetchResponseReceived(
        request_id=request_id, leader=BrokerId(leader), partitions=partitions
    )
    work.on_fetch_response(event, now_ms)


def sent(effects: list[Effect]) -> list[SendFetch]:
    assert all(isinstance(each, SendFetch) for each in effects)
    return [each for each in effects if isinstance(each, SendFetch)]


def names(effect: SendFetch) -> list[int]:
    return [each.tp.partition for each in effect.partitions]


def test_one_fetch_per_leader_until_its_response() -> None:
    work = fetchers()
    work.follow(TP, replica())
    work.follow(OTHER_TP, replica(OTHER_TP, leader=2))
    first = sent(work.plan(0))
    assert [(each.leader, names(each)) for each in first] == [(1, [0]), (2, [1])]
    assert work.plan(1) == []
    respond(work, first[0].request_id)
    assert [each.leader for each in sent(work.plan(1))] == [1]


def test_new_partition_does_not_wait_for_an_outstanding_fetch() -> None:
    work = fetchers()
    work.follow(TP, replica())
    first = sent(work.plan(0))[0]
    work.follow(OTHER_TP, replica(OTHER_TP))
    second = sent(work.plan(1))[0]
    assert names(second) == [0, 1]
    respond(work, first.request_id)
    respond(work, second.request_id, leader=2)
    assert work.plan(1) == []
    respond(work, second.request_id)
    assert len(work.plan(1)) == 1
    respond(work, second.request_id)
    assert work.plan(1) == []


def test_delayed_partition_lets_the_others_go_on_and_then_joins_them() -> None:
    work = fetchers()
    work.follow(TP, replica())
    work.follow(OTHER_TP, replica(OTHER_TP))
    respond(work, sent(work.plan(0))[0].request_id, TP, now_ms=10)
    assert names(sent(work.plan(10))[0]) == [1]
    until_ms = 10 + SETTINGS.fetch_backoff_min_ms
    assert work.next_wakeup_ms == until_ms
    assert work.plan(until_ms - 1) == []
    # The leader reads what joins a session last, and the whole fetch says so.
    assert names(sent(work.plan(until_ms))[0]) == [1, 0]


def test_fenced_partition_is_fetched_no_more() -> None:
    work = fetchers()
    work.follow(TP, replica())
    fetch = sent(work.plan(0))[0]
    respond(work, fetch.request_id, TP, error=ErrorCode.FENCED_LEADER_EPOCH)
    assert work.plan(0) == []
    assert work.next_wakeup_ms is None


def test_no_fetch_is_sent_without_a_leader() -> None:
    work = fetchers()
    work.follow(TP, replica(leader=NO_LEADER))
    work.follow(OTHER_TP, replace(replica(OTHER_TP), fenced=True))
    assert work.plan(0) == []


def test_forgotten_partition_takes_its_fetcher_along() -> None:
    work = fetchers()
    work.follow(TP, replica())
    first = sent(work.plan(0))[0]
    work.forget(TP)
    work.forget(TP)
    respond(work, first.request_id)
    work.on_fetch_failed(BrokerId(1), first.request_id, 0)
    assert work.next_wakeup_ms is None


def test_failed_fetch_pauses_the_leader_and_only_the_outstanding_one_does() -> None:
    work = fetchers()
    work.follow(TP, replica())
    first = sent(work.plan(0))[0]
    work.on_fetch_failed(BrokerId(1), first.request_id + 1, 0)
    assert work.plan(0) == []
    work.on_fetch_failed(BrokerId(1), first.request_id, 0)
    assert work.next_wakeup_ms == SETTINGS.fetch_backoff_min_ms
    assert work.plan(SETTINGS.fetch_backoff_min_ms - 1) == []
    assert len(work.plan(SETTINGS.fetch_backoff_min_ms)) == 1


def test_silent_leader_counts_as_failed() -> None:
    work = fetchers()
    work.follow(TP, replica())
    work.plan(0)
    deadline_ms = SETTINGS.fetch_wait_max_ms + SETTINGS.fetch_timeout_ms
    assert work.next_wakeup_ms == deadline_ms
    assert work.plan(deadline_ms) == []
    assert len(work.plan(deadline_ms + SETTINGS.fetch_backoff_min_ms)) == 1


def test_many_partitions_take_turns_without_waiting() -> None:
    work = fetchers(replace(SETTINGS, fetch_partitions_max=2))
    for number in range(3):
        tp = TopicPartition(topic_id=TopicId("t"), partition=number)
        work.follow(tp, replica(tp))
    seen = []
    for _ in range(3):
        fetch = sent(work.plan(0))[0]
        assert fetch.max_wait_ms == 0
        seen.append(names(fetch))
        respond(work, fetch.request_id)
    assert seen == [[0, 1], [2, 0], [1, 2]]


def test_all_delayed_leaves_nothing_to_send() -> None:
    work = fetchers()
    work.follow(TP, replica())
    respond(work, sent(work.plan(0))[0].request_id, TP)
    assert work.plan(0) == []
    assert work.next_wakeup_ms == SETTINGS.fetch_backoff_min_ms


def test_two_partitions_fenced_by_one_leader_can_both_take_a_new_role() -> None:
    work = fetchers()
    work.follow(TP, replica())
    work.follow(OTHER_TP, replica(OTHER_TP))
    fetch = sent(work.plan(0))[0]
    respond(work, fetch.request_id, TP, OTHER_TP, error=ErrorCode.FENCED_LEADER_EPOCH)
    assert work.plan(0) == []
    work.forget(TP)
    work.follow(OTHER_TP, replica(OTHER_TP, leader=2, le=1))
    assert [(each.leader, names(each)) for each in sent(work.plan(1))] == [(2, [1])]


# --- partitions that wait for their disk ----------------------------------------------------


def appended(work: Fetchers, each: FollowerReplica) -> FollowerReplica:
    """Follow with a log whose topic wants fsyncs, and append a record that is not on disk."""
    each.log.adopt_settings(TopicSettings(flush_messages=1))
    work.follow(each.log.tp, each)
    each.log.append(1)
    return each


def flushed(work: Fetchers, each: FollowerReplica) -> None:
    each.log.on_flushed(each.log.log_end_offset)
    work.note_flushed(each.log.tp)


def test_partition_is_not_fetched_before_its_end_is_on_disk_and_no_time_wakes_it() -> None:
    work = fetchers()
    waiting = appended(work, replica())
    assert work.plan(0) == []
    assert work.next_wakeup_ms is None
    flushed(work, waiting)
    assert [each.fetch_offset for each in sent(work.plan(0))[0].partitions] == [1]


def test_last_of_those_that_wait_for_their_disks_ends_the_outstanding_fetch() -> None:
    work = fetchers()
    third = TopicPartition(topic_id=TopicId("t"), partition=2)
    work.follow(TP, replica())
    others = [appended(work, replica(tp)) for tp in (OTHER_TP, third)]
    assert names(sent(work.plan(0))[0]) == [0]
    flushed(work, others[0])
    assert work.plan(1) == []
    flushed(work, others[1])
    assert names(sent(work.plan(2))[0]) == [0, 1, 2]


def test_partition_on_disk_joins_the_next_fetch_though_others_still_wait() -> None:
    work = fetchers()
    third = TopicPartition(topic_id=TopicId("t"), partition=2)
    work.follow(TP, replica())
    others = [appended(work, replica(tp)) for tp in (OTHER_TP, third)]
    fetch = sent(work.plan(0))[0]
    flushed(work, others[0])
    respond(work, fetch.request_id)
    assert names(sent(work.plan(1))[0]) == [0, 1]


def test_a_round_looks_at_few_partitions_while_the_same_ones_wait_for_their_disks() -> None:
    work = fetchers()
    tps = [TopicPartition(topic_id=TopicId("t"), partition=n) for n in range(200)]
    for tp in tps[:-3]:
        work.follow(tp, replica(tp))
    waiting = [appended(work, replica(tp)) for tp in tps[-3:]]
    assert work.plan(0)
    flushed(work, waiting[1])
    assert work.plan(1) == []
    assert calls_of(lambda: work.plan(2)) < 30
    flushed(work, waiting[0])
    assert work.plan(3) == []
    flushed(work, waiting[2])
    assert len(sent(work.plan(4))[0].partitions) == 200


def test_flush_of_what_the_outstanding_fetch_tells_already_does_not_end_it() -> None:
    work = fetchers()
    mine = replica()
    mine.log.adopt_settings(TopicSettings(flush_messages=1))
    work.follow(TP, mine)
    assert names(sent(work.plan(0))[0]) == [0]
    flushed(work, mine)
    assert work.plan(1) == []


def test_new_partition_that_waits_for_its_disk_does_not_end_the_outstanding_fetch() -> None:
    work = fetchers()
    work.follow(TP, replica())
    work.plan(0)
    appended(work, replica(OTHER_TP))
    assert work.plan(1) == []

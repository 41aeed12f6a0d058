"""Requests of producers, consumers and followers are served, are refused, or wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.core.effects import (
    AppendAsLeader,
    CompleteFetch,
    Effect,
    LogReadInfo,
    ReplyFetch,
    ReplyProduce,
)
from strandline.core.events import (
    DelayedFetchReceived,
    LogDirectoryLost,
    LogFlushed,
    RequestCancelled,
    Ticked,
)
from strandline.core.notices import Fenced, RequestExpired
from strandline.errors import ErrorCode
from strandline.model import Acks, LeaderEpoch, TopicSettings

from .samples import (
    OTHER_TP,
    RECORDS,
    SETTINGS,
    TP,
    Core,
    batch,
    command,
    entries,
    fetch,
    fetched,
    leader_and_isr,
    of_type,
    produced,
    state,
)


def leading(
    *, isr: tuple[int, ...] = (0, 1, 2), min_isr: int = 1, core: Core | None = None
) -> Core:
    core = core or Core()
    core.send_state(state(isr=entries(*isr), min_isr=min_isr))
    return core


def response(effects: list[Effect]) -> ReplyProduce:
    (only,) = of_type(effects, ReplyProduce)
    assert isinstance(only, ReplyProduce)
    return only


def reads(effects: list[Effect]) -> tuple[LogReadInfo, ...]:
    (only,) = of_type(effects, ReplyFetch)
    assert isinstance(only, ReplyFetch)
    return only.partitions


@pytest.mark.parametrize(
    ("acks", "responds"), [(Acks.NONE, True), (Acks.LEADER, True), (Acks.ALL, False)]
)
def test_only_acks_all_waits_for_followers(acks: Acks, *, responds: bool) -> None:
    effects = leading().step(produced(7, 3, acks=acks))
    assert effects[0] == AppendAsLeader(
        request_id=7, tp=TP, records=RECORDS, base_offset=0, leader_epoch=LeaderEpoch(0)
    )
    assert bool(of_type(effects, ReplyProduce)) is responds


def test_single_member_commits_at_once() -> None:
    reply = response(leading(isr=(0,)).step(produced(7, 3)))
    assert (reply.error, reply.base_offset) == (ErrorCode.NONE, 0)


def test_leadership_is_checked_before_the_sequence() -> None:
    refused = produced(7, sequence=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert leading(isr=(0,)).step(refused) == [
        ReplyProduce(request_id=7, tp=TP, error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    ]
    core = Core()
    core.send_state(state(leader=1))
    assert response(core.step(refused)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_under_min_isr_nothing_is_appended() -> None:
    core = leading(isr=(0,), min_isr=2)
    assert response(core.step(produced(7))).error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert response(core.step(produced(8, acks=Acks.LEADER))).base_offset == 0


def test_full_purgatory_refuses_before_the_append() -> None:
    core = leading(core=Core(replace(SETTINGS, purgatory_requests_max=1)))
    core.step(produced(7))
    assert response(core.step(produced(8))).error is ErrorCode.REQUEST_TIMED_OUT
    assert response(core.step(produced(9, acks=Acks.LEADER))).base_offset == 1
    wait = DelayedFetchReceived(request_id=10, watches=((TP, 0),), max_wait_ms=100)
    assert core.step(wait) == [CompleteFetch(request_id=10, expired=True)]


def test_append_that_would_wait_for_the_disk_is_refused_by_a_full_purgatory_too() -> None:
    core = Core(replace(SETTINGS, purgatory_requests_max=1))
    flushing = TopicSettings(flush_messages=1)
    core.step(leader_and_isr(command(state(), settings=flushing)))
    assert not of_type(core.step(produced(7, acks=Acks.LEADER)), ReplyProduce)
    assert response(core.step(produced(8, acks=Acks.LEADER))).error is ErrorCode.REQUEST_TIMED_OUT
    assert response(core.step(produced(9, acks=Acks.NONE))).base_offset == 1
    flushed = core.step(LogFlushed(tp=TP, offset=1))
    assert response(flushed).request_id == 7


def test_flush_of_a_log_that_is_gone_or_failed_is_ignored() -> None:
    core = leading()
    assert core.step(LogFlushed(tp=OTHER_TP, offset=1)) == []
    core.step(LogDirectoryLost(reason="read only"))
    assert core.step(LogFlushed(tp=TP, offset=1)) == []


def test_response_to_a_duplicate_carries_its_old_offsets() -> None:
    core = leading(isr=(0, 1))
    core.step(produced(7, 2))
    assert of_type(core.step(produced(8, 2, sequence=batch(0, 2))), AppendAsLeader) == []
    core.step(fetched(1, fetch(0)))
    effects = core.step(fetched(1, fetch(2, last=0)))
    assert [each.request_id for each in effects if isinstance(each, ReplyProduce)] == [7, 8]
    late = response(core.step(produced(9, 2, sequence=batch(0, 2))))
    assert (late.error, late.base_offset) == (ErrorCode.NONE, 0)


def test_append_that_waits_under_min_isr_expires() -> None:
    core = leading(isr=(0, 1), min_isr=2)
    core.step(produced(7))
    core.send_state(state(pe=1, isr=entries(0), min_isr=2))
    effects = core.step(Ticked(), after_ms=1_000)
    assert response(effects).error is ErrorCode.REQUEST_TIMED_OUT
    assert of_type(effects, RequestExpired) == [RequestExpired(operation="produce")]


def test_cancelled_request_gets_no_response() -> None:
    core = leading()
    core.step(produced(7))
    core.step(RequestCancelled(request_id=7))
    assert of_type(core.step(Ticked(), after_ms=5_000), ReplyProduce) == []


def test_produce_to_a_partition_not_hosted_here_is_refused() -> None:
    core = leading()
    refused = response(core.step(produced(7, tp=OTHER_TP)))
    assert refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_follower_waits_at_the_end_until_an_append_completes_its_fetch() -> None:
    core = leading()
    assert of_type(core.step(fetched(1, fetch(0))), ReplyFetch) == []
    (read,) = reads(core.step(produced(7, 2)))
    assert (read.from_offset, read.up_to_offset) == (0, 2)


def test_follower_fetch_without_max_wait_completes_at_once() -> None:
    (read,) = reads(leading().step(fetched(1, fetch(0), max_wait_ms=0)))
    assert read.from_offset == read.up_to_offset == 0


def test_high_watermark_completes_no_fetch_but_travels_with_the_next_response() -> None:
    core = leading(isr=(0, 1))
    core.send_state(state(isr=entries(0)), tp=OTHER_TP)
    first, second = fetch(0), fetch(0, tp=OTHER_TP)
    core.step(fetched(1, first, second))
    # The follower has not fetched beyond this record yet, so the high watermark is still 0.
    (read,) = reads(core.step(produced(7)))[:1]
    assert read.high_watermark == 0
    effects = core.step(fetched(1, fetch(1, last=0), second, request_id=3))
    assert of_type(effects, ReplyFetch) == []
    completed = reads(core.step(produced(8, tp=OTHER_TP, acks=Acks.LEADER)))
    assert [(each.tp, each.high_watermark) for each in completed] == [(TP, 1), (OTHER_TP, 0)]


def test_at_the_deadline_every_partition_is_in_the_response() -> None:
    core = leading()
    core.step(fetched(1, fetch(0)))
    effects = core.step(Ticked(), after_ms=500)
    assert len(reads(effects)) == 1
    assert of_type(effects, RequestExpired) == [RequestExpired(operation="follower_fetch")]


def test_refused_partition_does_not_delay_the_others() -> None:
    core = leading()
    effects = core.step(fetched(1, fetch(0), fetch(0, tp=OTHER_TP)))
    errors = {each.tp: each.error for each in reads(effects)}
    assert errors[OTHER_TP] is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_follower_that_is_not_assigned_is_refused_with_unknown_leader_epoch() -> None:
    effects = leading().step(fetched(9, fetch(0)))
    assert reads(effects)[0].error is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_follower_that_is_taken_off_the_assignment_while_it_waits_is_refused() -> None:
    core = leading()
    core.step(fetched(2, fetch(0)))
    core.send_state(state(pe=1, replicas=(0, 1), isr=entries(0, 1)))
    effects = core.step(produced(7, acks=Acks.LEADER))
    assert reads(effects)[0].error is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_fetch_of_a_diverging_history_is_no_progress() -> None:
    core = leading()
    core.step(produced(7, 5, acks=Acks.LEADER))
    core.step(fetched(1, fetch(9, last=0)))
    view = core.replicas.view(TP)
    assert view is not None
    assert view.followers[0].log_end_offset == -1


def test_earlier_process_does_not_end_the_wait_of_a_later_one() -> None:
    core = leading()
    core.step(fetched(1, fetch(0), be=2))
    effects = core.step(fetched(1, fetch(0), request_id=2, be=1))
    assert reads(effects)[0].error is ErrorCode.STALE_BROKER_EPOCH
    assert of_type(effects, Fenced) == [Fenced(fence="broker_epoch", detail="fetch")]
    assert core.replicas.purgatory_sizes()["follower_fetch"] == 1


def test_earlier_process_is_refused_where_the_later_one_did_not_fetch_yet() -> None:
    core = leading()
    core.send_state(state(), tp=OTHER_TP)
    core.step(fetched(1, fetch(0), be=2))
    effects = core.step(fetched(1, fetch(0, tp=OTHER_TP), request_id=2, be=1))
    assert reads(effects)[0].error is ErrorCode.STALE_BROKER_EPOCH
    assert of_type(effects, Fenced) == [Fenced(fence="broker_epoch", detail="fetch")]
    assert core.replicas.purgatory_sizes()["follower_fetch"] == 1
    expired = core.step(Ticked(), after_ms=500)
    assert len(reads(expired)) == 1
    assert core.replicas.purgatory_sizes()["follower_fetch"] == 0


def test_later_process_ends_the_wait_of_an_earlier_one_on_another_partition() -> None:
    core = leading()
    core.send_state(state(), tp=OTHER_TP)
    core.step(fetched(1, fetch(0, tp=OTHER_TP), be=1))
    assert reads(core.step(fetched(1, fetch(0), request_id=2, be=2))) == ()
    assert core.replicas.purgatory_sizes()["follower_fetch"] == 1
    assert len(reads(core.step(Ticked(), after_ms=500))) == 1


def test_fetch_of_nothing_gets_a_response() -> None:
    assert reads(leading().step(fetched(1))) == ()

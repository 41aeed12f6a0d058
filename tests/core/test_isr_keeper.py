"""What settles a proposal, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.core.effects import IsrProposalRefused, ProposeIsr
from strandline.core.events import AlterPartitionAnswered
from strandline.core.isr import PendingExpand, Stable
from strandline.core.isr_keeper import IsrKeeper
from strandline.errors import ErrorCode
from strandline.model import BrokerId, PartitionState

from .samples import TP, around, entries, entry, ids, state


def keeper(committed: PartitionState | None = None) -> IsrKeeper:
    known = committed or state(isr=entries(0, 1), le=3, pe=5)
    return IsrKeeper(tp=TP, around=around(1, 2), state=known, isr=Stable(entries=known.isr))


def answer(
    keep: IsrKeeper, *, error: ErrorCode = ErrorCode.NONE, stored: PartitionState | None = None
) -> AlterPartitionAnswered:
    assert not isinstance(keep.isr, Stable)
    return AlterPartitionAnswered(
        request_id=keep.isr.flight.request_id, tp=TP, error=error, stored=stored
    )


def test_one_question_at_a_time() -> None:
    keep = keeper()
    asked = keep.propose_joiner(entry(2), 0)
    assert isinstance(asked[0], ProposeIsr)
    assert (asked[0].leader_epoch, asked[0].partition_epoch) == (3, 5)
    assert asked[0].isr == entries(0, 1, 2)
    assert keep.propose_joiner(entry(2), 0) == keep.propose_leavers(ids(1), 0) == []


def test_proposal_is_sent_again_unchanged_under_a_new_id() -> None:
    keep = keeper()
    first = keep.propose_leavers(ids(1), 0)[0]
    timeout_ms = keep.around.settings.isr_request_timeout_ms
    assert keep.resend_due(timeout_ms - 1) == []
    again = keep.resend_due(timeout_ms)[0]
    assert isinstance(first, ProposeIsr)
    assert isinstance(again, ProposeIsr)
    assert again == replace(first, request_id=again.request_id)
    assert again.request_id != first.request_id


@pytest.mark.parametrize(
    "stored", [None, state(isr=entries(0, 1), le=3, pe=5), state(isr=entries(0), le=2, pe=4)]
)
def test_answer_without_a_later_state_settles_nothing(stored: PartitionState | None) -> None:
    keep = keeper()
    keep.propose_joiner(entry(2), 0)
    event = answer(keep, error=ErrorCode.NOT_CONTROLLER, stored=stored)
    assert not keep.is_later_state(stored)
    told = keep.wait_on(event, 0)
    assert told == (
        [] if stored is None else [IsrProposalRefused(tp=TP, error=ErrorCode.NOT_CONTROLLER)]
    )
    assert isinstance(keep.isr, PendingExpand)
    assert keep.resend_due(keep.around.settings.isr_request_backoff_ms) != []


def test_answer_to_an_earlier_sending_changes_no_timer() -> None:
    keep = keeper()
    keep.propose_joiner(entry(2), 0)
    event = answer(keep, error=ErrorCode.NOT_CONTROLLER)
    keep.resend_due(keep.around.settings.isr_request_timeout_ms)
    before = keep.isr
    assert keep.wait_on(event, 0) == []
    assert keep.isr == before


@pytest.mark.parametrize(
    "stored",
    [
        state(leader=1, isr=entries(0, 1), le=4, pe=6),
        state(leader=-1, isr=(), le=4, pe=6),
        state(leader=0, isr=(entry(0, 2), entry(1)), le=4, pe=6),
        state(leader=0, isr=(entry(0, 2), entry(1)), le=3, pe=6),
    ],
)
def test_later_leadership_leaves_the_maximal_isr_as_it_is(stored: PartitionState) -> None:
    keep = keeper()
    keep.propose_joiner(entry(2), 0)
    assert not keep.is_later_state(stored)
    assert keep.superseded
    assert keep.entry_of(BrokerId(2)) == entry(2)
    assert keep.resend_due(10**9) == []
    assert not keep.may_propose


def test_refused_broker_is_asked_for_again_after_a_back_off() -> None:
    keep = keeper()
    keep.propose_joiner(entry(2), 0)
    unchanged = state(isr=entries(0, 1), le=3, pe=6)
    assert keep.is_later_state(unchanged)
    assert keep.adopt(unchanged, 100) == [
        IsrProposalRefused(tp=TP, error=ErrorCode.INVALID_UPDATE_VERSION)
    ]
    backoff_ms = keep.around.settings.isr_refusal_backoff_ms
    assert not keep.may_ask_for(BrokerId(2), 100 + backoff_ms - 1)
    assert keep.may_ask_for(BrokerId(2), 100 + backoff_ms)
    assert keep.may_ask_for(BrokerId(1), 100)


def test_refused_leaver_is_asked_for_again_after_a_back_off() -> None:
    keep = keeper()
    keep.propose_leavers(ids(1), 0)
    keep.adopt(state(isr=entries(0, 1), le=3, pe=6), 100)
    assert keep.propose_leavers(ids(1), 100) == []
    assert keep.propose_leavers(ids(1), 100 + keep.around.settings.isr_refusal_backoff_ms) != []


def test_accepted_proposal_is_told_to_nobody_here() -> None:
    keep = keeper()
    keep.propose_joiner(entry(2), 0)
    assert keep.adopt(state(isr=entries(0, 1, 2), le=3, pe=6), 100) == []
    assert keep.isr == Stable(entries=entries(0, 1, 2))
    assert keep.around.retry_at_ms == {}

"""Which events settle an ISR proposal, and which do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.core.effects import ProposeIsr
from strandline.core.events import AlterPartitionResponseReceived
from strandline.core.isr import PendingExpand, Stable
from strandline.core.isr_proposer import IsrProposer
from strandline.core.notices import IsrProposalRefused
from strandline.errors import ErrorCode
from strandline.model import BrokerId, PartitionState

from .samples import TP, context, entries, entry, ids, state

OVERTAKEN = ErrorCode.INVALID_UPDATE_VERSION


def new_proposer(committed: PartitionState | None = None) -> IsrProposer:
    known = committed or state(isr=entries(0, 1), le=3, pe=5)
    return IsrProposer(tp=TP, context=context(1, 2), state=known, isr=Stable(entries=known.isr))


def response(
    proposer: IsrProposer,
    *,
    error: ErrorCode = ErrorCode.NONE,
    stored: PartitionState | None = None,
) -> AlterPartitionResponseReceived:
    assert not isinstance(proposer.isr, Stable)
    return AlterPartitionResponseReceived(
        request_id=proposer.isr.in_flight.request_id, tp=TP, error=error, stored=stored
    )


def test_one_proposal_at_a_time() -> None:
    proposer = new_proposer()
    effects = proposer.propose_joiner(entry(2), 0)
    assert isinstance(effects[0], ProposeIsr)
    assert (effects[0].leader_epoch, effects[0].partition_epoch) == (3, 5)
    assert effects[0].isr == entries(0, 1, 2)
    assert proposer.propose_joiner(entry(2), 0) == proposer.propose_leavers(ids(1), 0) == []


def test_proposal_is_sent_again_unchanged_under_a_new_id() -> None:
    proposer = new_proposer()
    first = proposer.propose_leavers(ids(1), 0)[0]
    timeout_ms = proposer.context.settings.isr_request_timeout_ms
    assert proposer.resend_due(timeout_ms - 1) == []
    again = proposer.resend_due(timeout_ms)[0]
    assert isinstance(first, ProposeIsr)
    assert isinstance(again, ProposeIsr)
    assert again == replace(first, request_id=again.request_id)
    assert again.request_id != first.request_id


@pytest.mark.parametrize(
    "stored", [None, state(isr=entries(0, 1), le=3, pe=5), state(isr=entries(0), le=2, pe=4)]
)
def test_response_without_a_later_state_settles_nothing(stored: PartitionState | None) -> None:
    proposer = new_proposer()
    proposer.propose_joiner(entry(2), 0)
    event = response(proposer, error=ErrorCode.NOT_CONTROLLER, stored=stored)
    assert not proposer.is_later_state(stored)
    effects = proposer.wait_on(event, 0)
    assert effects == (
        [] if stored is None else [IsrProposalRefused(tp=TP, error=ErrorCode.NOT_CONTROLLER)]
    )
    assert isinstance(proposer.isr, PendingExpand)
    assert proposer.resend_due(proposer.context.settings.isr_request_backoff_ms) != []


def test_response_to_an_earlier_sending_changes_no_timer() -> None:
    proposer = new_proposer()
    proposer.propose_joiner(entry(2), 0)
    event = response(proposer, error=ErrorCode.NOT_CONTROLLER)
    proposer.resend_due(proposer.context.settings.isr_request_timeout_ms)
    before = proposer.isr
    assert proposer.wait_on(event, 0) == []
    assert proposer.isr == before


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
    proposer = new_proposer()
    proposer.propose_joiner(entry(2), 0)
    assert not proposer.is_later_state(stored)
    assert proposer.superseded
    assert proposer.entry_of(BrokerId(2)) == entry(2)
    assert proposer.resend_due(10**9) == []
    assert not proposer.may_propose


def test_refused_joiner_is_proposed_again_after_a_back_off() -> None:
    proposer = new_proposer()
    proposer.propose_joiner(entry(2), 0)
    unchanged = state(isr=entries(0, 1), le=3, pe=6)
    assert proposer.is_later_state(unchanged)
    assert proposer.adopt(unchanged, 100, error=OVERTAKEN) == [
        IsrProposalRefused(tp=TP, error=ErrorCode.INVALID_UPDATE_VERSION)
    ]
    backoff_ms = proposer.context.settings.isr_refusal_backoff_ms
    assert not proposer.may_propose_again(BrokerId(2), 100 + backoff_ms - 1)
    assert proposer.may_propose_again(BrokerId(2), 100 + backoff_ms)
    assert proposer.may_propose_again(BrokerId(1), 100)


def test_refused_leaver_is_proposed_again_after_a_back_off() -> None:
    proposer = new_proposer()
    proposer.propose_leavers(ids(1), 0)
    proposer.adopt(state(isr=entries(0, 1), le=3, pe=6), 100, error=OVERTAKEN)
    assert proposer.propose_leavers(ids(1), 100) == []
    assert (
        proposer.propose_leavers(ids(1), 100 + proposer.context.settings.isr_refusal_backoff_ms)
        != []
    )


def test_accepted_proposal_needs_no_notice() -> None:
    proposer = new_proposer()
    proposer.propose_joiner(entry(2), 0)
    assert proposer.adopt(state(isr=entries(0, 1, 2), le=3, pe=6), 100, error=OVERTAKEN) == []
    assert proposer.isr == Stable(entries=entries(0, 1, 2))
    assert proposer.context.isr_retries.next_due_ms is None

"""When ISR proposals are sent again: each partition has one due time, which is taken once."""

from __future__ import annotations

from strandline.core.isr_retries import IsrRetries

from .samples import OTHER_TP, TP


def test_due_proposals_are_taken_once_and_in_order() -> None:
    retries = IsrRetries()
    assert retries.next_due_ms is None
    retries.schedule(OTHER_TP, 10)
    retries.schedule(TP, 10)
    assert retries.take_due(9) == []
    assert retries.take_due(10) == [TP, OTHER_TP]
    assert retries.take_due(10) == []


def test_a_later_time_replaces_the_earlier_one() -> None:
    retries = IsrRetries()
    retries.schedule(TP, 10)
    retries.schedule(TP, 20)
    assert retries.next_due_ms == 20
    assert retries.take_due(19) == []


def test_a_settled_proposal_is_not_due() -> None:
    retries = IsrRetries()
    retries.schedule(TP, 10)
    retries.cancel(TP)
    retries.cancel(TP)
    assert retries.take_due(10) == []

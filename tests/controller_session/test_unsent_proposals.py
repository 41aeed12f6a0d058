"""ISR proposals that no session could send: one for each partition, failed once."""

from __future__ import annotations

from strandline.controller_session.unsent_proposals import UnsentProposals
from strandline.core.events import AlterPartitionResponseReceived
from strandline.errors import ErrorCode

from .setups import OTHER_TP, TP, proposal


def test_the_latest_proposal_of_each_partition_is_failed_once() -> None:
    unsent = UnsentProposals()
    for tp, request_id in ((TP, 1), (OTHER_TP, 2), (TP, 3)):
        unsent.keep(proposal(tp, request_id))
    events = [effect.event for effect in unsent.give_up()]
    assert events == [
        AlterPartitionResponseReceived(
            request_id=request_id, tp=tp, error=ErrorCode.NETWORK_EXCEPTION, stored=None
        )
        for tp, request_id in ((TP, 3), (OTHER_TP, 2))
    ]
    assert unsent.give_up() == []


def test_a_forgotten_proposal_is_not_failed() -> None:
    unsent = UnsentProposals()
    unsent.keep(proposal(TP))
    unsent.forget(TP)
    unsent.forget(OTHER_TP)
    assert unsent.give_up() == []

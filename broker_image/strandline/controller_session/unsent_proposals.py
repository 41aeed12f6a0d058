"""ISR proposals made while no session was open; used by `ControllerSession` alone.

The proposals wait for the next session, one per partition. Once the replicas have applied that
session's full state, `ControllerSession` fails the proposals, and the leaders propose anew.
"""

from __future__ import annotations

from strandline.core.effects import ProposeIsr
from strandline.core.events import AlterPartitionResponseReceived
from strandline.errors import ErrorCode
from strandline.model import TopicPartition

from .effects import StepReplicas


class UnsentProposals:
    """The latest unsent proposal of each partition; at most one per replica hosted here."""

    def __init__(self) -> None:
        self._proposals: dict[TopicPartition, ProposeIsr] = {}

    def keep(self, proposal: ProposeIsr) -> None:
        """Keep a proposal in place of an earlier one of the same partition."""
        self._proposals[proposal.tp] = proposal

    def forget(self, tp: TopicPartition) -> None:
        """Forget a partition's proposal: a later one was sent."""
        self._proposals.pop(tp, None)

    def give_up(self) -> list[StepReplicas]:
        """Return the events that fail all proposals, and keep none."""
        proposals, self._proposals = self._proposals, {}
        return [
            StepReplicas(
                event=AlterPartitionResponseReceived(
                    request_id=proposal.request_id,
                    tp=tp,
                    error=ErrorCode.NETWORK_EXCEPTION,
                    stored=None,
                )
            )
            for tp, proposal in proposals.items()
        ]

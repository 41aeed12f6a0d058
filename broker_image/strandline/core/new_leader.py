"""How a leadership begins: no follower has told anything yet, and the epoch stands in the log.

Called by `Partition` alone; the leader it makes goes on in `leader`.
"""

from __future__ import annotations

from strandline.errors import InvariantViolation
from strandline.model import PartitionState

from .broker_context import BrokerContext
from .effects import Effect
from .isr import Stable
from .isr_proposer import IsrProposer
from .leader import LeaderReplica
from .local_log import LocalLog
from .notices import BecameLeader
from .progress import FollowerProgress


def become_leader(
    log: LocalLog, state: PartitionState, context: BrokerContext, now_ms: int
) -> tuple[LeaderReplica, list[Effect]]:
    """Begin a leadership: the epoch stands in the log before its first record (KAFKA-7415).

    ISR members get the whole lag time for their first fetch; until then their unknown end
    holds the high watermark back.
    """
    if not context.is_own_incarnation(state.entry_of(context.broker_id)):
        raise InvariantViolation("a leader's own ISR entry is its present process", tp=log.tp)
    leader = LeaderReplica(
        log=log,
        context=context,
        proposer=IsrProposer(
            tp=log.tp, context=context, state=state, isr=Stable(entries=state.isr)
        ),
        epoch_start_offset=log.log_end_offset,
        followers={
            broker: FollowerProgress(last_caught_up_ms=now_ms if broker in state.isr_ids else None)
            for broker in state.replicas
            if broker != context.broker_id
        },
    )
    context.isr_checks.mark(log.tp)
    effects = log.begin_epoch(state.leader_epoch, log.log_end_offset)
    effects.append(
        BecameLeader(
            tp=log.tp,
            topic_name=log.topic_name,
            leader_epoch=state.leader_epoch,
            start_offset=log.log_end_offset,
            isr=state.isr,
        )
    )
    return leader, effects + leader.advance_high_watermark(now_ms)

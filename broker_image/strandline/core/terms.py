"""Which leadership of a partition a broker accepted last.

Called by `controller_request_queue`, for the state file, and by `partition`, for hosted reports. A
fence names no leader (ADR 0004): the leadership before it tells which log has everything.
"""

from __future__ import annotations

from strandline.model import LeaderTerm, PartitionState


def term_after(known: LeaderTerm, state: PartitionState) -> LeaderTerm:
    """Return the last leadership once a state is accepted; a state without leader is none."""
    entry = state.entry_of(state.leader)
    if entry is None or state.leader_epoch < known.leader_epoch:
        return known
    return LeaderTerm(
        leader_epoch=state.leader_epoch, led_by=entry.broker_id, led_as=entry.broker_epoch
    )

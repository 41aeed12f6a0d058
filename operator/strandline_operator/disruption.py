"""Which brokers may end now without a partition falling under min.insync.replicas.

Pure; called by `plan` for the disruption budget and by `status` for each broker's row (ADR 0047).

Source:  Strimzi's KafkaAvailability: a broker may go if every partition of it keeps its min ISR.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from strandline.model import BrokerId, PartitionState, StoredPartition

from .conditions import Readiness, in_sync, listed

BECAUSE_LENGTH_MAX: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Whether a broker may restart now, and the sentence that says why, or why not."""

    is_safe: bool
    because: str


def restart_of(broker_id: BrokerId, partitions: Iterable[StoredPartition]) -> Restart:
    """Judge the restart of one broker: it must be in sync everywhere, and be missed nowhere."""
    states = {
        each.name: each.state
        for each in partitions
        if each.state is not None and broker_id in each.state.replicas
    }
    behind = [name for name, state in states.items() if broker_id not in state.isr_ids]
    if behind:
        return _restart(is_safe=False, because=f"it is not in sync yet: {listed(behind)}")
    needed = [name for name, state in states.items() if _breaks(state)]
    if needed:
        because = f"without it fewer than min.insync.replicas would be in sync: {listed(needed)}"
        return _restart(is_safe=False, because=because)
    if not states:
        return _restart(is_safe=True, because="it has no replica of a partition")
    return _restart(
        is_safe=True, because=f"the others keep all {len(states)} partitions of it at min ISR"
    )


def _restart(*, is_safe: bool, because: str) -> Restart:
    return Restart(is_safe=is_safe, because=because[:BECAUSE_LENGTH_MAX])


def disruption_allowed(partitions: Iterable[StoredPartition]) -> Readiness:
    """Judge whether the cluster may lose one more broker, whichever.

    A partition with no more replicas than its min ISR never closes the budget: each restart takes
    it under min ISR, now and later, and waiting would not help.
    """
    tight = [
        each.name
        for each in partitions
        if each.state is not None
        and len(each.state.original_replicas) > each.state.min_insync_replicas
        and _breaks(each.state)
    ]
    if tight:
        message = (
            "no broker may be evicted: the loss of one more could leave fewer than "
            f"min.insync.replicas in sync: {listed(tight)}"
        )
        return Readiness(reason="WouldBreakMinIsr", message=message)
    message = "one broker may be evicted: every partition that can keep its min ISR would do so"
    return Readiness(ready=True, reason="OneBrokerMayGo", message=message)


def not_in_sync(partitions: Iterable[StoredPartition]) -> str:
    """Name the partitions that lack a replica in their ISR, or have no state; "" without any.

    A replica that is being added is not missed: a move goes on behind the restart.

    With none of them a broker may go. Each partition then keeps its min ISR, unless it has no more
    replicas than that: its every restart takes it under min ISR, and waiting would not help.
    """
    return listed(
        f"{each.name} has no state yet"
        if each.state is None
        else f"{each.name} ({in_sync(each.state)})"
        for each in partitions
        if each.state is None or not set(each.state.original_replicas) <= set(each.state.isr_ids)
    )


def _breaks(state: PartitionState) -> bool:
    """Tell whether the loss of a member of the ISR would leave fewer than min.insync.replicas."""
    return len(state.isr) - 1 < state.min_insync_replicas

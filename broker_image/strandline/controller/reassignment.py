"""How a partition moves to the replicas that its spec names: the next write of its status.

Pure functions; `partition_reconciler` calls `next_step` when nothing else about a partition must be
written. T are the wanted replicas, R the stored ones, A those that are added and D those that are
removed; O, the replicas as they were, is R without A.

    at rest --Begin: R is T and the rest of O--> moving --Finish: R is T, a leader of T--> at rest
                                                | ^  |
                                                | |  '--Withdraw: R without A that T lacks--> ...
                                                '-'--Begin: T changed, the ISR took a broker of A

The controller may stop between any two writes: the next one begins with the stored state. A write
that removes a replica raises the leader epoch, so that a removed broker's fetches count no more.
The ISR never gets smaller than it was among O, unless T is smaller.
Source: ADR 0057; KIP-455; Kafka ReplicationControlManager and PartitionReassignmentReplicas
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from strandline.model import (
    NO_LEADER,
    BrokerId,
    ElectionKind,
    IsrEntry,
    LeaderEpoch,
    PartitionState,
    Recovery,
    StoredPartition,
)

from .broker_entry import BrokerEntry, InSession
from .election_input import ElectionDecision, ElectionInput
from .elections import choose_leader, effective_min_isr, may_keep_leader, next_state
from .isr_entries import lost_data
from .rebuild import REPLICAS_MAX


def next_step(
    stored: StoredPartition, inputs: ElectionInput, *, may_copy: Callable[[], bool]
) -> ElectionDecision | None:
    """Return the next write of a move, None if the partition is at rest or must wait.

    may_copy is asked when brokers are added: whether one more partition may copy its records now.
    """
    state = stored.state
    if state is None or state.leader == NO_LEADER or state.reason:
        return None
    at_rest = stored.assigned == state.replicas and not (
        state.adding_replicas or state.removing_replicas
    )
    if at_rest or not may_keep_leader(state, inputs.brokers):
        return None
    return _finish(state, stored.assigned, inputs) or _follow(
        state, stored.assigned, inputs, may_copy
    )


def is_copying(state: PartitionState, brokers: Mapping[BrokerId, BrokerEntry]) -> bool:
    """Tell whether a broker that is added copies records now, as far as the controller knows."""
    return any(
        isinstance(brokers.get(each), InSession) and each not in state.isr_ids
        for each in state.adding_replicas
    )


def _finish(
    state: PartitionState, wanted: tuple[BrokerId, ...], inputs: ElectionInput
) -> ElectionDecision | None:
    """Return the last write of a move; None while too few of the wanted replicas are in sync."""
    if not set(wanted) <= set(state.replicas):
        return None
    after = _with_replicas(state, wanted, adding=(), removing=())
    if state.adding_replicas or set(wanted) != set(state.replicas):
        in_sync = _in_sync(state, wanted, inputs)
        as_before = min(len(wanted), _count(state.isr, state.original_replicas))
        enough = max(as_before, effective_min_isr(after, inputs.topic))
        if not set(state.adding_replicas) & set(wanted) <= in_sync or len(in_sync) < enough:
            return None
    return _commit(state, after, inputs)


def _follow(
    state: PartitionState,
    wanted: tuple[BrokerId, ...],
    inputs: ElectionInput,
    may_copy: Callable[[], bool],
) -> ElectionDecision | None:
    """Begin to add what is wanted and not there; withdraw what was being added for nothing."""
    gone = _withdrawn(state, wanted, inputs)
    stay = [each for each in state.replicas if each not in gone]
    missing = [each for each in wanted if each not in state.replicas]
    replicas = tuple(dict.fromkeys([*wanted, *stay]))
    may_begin = (
        len(replicas) <= REPLICAS_MAX
        and all(_has_room(inputs.brokers.get(each)) for each in missing)
        and (not missing or is_copying(state, inputs.brokers) or may_copy())
    )
    if may_begin:
        original = state.original_replicas
        after = _with_replicas(
            state,
            replicas,
            adding=[each for each in replicas if each not in original],
            removing=[each for each in replicas if each not in wanted],
        )
    elif gone:
        adding = [each for each in state.adding_replicas if each not in gone]
        # Without those that are wanted and away, all of the others would be listed as removed.
        is_moving = bool(adding) and not set(stay) <= set(state.removing_replicas)
        removing = state.removing_replicas if is_moving else ()
        after = _with_replicas(state, stay, adding=adding, removing=removing)
    else:
        return None
    return None if after == state else _commit(state, after, inputs)


def _withdrawn(
    state: PartitionState, wanted: tuple[BrokerId, ...], inputs: ElectionInput
) -> frozenset[BrokerId]:
    """Return the brokers that were being added, are not wanted any more, and may go at once.

    An ISR member goes if the ISR has min ISR members without it, an eligible leader stays.
    """
    superseded = frozenset(state.adding_replicas) - set(wanted)
    if not superseded:
        return superseded
    others = [each for each in state.replicas if each not in superseded]
    candidates = frozenset(entry.broker_id for entry in state.candidates)
    present = _in_sync(state, others, inputs)
    if len(present) >= effective_min_isr(state, inputs.topic) and _leader_of(state, others, inputs):
        return superseded
    return superseded - candidates


def _commit(
    state: PartitionState, after: PartitionState, inputs: ElectionInput
) -> ElectionDecision | None:
    """Return the write that leads to these replicas; None if none of them can lead now."""
    isr = tuple(entry for entry in state.isr if entry.broker_id in after.replicas)
    following = next_state(
        after, inputs.brokers, inputs.controller_epoch, isr, effective_min_isr(after, inputs.topic)
    )
    if set(after.replicas) >= set(state.replicas):
        return ElectionDecision(state=following)
    leader = _leader_of(state, after.replicas, inputs)
    if leader is None:
        return None
    following = replace(following, leader_epoch=LeaderEpoch(state.leader_epoch + 1))
    if leader.broker_id == state.leader:
        return ElectionDecision(state=following)
    elected = replace(
        following,
        leader=leader.broker_id,
        isr=tuple(leader if each.broker_id == leader.broker_id else each for each in isr),
        recovery=Recovery.CLEAN,
    )
    return ElectionDecision(state=elected, kind=ElectionKind.REASSIGNMENT)


def _leader_of(
    state: PartitionState, replicas: Sequence[BrokerId], inputs: ElectionInput
) -> IsrEntry | None:
    """Return the ISR entry of who leads these replicas: the leader, else who would be elected."""
    entry = state.entry_of(state.leader)
    if state.leader in replicas:
        return entry
    isr = tuple(each for each in state.isr if each.broker_id in replicas)
    chosen = choose_leader(replace(state, replicas=tuple(replicas), isr=isr), inputs.brokers)
    if not isinstance(chosen, InSession):
        return None
    return IsrEntry(broker_id=chosen.broker_id, broker_epoch=chosen.broker_epoch)


def _in_sync(
    state: PartitionState, replicas: Iterable[BrokerId], inputs: ElectionInput
) -> frozenset[BrokerId]:
    """Return the ISR members among some replicas that are in session, and have what they had."""
    pool = set(replicas)
    return frozenset(
        entry.broker_id
        for entry in state.isr
        if entry.broker_id in pool
        and _may_join(inputs.brokers.get(entry.broker_id))
        and not lost_data(entry, inputs.brokers)
    )


def _may_join(broker: BrokerEntry | None) -> bool:
    return isinstance(broker, InSession) and not broker.shutting_down


def _has_room(broker: BrokerEntry | None) -> bool:
    return isinstance(broker, InSession) and not broker.shutting_down and not broker.is_full


def _count(isr: Sequence[IsrEntry], replicas: Sequence[BrokerId]) -> int:
    return sum(1 for entry in isr if entry.broker_id in replicas)


def _with_replicas(
    state: PartitionState,
    replicas: Iterable[BrokerId],
    *,
    adding: Iterable[BrokerId],
    removing: Iterable[BrokerId],
) -> PartitionState:
    kept = tuple(replicas)
    return replace(
        state,
        replicas=kept,
        adding_replicas=tuple(each for each in kept if each in tuple(adding)),
        removing_replicas=tuple(each for each in kept if each in tuple(removing)),
    )

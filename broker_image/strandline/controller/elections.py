"""Which status a partition must have, given the live brokers.

Pure functions; `partition_reconciler` calls them on the object that its write compares with. They
return None when nothing must change: a new controller writes only what must change.

An ISR entry (id, e) is in sync iff cleanSince <= e <= brokerEpoch of that broker. The controller
drops entries known dead or known to have lost data, gives an elected leader's entry its present
epoch, and keeps all others, also those of unknown brokers. Without an available ISR member it
elects an eligible leader, which is then the whole ISR (ADR 0030).
Source: Kafka PartitionLeaderElectionAlgorithms; KAFKA-708 for the last ISR member; ADR 0002.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from strandline.model import (
    NO_EPOCH,
    NO_LEADER,
    STATE_LOST,
    UNCLEAN_LAST_REPLICA,
    BrokerId,
    ControllerEpoch,
    ElectionKind,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    PartitionState,
    Recovery,
    StoredPartition,
    StoredTopic,
    covers,
)

from .broker_entry import BrokerEntry, Dead, InSession, Live, Unregistered, WithoutSession
from .election_input import ElectionDecision, ElectionInput
from .eligible_leaders import eligible_leaders
from .isr_entries import entries_kept, lost_data
from .lost_partitions import asked_about_lost, have_all_reported, recovery_of
from .rebuild import fence, rebuild
from .unclean_elections import choose_unclean_leader

NO_LIVE_ISR_MEMBER = "NoLiveIsrMember"
"""A member of the last ISR or an eligible leader may come back with all data."""


def is_to_be_rebuilt(state: PartitionState) -> bool:
    """Tell whether a partition waits behind a fence for the logs of its brokers (ADR 0004)."""
    return state.leader == NO_LEADER and state.reason == STATE_LOST


def decide(stored: StoredPartition, inputs: ElectionInput) -> ElectionDecision | None:
    """Return the status to commit now, None if the stored one stands."""
    state = stored.state
    if state is None:
        return decide_new(stored, inputs)
    if is_to_be_rebuilt(state):
        return rebuild(stored, state, inputs)
    if inputs.state_lost:
        return fence(replace(state, reason=STATE_LOST), inputs, assigned=stored.assigned)
    if may_keep_leader(state, inputs.brokers):
        return _decide_led(state, inputs)
    return _decide_leaderless(state, inputs)


def decide_new(stored: StoredPartition, inputs: ElectionInput) -> ElectionDecision | None:
    """Give a partition without status its first one.

    All assigned brokers in session form the ISR; the first of them leads. A partition that a broker
    has on disk or in its trash, or was told of, is lost, not new (ADR 0004). Any other that must be
    recovered waits for all its brokers (ADR 0032).
    """
    topic = inputs.topic
    configured = 1 if topic is None else topic.min_insync_replicas
    lost = PartitionState(
        replicas=stored.assigned,
        leader=NO_LEADER,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(),
        min_insync_replicas=min(configured, len(stored.assigned)),
        controller_epoch=inputs.controller_epoch,
        reason=STATE_LOST,
    )
    if inputs.hosted or inputs.trashed or inputs.announced is not None:
        before = replace(lost, leader_epoch=NO_EPOCH, partition_epoch=PartitionEpoch(-1))
        return fence(before, inputs, assigned=stored.assigned)
    assigned = [inputs.brokers.get(broker_id) for broker_id in stored.assigned]
    present = [each for each in assigned if isinstance(each, InSession) and not each.shutting_down]
    if stored.recover:
        asked = asked_about_lost(stored, inputs.brokers)
        may_begin = have_all_reported(asked, first_seen_ms=inputs.first_seen_ms)
    else:
        to_come = [each for each in assigned if not isinstance(each, Dead)]
        may_begin = bool(present) and (len(present) == len(to_come) or inputs.waited)
    if topic is None or not may_begin:
        return None
    isr = tuple(_present_entry(broker) for broker in present)
    recovery = recovery_of(present) if stored.recover else Recovery.CLEAN
    leader = min(present, key=_reluctance).broker_id
    first = replace(lost, isr=isr, leader=leader, recovery=recovery, reason="")
    return ElectionDecision(state=first, kind=ElectionKind.NEW)


def may_keep_leader(state: PartitionState, brokers: Mapping[BrokerId, BrokerEntry]) -> bool:
    """Tell whether the leader stays: not known dead, and in the ISR with its present epoch.

    An entry above the registered epoch means that the controller's view is old.
    """
    entry, broker = state.entry_of(state.leader), brokers.get(state.leader)
    if entry is None:
        return False
    if broker is None or isinstance(broker, Unregistered):
        return True
    if isinstance(broker, Dead):
        return entry.broker_epoch > broker.broker_epoch
    return entry.broker_epoch >= broker.broker_epoch


def choose_leader(state: PartitionState, brokers: Mapping[BrokerId, BrokerEntry]) -> Live | None:
    """Return the first in-sync replica in session with room on its volume.

    Else one in session, else an awaited one; none that shuts down.
    """
    in_sync = []
    for broker_id in state.replicas:
        broker, entry = brokers.get(broker_id), state.entry_of(broker_id)
        if not isinstance(broker, Live) or broker.shutting_down or entry is None:
            continue
        clean_since_epoch = broker.registration.clean_since_epoch
        if covers(entry, clean_since_epoch=clean_since_epoch, broker_epoch=broker.broker_epoch):
            in_sync.append(broker)
    return min(in_sync, key=_reluctance, default=None)


def _reluctance(broker: Live) -> tuple[bool, bool]:
    return not isinstance(broker, InSession), broker.is_full


def choose_clean_leader(
    state: PartitionState, brokers: Mapping[BrokerId, BrokerEntry]
) -> Live | None:
    """Return a member of the ISR that may lead, else an eligible leader; neither loses a record."""
    of_isr = choose_leader(state, brokers)
    if of_isr is not None or not state.eligible_leaders:
        return of_isr
    return choose_leader(replace(state, isr=state.eligible_leaders), brokers)


def effective_min_isr(state: PartitionState, topic: StoredTopic | None) -> int:
    """Return min(configured, replicas); the stored value while the topic is unknown.

    While a partition moves, the replicas as they were count: added ones may have nothing yet.
    """
    configured = state.min_insync_replicas if topic is None else topic.min_insync_replicas
    return min(configured, len(state.original_replicas))


def _decide_led(state: PartitionState, inputs: ElectionInput) -> ElectionDecision | None:
    """Move a leader that leaves, is full, or that no message reaches; else shrink, follow settings.

    The last one stays where a move would put the partition under min ISR (ADR 0028).
    """
    leader, successor = inputs.brokers.get(state.leader), choose_leader(state, inputs.brokers)
    if isinstance(leader, Live) and leader.shutting_down:
        clean = choose_clean_leader(state, inputs.brokers)
        if clean is not None:
            return _elect(state, inputs, clean, ElectionKind.CONTROLLED_SHUTDOWN)
    if isinstance(leader, Live) and isinstance(successor, InSession):
        if leader.is_full and not successor.is_full:
            return _elect(state, inputs, successor, ElectionKind.VOLUME_FULL)
        if isinstance(leader, WithoutSession):
            elected = _elect(state, inputs, successor, ElectionKind.OFFLINE)
            if len(elected.state.isr) >= elected.state.min_insync_replicas:
                return elected
    isr = entries_kept(state, inputs.brokers, state.leader)
    following = _next_state(state, inputs, isr)
    same = _signed_as(state, following)
    return None if same == state else ElectionDecision(state=following)


def _decide_leaderless(state: PartitionState, inputs: ElectionInput) -> ElectionDecision | None:
    chosen = choose_clean_leader(state, inputs.brokers)
    if chosen is not None:
        return _elect(state, inputs, chosen, ElectionKind.OFFLINE)
    if inputs.topic is not None and inputs.topic.unclean_leader_election:
        chosen = choose_unclean_leader(state, inputs.brokers, inputs.hosted)
        if chosen is not None:
            return _elect(state, inputs, chosen, ElectionKind.UNCLEAN)
    trusted = tuple(entry for entry in state.isr if not lost_data(entry, inputs.brokers))
    waiting = _without_leader(state, inputs, trusted or state.isr, NO_LIVE_ISR_MEMBER)
    has_hope = trusted or waiting.eligible_leaders
    offline = waiting if has_hope else replace(waiting, reason=UNCLEAN_LAST_REPLICA)
    return None if _signed_as(state, offline) == state else ElectionDecision(state=offline)


def _signed_as(state: PartitionState, following: PartitionState) -> PartitionState:
    """Return a following state with the epochs that each write changes: equal if all else is."""
    return replace(
        following, partition_epoch=state.partition_epoch, controller_epoch=state.controller_epoch
    )


def _elect(
    state: PartitionState, inputs: ElectionInput, chosen: Live, kind: ElectionKind
) -> ElectionDecision:
    entry, is_unclean = _present_entry(chosen), kind is ElectionKind.UNCLEAN
    if is_unclean or chosen.broker_id in {each.broker_id for each in state.eligible_leaders}:
        isr: tuple[IsrEntry, ...] = (entry,)
    else:
        kept = entries_kept(state, inputs.brokers, chosen.broker_id)
        isr = tuple(entry if e.broker_id == chosen.broker_id else e for e in kept)
    following = _next_state(state, inputs, isr)
    elected = replace(
        following,
        # What an unclean leader lacks was committed, and the others may be made to cut it off.
        eligible_leaders=() if is_unclean else following.eligible_leaders,
        leader=chosen.broker_id,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        recovery=Recovery.UNCLEAN if is_unclean else Recovery.CLEAN,
        reason="",
    )
    return ElectionDecision(state=elected, kind=kind)


def _next_state(
    state: PartitionState, inputs: ElectionInput, isr: tuple[IsrEntry, ...]
) -> PartitionState:
    min_isr = effective_min_isr(state, inputs.topic)
    return next_state(state, inputs.brokers, inputs.controller_epoch, isr, min_isr)


def next_state(
    state: PartitionState,
    brokers: Mapping[BrokerId, BrokerEntry],
    controller_epoch: ControllerEpoch,
    isr: tuple[IsrEntry, ...],
    min_insync_replicas: int,
) -> PartitionState:
    """Return the state that follows: partition epoch plus one, signed by this controller."""
    return replace(
        state,
        isr=isr,
        eligible_leaders=eligible_leaders(state, isr, min_insync_replicas, brokers),
        min_insync_replicas=min_insync_replicas,
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
        controller_epoch=controller_epoch,
    )


def _without_leader(
    state: PartitionState, inputs: ElectionInput, isr: tuple[IsrEntry, ...], reason: str
) -> PartitionState:
    changed = 0 if state.leader == NO_LEADER else 1
    return replace(
        _next_state(state, inputs, isr),
        leader=NO_LEADER,
        leader_epoch=LeaderEpoch(state.leader_epoch + changed),
        reason=reason,
    )


def _present_entry(broker: Live) -> IsrEntry:
    return IsrEntry(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)

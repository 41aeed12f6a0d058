"""What the status of a partition should become, given who is alive.

Pure functions of values, called by `partition_work` on the very object that its write will
be compared with. They return None when nothing must change: a new controller writes only
what must change.

An ISR entry (id, e) is in sync iff cleanSince <= e <= brokerEpoch of that broker. Entries
known dead or known to have lost data are dropped, an elected leader's entry gets its
present epoch, every other one is kept: neither known live nor known dead stays.
Source: Kafka PartitionLeaderElectionAlgorithms; KAFKA-708 for the last ISR member; ADR 0002.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from strandline.model import (
    NO_LEADER,
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
)

from .brokers import BrokerView, Standing
from .events import HostedReplica

STATE_LOST = "StateLost"
"""The object was lost while brokers hold data of it (ADR 0004)."""
UNCLEAN_LAST_REPLICA = "UncleanLastReplica"
"""Everybody who was in the last ISR has lost data since."""
NO_LIVE_ISR_MEMBER = "NoLiveIsrMember"
"""Somebody of the last ISR may come back with everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a decision is made from, beside the stored partition itself.

    hosted: what brokers in session have on disk of this partition. waited: a new partition
    has waited long enough for its brokers. state_lost: a broker refused it as new.
    """

    brokers: Mapping[BrokerId, BrokerView]
    topic: StoredTopic | None
    hosted: Mapping[BrokerId, HostedReplica]
    controller_epoch: ControllerEpoch
    waited: bool = True
    state_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The status to commit; kind is set when it elects a leader."""

    state: PartitionState
    kind: ElectionKind | None = None


def decide(stored: StoredPartition, situation: Situation) -> Decision | None:
    """Return the status that must be committed now, None if the stored one stands."""
    state = stored.state
    if state is None:
        return decide_new(stored, situation)
    if state.leader == NO_LEADER and state.reason == STATE_LOST:
        return None
    if situation.state_lost:
        return Decision(state=_without_leader(state, situation, state.isr, STATE_LOST))
    if may_keep_leader(state, situation.brokers):
        return _decide_led(state, situation)
    return _decide_leaderless(state, situation)


def decide_new(stored: StoredPartition, situation: Situation) -> Decision | None:
    """Give a partition without status its first one.

    All assigned brokers in session form the ISR, the first of them leads. One that must be
    recovered, or that somebody has on disk, is a lost one: it stays offline.
    """
    brokers, topic = situation.brokers, situation.topic
    if stored.recover or situation.hosted:
        lost = _first_state(stored, situation, isr=(), leader=NO_LEADER)
        return Decision(state=replace(lost, reason=STATE_LOST))
    views = [brokers.get(broker_id) for broker_id in stored.assigned]
    present = [
        view
        for view in views
        if view is not None and view.standing is Standing.IN_SESSION and not view.shutting_down
    ]
    to_come = [view for view in views if view is None or view.standing is not Standing.DEAD]
    if topic is None or not present or (len(present) < len(to_come) and not situation.waited):
        return None
    isr = tuple(_present_entry(view) for view in present)
    first = _first_state(stored, situation, isr=isr, leader=present[0].broker_id)
    return Decision(state=first, kind=ElectionKind.NEW)


def may_keep_leader(state: PartitionState, brokers: Mapping[BrokerId, BrokerView]) -> bool:
    """Tell whether the leader stands: not known dead, and in the ISR with its present epoch.

    An entry above the registered epoch means that our view is old, not that the leader is.
    """
    entry = state.entry_of(state.leader)
    if entry is None:
        return False
    view = brokers.get(state.leader)
    if view is None or view.standing is Standing.UNKNOWN:
        return True
    if view.standing is Standing.DEAD:
        return entry.broker_epoch > view.broker_epoch
    return entry.broker_epoch >= view.broker_epoch


def choose_leader(
    state: PartitionState, brokers: Mapping[BrokerId, BrokerView]
) -> BrokerView | None:
    """Return the first replica that is live, not shutting down and in sync.

    One in session goes before one that is only awaited.
    """
    in_sync = []
    for broker_id in state.replicas:
        view, entry = brokers.get(broker_id), state.entry_of(broker_id)
        if view is None or entry is None or not view.is_live or view.shutting_down:
            continue
        if view.covers(entry):
            in_sync.append(view)
    return min(in_sync, key=lambda view: view.standing is not Standing.IN_SESSION, default=None)


def choose_unclean_leader(state: PartitionState, situation: Situation) -> BrokerView | None:
    """Return who has most, judged by (last epoch, log end offset), when data must be given up.

    Members of the last ISR go before other replicas. Nobody while one that is awaited may
    still have more.
    """
    for pool in (state.isr_ids, state.replicas):
        views = [situation.brokers.get(b) for b in state.replicas if b in pool]
        usable = [v for v in views if v is not None and v.is_live and not v.shutting_down]
        if any(view.standing is Standing.AWAITED for view in usable):
            return None
        if usable:
            return max(usable, key=lambda view: _log_end(situation.hosted.get(view.broker_id)))
    return None


def entries_kept(
    state: PartitionState, brokers: Mapping[BrokerId, BrokerView], leader: BrokerId
) -> tuple[IsrEntry, ...]:
    """Return the ISR without those known dead, known to have lost data, or leaving."""
    kept = []
    for entry in state.isr:
        view = brokers.get(entry.broker_id)
        if view is not None:
            dead = view.standing is Standing.DEAD and entry.broker_epoch <= view.broker_epoch
            leaving = view.shutting_down and entry.broker_id != leader
            if dead or leaving or view.lost_data_of(entry):
                continue
        kept.append(entry)
    return tuple(kept)


def entries_above_registration(
    state: PartitionState, brokers: Mapping[BrokerId, BrokerView]
) -> list[IsrEntry]:
    """Return the entries whose epoch is above the registered one: our view of them is old."""
    views = ((entry, brokers.get(entry.broker_id)) for entry in state.isr)
    return [e for e, view in views if view is not None and e.broker_epoch > view.broker_epoch]


def effective_min_isr(state: PartitionState, topic: StoredTopic | None) -> int:
    """Return min(configured, replicas); what is stored while the topic is not known."""
    if topic is None:
        return state.min_insync_replicas
    return min(topic.min_insync_replicas, len(state.replicas))


def _decide_led(state: PartitionState, situation: Situation) -> Decision | None:
    """Move a leader that is leaving; else shrink and follow the configuration."""
    view = situation.brokers.get(state.leader)
    if view is not None and view.shutting_down:
        heir = choose_leader(state, situation.brokers)
        if heir is not None:
            return _elect(state, situation, heir, ElectionKind.CONTROLLED_SHUTDOWN)
    isr = entries_kept(state, situation.brokers, state.leader)
    min_isr = effective_min_isr(state, situation.topic)
    if isr == state.isr and min_isr == state.min_insync_replicas:
        return None
    return Decision(state=next_state(state, situation.controller_epoch, isr, min_isr))


def _decide_leaderless(state: PartitionState, situation: Situation) -> Decision | None:
    chosen = choose_leader(state, situation.brokers)
    if chosen is not None:
        return _elect(state, situation, chosen, ElectionKind.OFFLINE)
    if situation.topic is not None and situation.topic.unclean_leader_election:
        chosen = choose_unclean_leader(state, situation)
        if chosen is not None:
            return _elect(state, situation, chosen, ElectionKind.UNCLEAN)
    brokers = situation.brokers
    trusted = tuple(
        entry
        for entry in state.isr
        if entry.broker_id not in brokers or not brokers[entry.broker_id].lost_data_of(entry)
    )
    reason = NO_LIVE_ISR_MEMBER if trusted else UNCLEAN_LAST_REPLICA
    offline = _without_leader(state, situation, trusted or state.isr, reason)
    same = replace(
        offline, partition_epoch=state.partition_epoch, controller_epoch=state.controller_epoch
    )
    return None if same == state else Decision(state=offline)


def _elect(
    state: PartitionState, situation: Situation, chosen: BrokerView, kind: ElectionKind
) -> Decision:
    entry = _present_entry(chosen)
    if kind is ElectionKind.UNCLEAN:
        isr: tuple[IsrEntry, ...] = (entry,)
    else:
        kept = entries_kept(state, situation.brokers, chosen.broker_id)
        isr = tuple(entry if e.broker_id == chosen.broker_id else e for e in kept)
    min_isr = effective_min_isr(state, situation.topic)
    elected = replace(
        next_state(state, situation.controller_epoch, isr, min_isr),
        leader=chosen.broker_id,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        recovery=Recovery.UNCLEAN if kind is ElectionKind.UNCLEAN else Recovery.CLEAN,
        reason="",
    )
    return Decision(state=elected, kind=kind)


def next_state(
    state: PartitionState,
    controller_epoch: ControllerEpoch,
    isr: tuple[IsrEntry, ...],
    min_insync_replicas: int,
) -> PartitionState:
    """Return the successor of a state: partition epoch plus one, signed by this controller."""
    return replace(
        state,
        isr=isr,
        min_insync_replicas=min_insync_replicas,
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
        controller_epoch=controller_epoch,
    )


def _without_leader(
    state: PartitionState, situation: Situation, isr: tuple[IsrEntry, ...], reason: str
) -> PartitionState:
    min_isr = effective_min_isr(state, situation.topic)
    changed = 0 if state.leader == NO_LEADER else 1
    return replace(
        next_state(state, situation.controller_epoch, isr, min_isr),
        leader=NO_LEADER,
        leader_epoch=LeaderEpoch(state.leader_epoch + changed),
        reason=reason,
    )


def _first_state(
    stored: StoredPartition,
    situation: Situation,
    *,
    isr: tuple[IsrEntry, ...],
    leader: BrokerId,
) -> PartitionState:
    configured = 1 if situation.topic is None else situation.topic.min_insync_replicas
    return PartitionState(
        replicas=stored.assigned,
        leader=leader,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=isr,
        min_insync_replicas=min(configured, len(stored.assigned)),
        controller_epoch=situation.controller_epoch,
    )


def _present_entry(view: BrokerView) -> IsrEntry:
    return IsrEntry(broker_id=view.broker_id, broker_epoch=view.broker_epoch)


def _log_end(replica: HostedReplica | None) -> tuple[int, int]:
    return (-1, -1) if replica is None else (replica.last_epoch, replica.log_end_offset)

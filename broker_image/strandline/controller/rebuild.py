"""How a partition whose stored state was lost gets a leader again: from what its brokers hold.

Pure functions; `elections` calls them for a partition that has the reason StateLost. First the
controller commits a fence: a state without leader, above every epoch that a broker of the partition
is known to have accepted. A broker that applied the fence neither leads nor fetches, so its log
stands still. Once every replica's broker has reported its log from behind the fence, the leader of
the last leadership that one of them accepted leads again, if its broker lost no data since.

Why no acknowledged record is lost: acks=all needs min ISR brokers that accepted the leadership, and
fewer than that have lost data, so no record was acknowledged in a later leadership than the
reported one; and a leader has all that was acknowledged before. If it lost data, logs that end in
one epoch were written by one leader, and the longest has all of the others. In any other case the
controller waits, and a person decides. The log that ends in the latest epoch proves nothing: a
leader commits records of earlier epochs without one of its own.

Source: ADR 0004, ADR 0049
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from strandline.model import (
    NO_EPOCH,
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
)

from .broker_entry import BrokerEntry, InSession, RegisteredBroker
from .election_input import ElectionDecision, ElectionInput, most_complete
from .events import HostedReplica
from .isr_entries import is_candidate, lost_data

REPLICAS_MAX: Final = 18
"""How many brokers `Partition.status.replicas` may name: nine that were, and nine that shall be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEpochs:
    """The highest epochs of one partition that any broker is known to have accepted."""

    leader_epoch: LeaderEpoch = NO_EPOCH
    partition_epoch: PartitionEpoch = PartitionEpoch(-1)


def stands_behind(replica: HostedReplica, fence: PartitionState) -> bool:
    """Tell whether a broker has applied the fence: its log stands still."""
    return replica.leader == NO_LEADER and (replica.leader_epoch, replica.partition_epoch) == (
        fence.leader_epoch,
        fence.partition_epoch,
    )


def is_too_low(
    fence: PartitionState,
    hosted: Iterable[HostedReplica],
    announced: PartitionState | None,
) -> bool:
    """Tell whether a broker would refuse the fence for a state that it accepted before."""
    replicas = [each for each in hosted if not stands_behind(each, fence)]
    known = known_epochs(replicas, announced if announced != fence else None)
    return known.leader_epoch > fence.leader_epoch or known.partition_epoch >= fence.partition_epoch


def known_epochs(hosted: Iterable[HostedReplica], announced: PartitionState | None) -> KnownEpochs:
    """Return the highest accepted epochs in these reports and in the last announced state."""
    leader_epochs, partition_epochs = [NO_EPOCH], [PartitionEpoch(-1)]
    for replica in hosted:
        # A record is written only under an accepted epoch.
        leader_epochs += [replica.accepted_leader_epoch, replica.last_epoch]
        partition_epochs.append(replica.accepted_partition_epoch)
    if announced is not None:
        leader_epochs.append(announced.leader_epoch)
        partition_epochs.append(announced.partition_epoch)
    return KnownEpochs(leader_epoch=max(leader_epochs), partition_epoch=max(partition_epochs))


def accepted_epochs(
    state: PartitionState | None,
    hosted: Iterable[HostedReplica],
    announced: PartitionState | None,
    *,
    without_log: Iterable[BrokerId],
) -> KnownEpochs:
    """Return the highest epochs that brokers are known to have accepted.

    A log was removed after every state in which its broker could be elected: if the stored one is
    such a state, there was a later one (ADR 0057).

    Shape:   without_log have the partition's log in their trash alone, and got no state of it since
    """
    known = known_epochs(hosted, announced)
    if state is None or not any(is_candidate(each, state) for each in without_log):
        return known
    later = PartitionEpoch(state.partition_epoch + 1)
    return replace(known, partition_epoch=max(known.partition_epoch, later))


def is_behind(state: PartitionState, accepted: KnownEpochs) -> bool:
    """Tell whether brokers have accepted a state newer than the stored one.

    Each state is stored before a broker hears of it: unless the read of the store is older than the
    report, the store went back to a backup. Its ISR is old, too, and elects no leader (ADR 0029).
    """
    return (
        accepted.leader_epoch > state.leader_epoch
        or accepted.partition_epoch > state.partition_epoch
    )


def fenced(
    state: PartitionState, known: KnownEpochs, *, controller_epoch: ControllerEpoch
) -> PartitionState:
    """Return the leaderless state that ends every leadership and every fetch of this partition."""
    return replace(
        state,
        leader=NO_LEADER,
        isr=(),
        eligible_leaders=(),
        leader_epoch=LeaderEpoch(max(state.leader_epoch, known.leader_epoch) + 1),
        partition_epoch=PartitionEpoch(max(state.partition_epoch, known.partition_epoch) + 1),
        controller_epoch=controller_epoch,
    )


def choose_rebuilt_isr(
    state: PartitionState,
    brokers: Mapping[BrokerId, BrokerEntry],
    hosted: Mapping[BrokerId, HostedReplica],
    *,
    without: frozenset[BrokerId] = frozenset(),
    trashed: frozenset[BrokerId] = frozenset(),
) -> tuple[IsrEntry, ...]:
    """Return the ISR that begins anew, its leader first; empty while a broker's log is unknown.

    Empty also if nothing tells which of the logs has everything, or if a log is yet to come from a
    trash. A log of a broker that is no replica cannot lead: if it has most, the partition waits. If
    all logs are empty, and none is in a trash, the partition is new, and all are in sync.

    Shape:   without names the brokers whose logs a person gave up, trashed those with a log of
             it in the trash
    """
    if trashed - without - hosted.keys():
        return ()
    present: dict[IsrEntry, HostedReplica] = {}
    for broker_id in state.replicas:
        if broker_id in without:
            continue
        broker, replica = brokers.get(broker_id), hosted.get(broker_id)
        if not isinstance(broker, InSession) or broker.shutting_down or replica is None:
            return ()
        if not stands_behind(replica, state):
            return ()
        entry = IsrEntry(broker_id=broker_id, broker_epoch=broker.broker_epoch)
        present[entry] = replica
    logs = {entry.broker_id: replica for entry, replica in present.items()}
    others = {other: hosted[other] for other in hosted.keys() - logs.keys() - without}
    if not present or most_complete({**logs, **others}) not in logs:
        return ()
    if not any(replica.log_end_offset > 0 for replica in present.values()):
        return () if trashed - without else tuple(present)
    leader = last_leader(present, brokers)
    if leader is not None:
        return (leader,)
    if without or not may_differ(present.values()):
        return (most_complete(present),)
    return ()


def last_leader(
    present: Mapping[IsrEntry, HostedReplica], brokers: Mapping[BrokerId, BrokerEntry]
) -> IsrEntry | None:
    """Return the leader of the last leadership that a broker accepted, None if it lost data since.

    None also if that leader is not present, or if no broker knows a leadership. A replica without
    one was made behind the fence, or came back from a trash that did not keep it: with records it
    may have taken part in a later leadership than any that is known (ADR 0057).
    """
    if any(each.term_epoch == NO_EPOCH and each.log_end_offset > 0 for each in present.values()):
        return None
    last = max(present.values(), key=lambda replica: replica.term_epoch)
    if lost_data(IsrEntry(broker_id=last.led_by, broker_epoch=last.led_as), brokers):
        return None
    known = (entry for entry, replica in present.items() if replica.term_epoch != NO_EPOCH)
    return next((entry for entry in known if entry.broker_id == last.led_by), None)


def may_differ(replicas: Iterable[HostedReplica]) -> bool:
    """Tell whether one of these logs may lack what another one of them was right to have.

    One leader wrote the ends of logs that end in the same epoch: the longest has all of the others.
    A log that never had a record, because it began where its leader's log did, tells nothing.
    """
    return len({each.last_epoch for each in replicas} - {NO_EPOCH}) > 1


def _is_away(broker: BrokerEntry) -> bool:
    return isinstance(broker, RegisteredBroker) and not (
        isinstance(broker, InSession) or broker.is_gone
    )


def fence(
    state: PartitionState, inputs: ElectionInput, *, assigned: tuple[BrokerId, ...]
) -> ElectionDecision:
    """Commit a fence above all that this controller knows, for all that may have data.

    The partition may have moved: beside the assigned brokers, those of the states that are known
    and all that report a log, on disk or in the trash, are behind the fence, as replicas to be
    removed (ADR 0057).
    """
    known = known_epochs(inputs.hosted.values(), inputs.announced)
    announced = () if inputs.announced is None else inputs.announced.replicas
    have_logs = sorted({*inputs.hosted, *inputs.trashed})
    gathered = (*assigned, *state.replicas, *announced, *have_logs)
    replicas = tuple(dict.fromkeys(gathered))[:REPLICAS_MAX]
    apart = replace(
        state,
        replicas=replicas,
        adding_replicas=(),
        removing_replicas=tuple(each for each in replicas if each not in assigned),
    )
    return ElectionDecision(state=fenced(apart, known, controller_epoch=inputs.controller_epoch))


def rebuild(
    stored: StoredPartition, state: PartitionState, inputs: ElectionInput
) -> ElectionDecision | None:
    """Raise a fence that is too low or too narrow, elect from the logs behind it, or wait (None).

    Any registered broker may have a log: it must be in session, unless a person gave it up.
    """
    without = stored.rebuild_without
    outside = {*inputs.hosted, *inputs.trashed} - {*state.replicas, *without}
    is_too_narrow = bool(outside) and len(state.replicas) < REPLICAS_MAX
    if is_too_narrow or is_too_low(state, inputs.hosted.values(), inputs.announced):
        return fence(state, inputs, assigned=stored.assigned)
    others = inputs.brokers.keys() - {*state.replicas, *without}
    if any(_is_away(inputs.brokers[each]) for each in others):
        return None
    isr = choose_rebuilt_isr(
        state, inputs.brokers, inputs.hosted, without=without, trashed=inputs.trashed
    )
    if not isr:
        return None
    elected = replace(
        state,
        isr=isr,
        leader=isr[0].broker_id,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
        controller_epoch=inputs.controller_epoch,
        recovery=Recovery.UNCLEAN if without else Recovery.CLEAN,
        reason="",
    )
    kind = ElectionKind.UNCLEAN if without else ElectionKind.OFFLINE
    return ElectionDecision(state=elected, kind=kind)

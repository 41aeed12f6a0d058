"""Whether the controller accepts an AlterPartition, and how it responds.

Pure: one request against one stored partition. To refuse a change at the stored partition epoch,
the controller commits the next epoch with the ISR unchanged, so that no earlier write of this
change can land any more (ADR 0001, ADR 0006). The controller judges a request again after every
read, and finds a committed change "already so".
Source: Kafka 3.9 ReplicationControlManager.alterPartition; KAFKA-14144, KAFKA-14154; KIP-903.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import BrokerId, ControllerEpoch, IsrEntry, PartitionState, StoredPartition

from .broker_entry import BrokerEntry, InSession
from .effects import ReplyAlterPartition
from .elections import next_state
from .events import IsrChangeRequested


@dataclass(frozen=True, slots=True, kw_only=True)
class RespondNow:
    """Respond with this error and the stored state; write nothing."""

    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFirst:
    """The requester knows more than the last read: a quorum read decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Commit this state, then judge again: the requested ISR, or why the ISR stays as it is."""

    state: PartitionState
    refusal: str = ""


IsrChangeVerdict = RespondNow | ReadFirst | Commit


def judge(
    request: IsrChangeRequested,
    stored: StoredPartition,
    brokers: Mapping[BrokerId, BrokerEntry],
    *,
    controller_epoch: ControllerEpoch,
    read_since_request: bool,
) -> IsrChangeVerdict:
    """Judge a request against the object as last read."""
    state, broker = stored.state, brokers.get(request.broker_id)
    if broker is None or request.broker_epoch != broker.broker_epoch:
        return RespondNow(error=ErrorCode.STALE_BROKER_EPOCH)
    knows_more = (
        state is None
        or request.leader_epoch > state.leader_epoch
        or request.partition_epoch > state.partition_epoch
    )
    if knows_more and not read_since_request:
        return ReadFirst()
    if state is None:
        return RespondNow(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if knows_more:
        return RespondNow(error=ErrorCode.NOT_CONTROLLER)
    if request.leader_epoch < state.leader_epoch:
        return RespondNow(error=ErrorCode.FENCED_LEADER_EPOCH)
    if request.broker_id != state.leader:
        return RespondNow(error=ErrorCode.INVALID_REQUEST)
    if frozenset(request.isr) == frozenset(state.isr):
        return RespondNow(error=ErrorCode.NONE)
    if request.partition_epoch < state.partition_epoch:
        return RespondNow(error=ErrorCode.INVALID_UPDATE_VERSION)
    refusal = _objection(request.isr, state, brokers)
    isr = state.isr if refusal else request.isr
    following = next_state(state, brokers, controller_epoch, isr, state.min_insync_replicas)
    return Commit(state=following, refusal=refusal)


def _objection(
    isr: tuple[IsrEntry, ...], state: PartitionState, brokers: Mapping[BrokerId, BrokerEntry]
) -> str:
    """Return why an ISR may not be committed, "" if it may; leaving is always allowed."""
    members = [entry.broker_id for entry in isr]
    if len(set(members)) != len(members) or not set(members) <= set(state.replicas):
        return "not a set of replicas"
    leader = state.entry_of(state.leader)
    if leader is None or leader not in isr:
        return "leader missing"
    for entry in isr:
        if entry in state.isr:
            continue
        broker = brokers.get(entry.broker_id)
        if not isinstance(broker, InSession):
            return "joiner without session"
        if broker.shutting_down:
            return "joiner shutting down"
        if entry.broker_epoch != broker.broker_epoch:
            return "joiner of another broker epoch"
    return ""


def reply_alter_partition(
    request: IsrChangeRequested, error: ErrorCode, *, stored: PartitionState | None = None
) -> ReplyAlterPartition:
    """Return the response to a request."""
    return ReplyAlterPartition(
        session_id=request.session_id,
        request_id=request.request_id,
        broker_id=request.broker_id,
        tp=request.tp,
        error=error,
        stored=stored,
    )

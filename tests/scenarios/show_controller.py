"""Prints the effects of controllers in scenarios, without periodic ones."""

from __future__ import annotations

from strandline.controller.effects import (
    ControllerEffect,
    ProbeBroker,
    ProbeLeaseHolder,
    ReadBroker,
    ReadStoredPartition,
    ReplyAlterPartition,
    ReplyControlledShutdown,
    SendFullState,
    SendLeaderAndIsr,
    SendRestoreReplica,
    SendStopReplica,
    SendUpdateMetadata,
    WriteClusterRecord,
    WriteControllerRecord,
    WriteLease,
    WritePartitionStatus,
)
from strandline.model import (
    TOPIC_DELETED,
    ClusterRecord,
    ControllerRecord,
    LeaseRecord,
    PartitionCommand,
)
from tests.support.world.network import STORE
from tests.support.world.store import StoreRead
from tests.support.world.values import NAME

from .printing import line, short, state_text, value

Command = (
    SendFullState | SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica | SendRestoreReplica
)
"""What carries the epochs of controller and broker."""


def show_of_controller(me: str, effect: ControllerEffect) -> str | None:
    """Return one effect as a line, None for a renewal of the Lease."""
    name = type(effect).__name__
    match effect:
        case WriteLease(lease=lease) if lease.acquire_time and lease.holder_identity:
            return None
        case WriteLease(lease=found) | WriteControllerRecord(record=found):
            return f"{me} -> {STORE}  {name} {holder(found)}"
        case WritePartitionStatus():
            return f"{me} -> {STORE}  {name} {effect.name} {state_text(effect.state)}"
        case ReadStoredPartition():
            return f"{me} -> {STORE}  {name} {effect.name}"
        case ReadBroker():
            return f"{me} -> {STORE}  {name} broker={effect.broker_id}"
        case WriteClusterRecord(record=record):
            return f"{me} -> {STORE}  {name} {cluster(record)}"
        case _ if isinstance(effect, StoreRead):
            return f"{me} -> {STORE}  {name}"
        case ProbeBroker() | ProbeLeaseHolder():
            return f"{me} -> {effect.broker_id}  {name}"
        case ReplyAlterPartition() | ReplyControlledShutdown():
            return f"{me} -> {effect.broker_id}  {_reply(effect)}"
        case SendStopReplica() | SendRestoreReplica():
            return f"{me} -> {effect.broker_id}  {name} {_deleted_or_restored(effect)}"
        case SendFullState() | SendLeaderAndIsr() | SendUpdateMetadata():
            return f"{me} -> {effect.broker_id}  {name} {_sent(effect)}"
        case _:
            return f"{me}: {line(effect)}"


def holder(found: LeaseRecord | ControllerRecord) -> str:
    """Return the holder that a Lease or a record names, and its controller epoch."""
    return f"holder={found.holder_identity} controller_epoch={found.controller_epoch}"


def cluster(record: ClusterRecord) -> str:
    """Return what the controller tells in the BrokerCluster."""
    strays = [f"{each.topic_name}{' in trash' if each.in_trash else ''}" for each in record.strays]
    deleted = [each.topic_name for each in record.deleted_topics]
    return (
        f"topic_revision={record.topic_revision} deleted=[{', '.join(deleted)}]"
        f" strays=[{', '.join(strays)}]"
    )


def _reply(effect: ReplyAlterPartition | ReplyControlledShutdown) -> str:
    words = (
        f"{type(effect).__name__} request_id={short(effect.request_id)} error={effect.error.name}"
    )
    if isinstance(effect, ReplyControlledShutdown):
        return f"{words} remaining={effect.remaining}"
    return words if effect.stored is None else f"{words} stored=({state_text(effect.stored)})"


def _epochs(effect: Command) -> str:
    return f"controller_epoch={effect.controller_epoch} broker_epoch={effect.broker_epoch}"


def _deleted_or_restored(effect: SendStopReplica | SendRestoreReplica) -> str:
    removed = getattr(effect, "removed_at", TOPIC_DELETED)
    why = "" if removed == TOPIC_DELETED else f" removed_at={removed}"
    return f"{_epochs(effect)} {value(effect.partitions)}{why}"


def _sent(effect: SendFullState | SendLeaderAndIsr | SendUpdateMetadata) -> str:
    parts = [_epochs(effect)]
    if not isinstance(effect, SendLeaderAndIsr):
        parts.append(f"brokers={value(effect.brokers)}")
    if isinstance(effect, SendUpdateMetadata):
        parts += _names("metadata", effect.partitions)
        if effect.removed:
            parts.append(f"removed={value(effect.removed)}")
        return " ".join(parts)
    parts += map(_command, effect.partitions)
    if isinstance(effect, SendFullState):
        parts += _names("metadata", effect.metadata)
    return " ".join(parts)


def _names(key: str, commands: tuple[PartitionCommand, ...]) -> list[str]:
    return [f"{key}={value([each.tp for each in commands])}"] if commands else []


def _command(each: PartitionCommand) -> str:
    state = each.state
    words = f"leader={state.leader} leader_epoch={state.leader_epoch}"
    words += f" partition_epoch={state.partition_epoch} isr={value(state.isr)}"
    return f"{NAME}-{each.tp.partition}({words}{' new' if each.is_new else ''})"

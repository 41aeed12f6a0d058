"""Protobuf messages of the control plane <-> values of `model`.

Called by the session client and server, which make the outer messages themselves; this module
converts the parts that several messages share. Raises ValueError on enum values and ids that the
schema allows and we do not.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    IsrEntry,
    LeaderEpoch,
    LiveBroker,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    Recovery,
    TopicId,
    TopicPartition,
    TopicSettings,
)
from strandline_api.v1 import controller_pb2 as pb

_RECOVERY_TO_WIRE = {
    Recovery.CLEAN: pb.RECOVERY_CLEAN,
    Recovery.UNCLEAN: pb.RECOVERY_UNCLEAN,
}
_RECOVERY_FROM_WIRE = {wire: value for value, wire in _RECOVERY_TO_WIRE.items()}


def topic_partition_to_wire(tp: TopicPartition) -> pb.TopicPartition:
    """Return the message of a partition's identity."""
    return pb.TopicPartition(topic_id=tp.topic_id, partition=tp.partition)


def topic_partition_from_wire(message: pb.TopicPartition) -> TopicPartition:
    """Return the identity; ValueError if the topic id is no uuid or the partition is negative."""
    if message.partition < 0:
        raise ValueError(f"partition {message.partition} is negative")
    topic_id = TopicId(str(uuid.UUID(message.topic_id)))
    return TopicPartition(topic_id=topic_id, partition=message.partition)


def isr_to_wire(isr: Iterable[IsrEntry]) -> list[pb.IsrEntry]:
    """Return the messages of ISR entries in their order."""
    return [pb.IsrEntry(broker_id=e.broker_id, broker_epoch=e.broker_epoch) for e in isr]


def isr_from_wire(messages: Iterable[pb.IsrEntry]) -> tuple[IsrEntry, ...]:
    """Return ISR entries in their order."""
    return tuple(
        IsrEntry(broker_id=BrokerId(m.broker_id), broker_epoch=BrokerEpoch(m.broker_epoch))
        for m in messages
    )


def state_to_wire(state: PartitionState) -> pb.PartitionState:
    """Return the message of a committed partition state."""
    return pb.PartitionState(
        replicas=state.replicas,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=isr_to_wire(state.isr),
        min_insync_replicas=state.min_insync_replicas,
        controller_epoch=state.controller_epoch,
        recovery=_RECOVERY_TO_WIRE[state.recovery],
        reason=state.reason,
    )


def state_from_wire(message: pb.PartitionState) -> PartitionState:
    """Return the committed partition state."""
    if message.recovery not in _RECOVERY_FROM_WIRE:
        raise ValueError(f"recovery {message.recovery} is unknown")
    return PartitionState(
        replicas=tuple(BrokerId(r) for r in message.replicas),
        leader=BrokerId(message.leader),
        leader_epoch=LeaderEpoch(message.leader_epoch),
        partition_epoch=PartitionEpoch(message.partition_epoch),
        isr=isr_from_wire(message.isr),
        min_insync_replicas=message.min_insync_replicas,
        controller_epoch=ControllerEpoch(message.controller_epoch),
        recovery=_RECOVERY_FROM_WIRE[message.recovery],
        reason=message.reason,
    )


def command_to_wire(command: PartitionCommand) -> pb.PartitionCommand:
    """Return the message of one partition of a LeaderAndIsr."""
    settings = command.settings
    return pb.PartitionCommand(
        tp=topic_partition_to_wire(command.tp),
        topic_name=command.topic_name,
        state=state_to_wire(command.state),
        settings=pb.TopicSettings(
            max_message_bytes=settings.max_message_bytes,
            segment_bytes=settings.segment_bytes,
            flush_messages=settings.flush_messages,
        ),
        is_new=command.is_new,
    )


def command_from_wire(message: pb.PartitionCommand) -> PartitionCommand:
    """Return one partition of a LeaderAndIsr."""
    return PartitionCommand(
        tp=topic_partition_from_wire(message.tp),
        topic_name=message.topic_name,
        state=state_from_wire(message.state),
        settings=TopicSettings(
            max_message_bytes=message.settings.max_message_bytes,
            segment_bytes=message.settings.segment_bytes,
            flush_messages=message.settings.flush_messages,
        ),
        is_new=message.is_new,
    )


def live_broker_to_wire(broker: LiveBroker) -> pb.LiveBroker:
    """Return the message of a live broker."""
    return pb.LiveBroker(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        clean_since_epoch=broker.clean_since_epoch,
        endpoints=[
            pb.Endpoint(listener=e.listener, host=e.host, port=e.port) for e in broker.endpoints
        ],
    )


def live_broker_from_wire(message: pb.LiveBroker) -> LiveBroker:
    """Return a live broker."""
    return LiveBroker(
        broker_id=BrokerId(message.broker_id),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        clean_since_epoch=BrokerEpoch(message.clean_since_epoch),
        endpoints=tuple(
            Endpoint(listener=e.listener, host=e.host, port=e.port) for e in message.endpoints
        ),
    )

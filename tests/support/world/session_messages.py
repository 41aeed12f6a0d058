"""Turns the effects of one end of a controller session into events of the other end."""

from __future__ import annotations

from strandline.controller.effects import (
    ReplyAlterPartition,
    ReplyControlledShutdown,
    SendFullState,
    SendLeaderAndIsr,
    SendRestoreReplica,
    SendStopReplica,
    SendUpdateMetadata,
)
from strandline.controller.events import (
    BrokerResponseReceived,
    ControllerEvent,
    HostedReplica,
    IsrChangeRequested,
)
from strandline.core.effects import ProposeIsr, ReplyLeaderAndIsr, ReplyStopReplica
from strandline.core.events import (
    AlterPartitionResponseReceived,
    Event,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    StopReplicaReceived,
)
from strandline.core.views import PartitionView
from strandline.model import TrashedReplica

from .broker import Broker
from .values import NAME

FromController = (
    SendFullState
    | SendLeaderAndIsr
    | SendUpdateMetadata
    | SendStopReplica
    | SendRestoreReplica
    | ReplyAlterPartition
    | ReplyControlledShutdown
)
"""What a controller sends on a session."""

FromBroker = ProposeIsr | ReplyLeaderAndIsr | ReplyStopReplica
"""What a core sends to its controller."""


def events_of_the_core(sent: FromController) -> list[Event]:
    """Return the core's events that a message of its controller becomes."""
    match sent:
        case SendFullState():
            live = LiveBrokersChanged(controller_epoch=sent.controller_epoch, brokers=sent.brokers)
            return [live, _leader_and_isr(sent)]
        case SendLeaderAndIsr():
            return [_leader_and_isr(sent)]
        case SendUpdateMetadata():
            return [
                LiveBrokersChanged(controller_epoch=sent.controller_epoch, brokers=sent.brokers)
            ]
        case SendStopReplica():
            return [
                StopReplicaReceived(
                    request_id=sent.request_id,
                    controller_epoch=sent.controller_epoch,
                    broker_epoch=sent.broker_epoch,
                    partitions=sent.partitions,
                    removed_at=sent.removed_at,
                )
            ]
        case ReplyAlterPartition():
            return [
                AlterPartitionResponseReceived(
                    request_id=sent.request_id, tp=sent.tp, error=sent.error, stored=sent.stored
                )
            ]
        case ReplyControlledShutdown() | SendRestoreReplica():
            return []


def _leader_and_isr(sent: SendFullState | SendLeaderAndIsr) -> LeaderAndIsrReceived:
    return LeaderAndIsrReceived(
        request_id=sent.request_id,
        controller_epoch=sent.controller_epoch,
        broker_epoch=sent.broker_epoch,
        partitions=sent.partitions,
        full=isinstance(sent, SendFullState),
    )


def event_of_the_controller(broker: Broker, session_id: int, sent: FromBroker) -> ControllerEvent:
    """Return the controller's event that a message of a core becomes."""
    match sent:
        case ProposeIsr():
            return IsrChangeRequested(
                session_id=session_id,
                request_id=sent.request_id,
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                tp=sent.tp,
                leader_epoch=sent.leader_epoch,
                partition_epoch=sent.partition_epoch,
                isr=sent.isr,
            )
        case ReplyLeaderAndIsr() | ReplyStopReplica():
            return BrokerResponseReceived(
                session_id=session_id,
                request_id=sent.request_id,
                broker_id=broker.broker_id,
                error=sent.error,
                controller_epoch=broker.replicas.controller_epoch,
                partitions=sent.partitions,
            )


def hosted_by(broker: Broker) -> tuple[HostedReplica, ...]:
    """Return what a broker says in its hello about the logs it has."""
    return tuple(map(_hosted, broker.replicas.views()))


def trashed_by(broker: Broker) -> tuple[TrashedReplica, ...]:
    """Return what a broker says about its trash."""
    return tuple(
        TrashedReplica(tp=tp, topic_name=NAME, deleted_at_ms=deleted_at_ms)
        for tp, (_, deleted_at_ms) in sorted(broker.trash.items())
    )


def _hosted(view: PartitionView) -> HostedReplica:
    return HostedReplica(
        tp=view.tp,
        topic_name=view.topic_name,
        leader=view.leader,
        leader_epoch=view.leader_epoch,
        partition_epoch=view.partition_epoch,
        accepted_leader_epoch=view.accepted_leader_epoch,
        accepted_partition_epoch=view.accepted_partition_epoch,
        last_epoch=view.last_epoch,
        term_epoch=view.term.leader_epoch,
        led_by=view.term.led_by,
        led_as=view.term.led_as,
        log_start_offset=view.log_start_offset,
        log_end_offset=view.log_end_offset,
    )

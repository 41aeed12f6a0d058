"""The controller's end of a session in values: what brokers say, as events; effects, as messages.

Pure. `rpc/session_server.py` does the same with protobuf in between.
"""

from __future__ import annotations

from typing import assert_never

from strandline.controller import effects as done
from strandline.controller.events import (
    BrokerResponseReceived,
    ControllerEvent,
    HeartbeatReceived,
    HostedReported,
    IsrChangeRequested,
    SessionOpened,
    ShutdownRequested,
)
from strandline.controller.store_events import ControllerEpochSeen
from strandline.controller_session.messages import (
    BrokerMessage,
    CommandResponse,
    ControllerMessage,
    Heartbeat,
    Hello,
    IsrProposal,
    MetadataUpdate,
    SessionRefused,
    ShutdownRequest,
    ShutdownResponse,
)
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    StopReplicaReceived,
)
from strandline.model import BrokerId

SessionEffect = (
    done.CloseSession
    | done.SendFullState
    | done.SendLeaderAndIsr
    | done.SendUpdateMetadata
    | done.SendStopReplica
    | done.ReplyAlterPartition
    | done.ReplyControlledShutdown
)


def events_of(
    message: BrokerMessage, *, session_id: int, broker_id: BrokerId
) -> tuple[ControllerEvent, ...]:
    """Return what a broker's message means to the controller."""
    match message:
        case Heartbeat():
            return _heartbeat(message, session_id=session_id, broker_id=broker_id)
        case IsrProposal(proposal=proposal):
            return (
                IsrChangeRequested(
                    session_id=session_id,
                    request_id=proposal.request_id,
                    broker_id=broker_id,
                    broker_epoch=message.broker_epoch,
                    tp=proposal.tp,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    isr=proposal.isr,
                ),
            )
        case CommandResponse(response=response):
            return (
                BrokerResponseReceived(
                    session_id=session_id,
                    request_id=response.request_id,
                    broker_id=broker_id,
                    error=response.error,
                    controller_epoch=message.highest_controller_epoch,
                    partitions=response.partitions,
                ),
            )
        case Hello():
            return _hello(message, session_id=session_id)
        case ShutdownRequest():
            return (
                ShutdownRequested(
                    session_id=session_id,
                    request_id=message.request_id,
                    broker_id=broker_id,
                    broker_epoch=message.broker_epoch,
                ),
            )
        case _:
            assert_never(message)


def _heartbeat(
    message: Heartbeat, *, session_id: int, broker_id: BrokerId
) -> tuple[ControllerEvent, ...]:
    alive = HeartbeatReceived(
        session_id=session_id, broker_id=broker_id, broker_epoch=message.broker_epoch
    )
    if message.hosted is None:
        return (alive,)
    report = HostedReported(session_id=session_id, broker_id=broker_id, hosted=message.hosted)
    return (alive, report)


def _hello(message: Hello, *, session_id: int) -> tuple[ControllerEvent, ...]:
    opened = SessionOpened(
        session_id=session_id,
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        clean_since_epoch=message.clean_since_epoch,
        incarnation=message.incarnation,
        hosted=message.hosted,
    )
    return (ControllerEpochSeen(controller_epoch=message.highest_controller_epoch), opened)


def messages_of(effect: SessionEffect, *, controller_id: BrokerId) -> tuple[ControllerMessage, ...]:
    """Return what a controller's effect says to the broker; metadata goes before a full state."""
    match effect:
        case done.SendLeaderAndIsr():
            return (_leader_and_isr(effect),)
        case done.SendUpdateMetadata():
            return (_metadata(effect, controller_id),)
        case done.SendFullState():
            return (_metadata(effect, controller_id), _leader_and_isr(effect))
        case done.SendStopReplica():
            return (
                StopReplicaReceived(
                    request_id=effect.request_id,
                    controller_epoch=effect.controller_epoch,
                    broker_epoch=effect.broker_epoch,
                    partitions=effect.partitions,
                ),
            )
        case done.ReplyAlterPartition():
            return (
                AlterPartitionResponseReceived(
                    request_id=effect.request_id,
                    tp=effect.tp,
                    error=effect.error,
                    stored=effect.stored,
                ),
            )
        case done.ReplyControlledShutdown():
            return (
                ShutdownResponse(
                    request_id=effect.request_id, error=effect.error, remaining=effect.remaining
                ),
            )
        case done.CloseSession():
            return (SessionRefused(error=effect.error, controller_epoch=effect.controller_epoch),)
        case _:
            assert_never(effect)


def _leader_and_isr(effect: done.SendLeaderAndIsr | done.SendFullState) -> LeaderAndIsrReceived:
    return LeaderAndIsrReceived(
        request_id=effect.request_id,
        controller_epoch=effect.controller_epoch,
        broker_epoch=effect.broker_epoch,
        partitions=effect.partitions,
        full=isinstance(effect, done.SendFullState),
    )


def _metadata(
    effect: done.SendUpdateMetadata | done.SendFullState, controller_id: BrokerId
) -> MetadataUpdate:
    return MetadataUpdate(
        controller_epoch=effect.controller_epoch,
        broker_epoch=effect.broker_epoch,
        controller_id=controller_id,
        live_brokers=effect.brokers,
        partitions=effect.metadata if isinstance(effect, done.SendFullState) else effect.partitions,
        removed=effect.removed if isinstance(effect, done.SendUpdateMetadata) else (),
        full=isinstance(effect, done.SendFullState),
    )

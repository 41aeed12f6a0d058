"""The controller's end of a session: messages of brokers as events, effects as messages.

Used by the shells of both worlds: `rpc.session_server` and the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    StopReplicaReceived,
)
from strandline.model import BrokerId

from .messages import (
    BrokerMessage,
    CommandResponse,
    ControllerMessage,
    Heartbeat,
    Hello,
    IsrProposal,
    MetadataUpdate,
    RestoreReplica,
    SessionRefused,
    ShutdownRequest,
    ShutdownResponse,
)


def events_of(
    message: BrokerMessage, *, session_id: int, broker_id: BrokerId
) -> Iterator[ControllerEvent]:
    """Yield what a broker's message means to the controller."""
    match message:
        case Heartbeat(broker_epoch=broker_epoch, hosted=hosted, is_full=is_full):
            yield HeartbeatReceived(
                session_id=session_id,
                broker_id=broker_id,
                broker_epoch=broker_epoch,
                is_full=is_full,
            )
            if hosted is not None:
                yield HostedReported(
                    session_id=session_id,
                    broker_id=broker_id,
                    hosted=hosted,
                    trashed=message.trashed,
                )
        case IsrProposal(proposal=proposal):
            yield IsrChangeRequested(
                session_id=session_id,
                request_id=proposal.request_id,
                broker_id=broker_id,
                broker_epoch=message.broker_epoch,
                tp=proposal.tp,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                isr=proposal.isr,
            )
        case CommandResponse(response=response):
            yield BrokerResponseReceived(
                session_id=session_id,
                request_id=response.request_id,
                broker_id=broker_id,
                error=response.error,
                controller_epoch=message.highest_controller_epoch,
                partitions=response.partitions,
            )
        case Hello():
            yield ControllerEpochSeen(controller_epoch=message.highest_controller_epoch)
            yield SessionOpened(
                session_id=session_id,
                broker_id=message.broker_id,
                broker_epoch=message.broker_epoch,
                clean_since_epoch=message.clean_since_epoch,
                incarnation=message.incarnation,
                hosted=message.hosted,
                trashed=message.trashed,
            )
        case ShutdownRequest():
            yield ShutdownRequested(
                session_id=session_id,
                request_id=message.request_id,
                broker_id=broker_id,
                broker_epoch=message.broker_epoch,
            )
        case _:
            assert_never(message)


def messages_of(
    effect: done.SessionEffect, *, controller_id: BrokerId
) -> Iterator[ControllerMessage]:
    """Yield what a controller's effect says to the broker; metadata goes before a full state."""
    match effect:
        case done.SendLeaderAndIsr():
            yield _leader_and_isr(effect)
        case done.SendUpdateMetadata():
            yield _metadata(effect, controller_id)
        case done.SendFullState():
            yield _metadata(effect, controller_id)
            yield _leader_and_isr(effect)
        case done.SendStopReplica():
            yield StopReplicaReceived(
                request_id=effect.request_id,
                controller_epoch=effect.controller_epoch,
                broker_epoch=effect.broker_epoch,
                partitions=effect.partitions,
                removed_at=effect.removed_at,
            )
        case done.SendRestoreReplica():
            yield RestoreReplica(
                request_id=effect.request_id,
                controller_epoch=effect.controller_epoch,
                broker_epoch=effect.broker_epoch,
                partitions=effect.partitions,
            )
        case done.ReplyAlterPartition():
            yield AlterPartitionResponseReceived(
                request_id=effect.request_id,
                tp=effect.tp,
                error=effect.error,
                stored=effect.stored,
            )
        case done.ReplyControlledShutdown():
            yield ShutdownResponse(
                request_id=effect.request_id, error=effect.error, remaining=effect.remaining
            )
        case done.CloseSession():
            yield SessionRefused(error=effect.error, controller_epoch=effect.controller_epoch)
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

"""Probes ask a broker who it is; their outcomes are the evidence that it is dead.

A refused connection and another incarnation are evidence; silence is not, because a stopped
process still accepts TCP. Each probe uses a channel of its own, so that gRPC's reconnect
back-off never answers in a peer's place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from strandline.controller.effects import Introduction
from strandline.controller.events import ProbeVerdict
from strandline.log_fields import fields
from strandline.model import BrokerId, ControllerEpoch, Registration
from strandline_api.v1 import controller_pb2 as pb

from .convert import INTRODUCTION
from .streams import OWN_CONNECTION

_log = logging.getLogger(__name__)

SERVICE = "strandline.v1.Peer"


def peer_service(
    own: Registration,
    highest_controller_epoch: Callable[[], ControllerEpoch],
    on_introduction: Callable[[Introduction], None],
) -> grpc.GenericRpcHandler:
    """Return the gRPC service that answers probes with the identity of this process.

    on_introduction gets the controller that a probe of this very process introduces: a probe of
    another process, which had this address before, may come from another cluster.
    """

    async def probe(
        request: bytes, context: grpc.aio.ServicerContext[bytes, pb.ProbeAnswer]
    ) -> pb.ProbeAnswer:
        try:
            # Every caller gets the same response, whichever process it means.
            found = pb.ProbeRequest.FromString(request)
        except DecodeError as error:
            _log.warning("probe refused", extra=fields(peer=context.peer(), cause=str(error)))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a probe")
        is_meant = (found.broker_id, found.incarnation) == (own.broker_id, own.incarnation)
        if is_meant and found.HasField("introduction"):
            on_introduction(INTRODUCTION.from_wire(found.introduction))
        return pb.ProbeAnswer(
            broker_id=own.broker_id,
            broker_epoch=own.broker_epoch,
            incarnation=own.incarnation,
            highest_controller_epoch=highest_controller_epoch(),
        )

    handler = grpc.unary_unary_rpc_method_handler(
        probe, response_serializer=pb.ProbeAnswer.SerializeToString
    )
    return grpc.method_handlers_generic_handler(SERVICE, {"Probe": handler})


async def probe(
    address: str,
    *,
    broker_id: BrokerId,
    incarnation: str,
    deadline_ms: int,
    introduction: Introduction | None = None,
) -> ProbeVerdict:
    """Return the verdict of one probe; never raise, never take longer than the deadline."""
    async with grpc.aio.insecure_channel(address, options=(OWN_CONNECTION,)) as channel:
        call = channel.unary_unary(
            f"/{SERVICE}/Probe",
            request_serializer=pb.ProbeRequest.SerializeToString,
            response_deserializer=pb.ProbeAnswer.FromString,
        )
        request = pb.ProbeRequest(broker_id=broker_id, incarnation=incarnation)
        if introduction is not None:
            request.introduction.CopyFrom(INTRODUCTION.to_wire(introduction))
        try:
            response = await call(request, timeout=deadline_ms / 1000)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE and "refused" in (error.details() or ""):
                return ProbeVerdict.REFUSED
            return ProbeVerdict.NO_ANSWER
    if response.broker_id == broker_id and response.incarnation == incarnation:
        return ProbeVerdict.ANSWERED
    return ProbeVerdict.OTHER_INCARNATION

"""Messages of a session that are too large for one gRPC message travel in parts.

Both ends use it, in both directions: hellos and full states grow with the partitions of the
cluster. A part is no message: the receiving end hands on nothing before it has the last one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from google.protobuf.message import DecodeError

from strandline.config.network import GrpcConfig
from strandline.log_fields import fields
from strandline_api.v1 import controller_pb2 as pb

_log = logging.getLogger(__name__)

Outer = TypeVar("Outer", pb.BrokerMessage, pb.ControllerMessage)


def parts_of(message: Outer, settings: GrpcConfig) -> Iterator[Outer] | None:
    """Yield a small message as it is, a larger one in parts; None if it is beyond the bound."""
    size, kind = message.ByteSize(), type(message)
    if size > settings.session_message_max_bytes:
        accepted = settings.session_message_max_bytes
        name = message.WhichOneof("message")
        _log.error(
            "session message too large", extra=fields(kind=name, bytes=size, accepted=accepted)
        )
        return None
    if size <= settings.frame_max_bytes:
        return iter((message,))
    return _cut(message.SerializeToString(), kind, settings.frame_max_bytes)


def _cut(whole: bytes, kind: Any, part_bytes: int) -> Iterator[Any]:
    for start in range(0, len(whole), part_bytes):
        end = start + part_bytes
        yield kind(part=pb.Part(content=whole[start:end], is_last=end >= len(whole)))


class PartJoiner(Generic[Outer]):
    """Joins the parts that arrive on one stream; changed by its own methods alone."""

    def __init__(self, kind: type[Outer], settings: GrpcConfig) -> None:
        self._kind: type[Outer] = kind
        self._message_max_bytes = settings.session_message_max_bytes
        self._parts: list[bytes] = []
        self._bytes = 0

    def take(self, received: Outer) -> Outer | None:
        """Return a whole message, None while parts of it are to come.

        Raises:  ValueError for parts that are too many, interrupted, or no message together
        """
        if not received.HasField("part"):
            if self._parts:
                raise ValueError(f"{received.WhichOneof('message')} between two parts")
            return received
        part = received.part
        self._bytes += len(part.content)
        if self._bytes > self._message_max_bytes:
            raise ValueError(
                f"parts above grpc.session.message.max.bytes={self._message_max_bytes}"
            )
        self._parts.append(part.content)
        if not part.is_last:
            return None
        whole, self._parts, self._bytes = b"".join(self._parts), [], 0
        try:
            message: Outer = self._kind.FromString(whole)
        except DecodeError as error:
            raise ValueError(f"parts that are no message: {error}") from error
        if message.HasField("part"):
            raise ValueError("a part within parts")
        return message

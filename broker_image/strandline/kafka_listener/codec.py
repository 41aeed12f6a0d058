"""Requests from bytes, responses to bytes, per API and version.

Called by `connection`. A codec is compiled when its version is first used, and kept; the table
in `schemas` bounds their number.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

from strandline.broker_interface import Piece

from .decoder_compiler import MALFORMED_CAUSES, Decode, compile_decoder
from .encoder_compiler import Encode, compile_encoder
from .schemas import API_VERSIONS, APIS, ApiSchema
from .turns import Turns
from .wire import MalformedRequest, Message, read_varint, skip_tagged_fields

FIXED_HEADER_BYTES = 8
"""API key, API version, correlation id: the part of a header that never changes."""

_FIXED_HEADER = struct.Struct(">hhi")
_SHORT = struct.Struct(">h")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """The part of a request header that every version has."""

    api_key: int
    version: int
    correlation_id: int


@cache
def request_decoder(api_key: int, version: int) -> Decode:
    """Return the compiled decoder of a request."""
    api = APIS[api_key]
    return compile_decoder(api, api.request, version)


@cache
def response_encoder(api_key: int, version: int) -> Encode:
    """Return the compiled encoder of a response."""
    api = APIS[api_key]
    return compile_encoder(api, api.response, version)


def read_header(frame: memoryview) -> RequestHeader:
    """Read the fixed part of a header.

    Shape:  frame begins after the length and has at least FIXED_HEADER_BYTES bytes
    """
    api_key, version, correlation_id = _FIXED_HEADER.unpack_from(frame)
    return RequestHeader(api_key=api_key, version=version, correlation_id=correlation_id)


def decode_request(
    api: ApiSchema, version: int, frame: memoryview, *, elements_max: int
) -> Turns[tuple[str, Message]]:
    """Read the rest of the header and the body of a request.

    Bytes after the end are ignored, as in Kafka: librdkafka sends three of them when it asks
    for the metadata of all topics in a flexible version.

    Returns: the client id ("" if it has none) and the message
    Raises:  MalformedRequest if the frame does not begin with such a request
    """
    try:
        client_id, position = _read_client_id(frame)
        if api.is_flexible(version):
            count, position = read_varint(frame, position)
            if count > elements_max:
                raise MalformedRequest("too many tagged fields")
            position = yield from skip_tagged_fields(frame, position, count)
        decode = request_decoder(api.key, version)
        message, _ = yield from decode(frame, position, elements_max)
    except MALFORMED_CAUSES as error:
        raise MalformedRequest(str(error)) from error
    return client_id, message


def client_id_or_empty(frame: memoryview) -> str:
    """Return the client id of a request that cannot be decoded otherwise, "" if there is none."""
    try:
        return _read_client_id(frame)[0]
    except (MalformedRequest, *MALFORMED_CAUSES):
        return ""


def _read_client_id(frame: memoryview) -> tuple[str, int]:
    """Read the nullable string behind the fixed header; it is never in compact form."""
    (length,) = _SHORT.unpack_from(frame, FIXED_HEADER_BYTES)
    start = FIXED_HEADER_BYTES + _SHORT.size
    if length < 0:
        return "", start
    if length > len(frame) - start:
        raise MalformedRequest("client id beyond the frame")
    return str(frame[start : start + length], "utf-8"), start + length


def encode_response(
    api: ApiSchema, version: int, *, correlation_id: int, message: Message
) -> Turns[list[Piece]]:
    """Return a whole response frame in pieces, its length included.

    ApiVersions has the old header in every version, so that a client that asked in a version
    we lack can still read the response (KIP-511).
    """
    first = bytearray(4)
    first += correlation_id.to_bytes(4, "big", signed=True)
    if api.is_flexible(version) and api.key != API_VERSIONS:
        first.append(0)
    buffers: list[Piece] = [first]
    yield from response_encoder(api.key, version)(message, buffers, first)
    size = sum(len(buffer) for buffer in buffers) - 4
    first[0:4] = size.to_bytes(4, "big")
    return buffers

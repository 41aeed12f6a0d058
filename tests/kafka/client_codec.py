"""The codec's directions that only a client needs: it encodes requests and decodes responses."""

from __future__ import annotations

from functools import cache

from strandline.kafka_listener.decoder_compiler import Decode, compile_decoder
from strandline.kafka_listener.encoder_compiler import Encode, compile_encoder
from strandline.kafka_listener.schemas import APIS


@cache
def request_encoder(api_key: int, version: int) -> Encode:
    """Return the compiled encoder of a request."""
    api = APIS[api_key]
    return compile_encoder(api, api.request, version)


@cache
def response_decoder(api_key: int, version: int) -> Decode:
    """Return the compiled decoder of a response."""
    api = APIS[api_key]
    return compile_decoder(api, api.response, version)

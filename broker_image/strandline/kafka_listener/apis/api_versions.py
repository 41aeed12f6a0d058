"""ApiVersions: which APIs are served, in which versions.

Registered in `apis`; `connection` responds to an unknown version of it with
`unsupported_version`.
"""

from __future__ import annotations

from strandline.errors import ErrorCode
from strandline.kafka_listener.response import DeferredResponse, RequestContext, Response
from strandline.kafka_listener.schemas import API_VERSIONS, APIS, ApiSchema
from strandline.kafka_listener.turns import Turns
from strandline.kafka_listener.wire import Message


def _range(api: ApiSchema) -> Message:
    return {"api_key": api.key, "min_version": api.advertised_min, "max_version": api.served_max}


def api_versions(
    _context: RequestContext, _version: int, _request: Message
) -> Turns[Response | DeferredResponse]:
    """Return every API with the range advertised for it."""
    ranges = []
    for api in APIS.values():
        ranges.append(_range(api))
        yield
    return Response(body={"error_code": ErrorCode.NONE, "api_keys": ranges})


def unsupported_version() -> Response:
    """Respond to an unknown version of ApiVersions: our range for it, in version 0 form."""
    error = ErrorCode.UNSUPPORTED_VERSION
    body = {"error_code": error, "api_keys": [_range(APIS[API_VERSIONS])]}
    return Response(body=body, error=error)

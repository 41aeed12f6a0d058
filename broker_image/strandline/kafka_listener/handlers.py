"""One function per API: a decoded request in, a reply or a promise of one out.

Called by `connection`; the functions live in `cluster_requests`, `data_requests` and
`offset_requests`. None of them blocks, and what must happen in the order of requests (an
append above all) has happened when the function returns.
"""

from __future__ import annotations

from collections.abc import Callable

from . import cluster_requests, data_requests, offset_requests, schemas
from .reply import Later, Reply, RequestContext
from .wire import Message

Handler = Callable[[RequestContext, int, Message], Reply | Later]
"""(context, version, request) -> answer."""

HANDLERS: dict[int, Handler] = {
    schemas.PRODUCE: data_requests.produce,
    schemas.FETCH: data_requests.fetch,
    schemas.LIST_OFFSETS: offset_requests.list_offsets,
    schemas.METADATA: cluster_requests.metadata,
    schemas.FIND_COORDINATOR: cluster_requests.find_coordinator,
    schemas.API_VERSIONS: cluster_requests.api_versions,
    schemas.INIT_PRODUCER_ID: cluster_requests.init_producer_id,
    schemas.OFFSET_FOR_LEADER_EPOCH: offset_requests.offset_for_leader_epoch,
}
"""Every API of `schemas.APIS` has its function here."""

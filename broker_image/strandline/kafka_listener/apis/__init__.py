"""One function per API: a decoded request in, a response or a deferred response out.

Called by `connection`; one module has one group of APIs. None of the functions blocks: each works
in turns. All that must happen in the order of requests, such as an append, has happened when its
turns are over.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.kafka_listener import response, schemas, turns, wire

from . import api_versions, coordinators, delete_records, fetch, metadata, offsets, produce

Handler = Callable[
    [response.RequestContext, int, wire.Message],
    turns.Turns[response.Response | response.DeferredResponse],
]
"""(context, version, request) -> response, in turns."""

HANDLERS: dict[int, Handler] = {
    schemas.PRODUCE: produce.produce,
    schemas.FETCH: fetch.fetch,
    schemas.LIST_OFFSETS: offsets.list_offsets,
    schemas.METADATA: metadata.metadata,
    schemas.FIND_COORDINATOR: coordinators.find_coordinator,
    schemas.API_VERSIONS: api_versions.api_versions,
    schemas.DELETE_RECORDS: delete_records.delete_records,
    schemas.INIT_PRODUCER_ID: coordinators.init_producer_id,
    schemas.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
}
"""Every API that is served has its function here."""

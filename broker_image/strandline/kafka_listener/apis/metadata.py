"""Metadata: brokers, controller, topics and their partitions.

Registered in `apis`. Responds from what the broker knows, at once unless a leader may have died.
"""

from __future__ import annotations

import re

from strandline.errors import ErrorCode
from strandline.kafka_listener.addresses import NO_TOPIC_ID, MetadataView
from strandline.kafka_listener.response import (
    DeferredResponse,
    RequestContext,
    Response,
    first_error,
)
from strandline.kafka_listener.turns import Turns
from strandline.kafka_listener.wire import Message

TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Legal topic names; `.` and `..` are excluded besides. Source: Kafka Topic.validate."""

FIRST_VERSION_WITH_NULL_NAME = 12


def metadata(
    context: RequestContext, version: int, request: Message
) -> Turns[Response | DeferredResponse]:
    """Return brokers, controller and the requested topics, leaders that may have died a bit later.

    Null topics mean all topics; an empty list means all in version 0 and none since. A request
    never creates a topic.
    """
    requested = request["topics"]
    if requested is None or (version == 0 and not requested):
        requested = None
    names = None if requested is None else [each["name"] for each in requested]
    if names is not None and None in names:
        names = None  # some are asked for by id
    settled = context.broker.leaders_settled(names)
    if settled is None:
        return (yield from _response(context, version, requested))
    return DeferredResponse(
        result=settled,
        finish=lambda _: _response(context, version, requested),
        may_cancel=True,
    )


def _response(
    context: RequestContext, version: int, requested: list[Message] | None
) -> Turns[Response]:
    """Return the response as the metadata is now; requested None means all topics."""
    view = context.metadata()
    if requested is None:
        topics, needless_count = view.topics, 0
    else:
        topics = yield from _requested_topics(requested, view, version)
        needless_count = len(requested) - len(topics)
    body = {
        "brokers": view.brokers,
        "cluster_id": view.snapshot.cluster_id,
        "controller_id": view.snapshot.controller,
        "topics": topics,
    }
    error = first_error(topic["error_code"] for topic in topics)
    return Response(body=body, error=error, needless_count=needless_count)


def _requested_topics(
    requested: list[Message], view: MetadataView, version: int
) -> Turns[list[Message]]:
    """Return each topic once, by name or, without a name, by id."""
    topics: dict[tuple[str | None, bytes], Message] = {}
    for topic in requested:
        key = (topic["name"], topic.get("topic_id", NO_TOPIC_ID))
        if key not in topics:
            topics[key] = _requested_topic(*key, view, version)
        yield
    return list(topics.values())


def _requested_topic(
    name: str | None, topic_id: bytes, view: MetadataView, version: int
) -> Message:
    found = view.topics_by_id.get(topic_id) if name is None else view.topics_by_name.get(name)
    if found is not None:
        return found
    if name is None:
        unnamed = None if version >= FIRST_VERSION_WITH_NULL_NAME else ""
        return _absent_topic(ErrorCode.UNKNOWN_TOPIC_ID, unnamed, topic_id)
    if TOPIC_NAME.fullmatch(name) and name not in {".", ".."}:
        return _absent_topic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    return _absent_topic(ErrorCode.INVALID_TOPIC_EXCEPTION, name)


def _absent_topic(error: ErrorCode, name: str | None, topic_id: bytes = NO_TOPIC_ID) -> Message:
    return {"error_code": error, "name": name, "topic_id": topic_id, "partitions": []}

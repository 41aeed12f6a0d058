"""The context that a request handler gets, and the responses that it returns.

Shared by `apis` and `connection`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from strandline.broker_interface import Broker
from strandline.errors import ErrorCode
from strandline.model import LeaderEpoch

from .addresses import MetadataView, MetadataViews
from .budget import Budget
from .listener_settings import ListenerSettings
from .response_memory import ResponseMemory
from .turns import Turns
from .wire import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The listener of a request, and the broker that serves it."""

    broker: Broker
    listener_name: str
    settings: ListenerSettings
    response_memory: Budget
    """Bytes of the large responses that clients have not taken yet."""
    views: MetadataViews = field(default_factory=MetadataViews)

    def metadata(self) -> MetadataView:
        """Return the cluster as clients of this listener see it now."""
        return self.views.of(self.broker.metadata(self.listener_name))

    def new_response_memory(self) -> ResponseMemory:
        """Return the memory of a response, which holds nothing yet."""
        return ResponseMemory(
            self.response_memory, small_max_bytes=self.settings.write_buffer_high_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response: its body, the first error in it, and whether it closes the connection.

    body None means that the client expects no response (produce with acks=0). needless_count is the
    number of elements of the request that had no error and no use.
    """

    body: Message | None
    error: ErrorCode = ErrorCode.NONE
    closes_connection: bool = False
    needless_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredResponse:
    """A response that waits for the broker; `finish` makes it from the result.

    may_cancel says whether a disconnect of the client cancels `result`: it cancels a read, but
    no append. acks_count is the number of partitions whose acknowledgement `result` awaits.
    memory is what `result` asks for before it reads.
    """

    result: Awaitable[Any]
    finish: Callable[[Any], Turns[Response]]
    may_cancel: bool
    acks_count: int = 0
    memory: ResponseMemory | None = None


def per_partition(
    request: Message,
    entry_for: Callable[[str, Message], Message],
    *,
    error: ErrorCode = ErrorCode.NONE,
) -> Turns[Response]:
    """Return a response with one entry for each partition of the request, grouped as requested.

    entry_for gets a topic's name and one of its partitions; error is that of the whole request.
    """
    topics = []
    first = error
    for topic in request["topics"]:
        entries = []
        for each in topic["partitions"]:
            entry = entry_for(topic["name"], each)
            entries.append(entry)
            if first is ErrorCode.NONE:
                first = entry["error_code"]
            yield
        topics.append({"name": topic["name"], "partitions": entries})
        yield
    return Response(body={"error_code": error, "topics": topics}, error=first)


def names_a_partition_twice(request: Message) -> Turns[bool]:
    """Tell whether a request names a partition more than once.

    Every API refuses such a request whole, with INVALID_REQUEST. Kafka refuses it in ListOffsets
    and keeps the last entry elsewhere; no client sends one.
    """
    named = set()
    for topic in request["topics"]:
        for each in topic["partitions"]:
            partition = (topic["name"], each["index"])
            if partition in named:
                return True
            named.add(partition)
            yield
        yield
    return False


def refused_whole(request: Message, error: ErrorCode) -> Turns[Response]:
    """Return a response that gives every partition of a request the same error, in `error_code`."""

    def entry_for(_topic_name: str, partition: Message) -> Message:
        return {"index": partition["index"], "error_code": error}

    return per_partition(request, entry_for)


def first_error(codes: Iterable[ErrorCode]) -> ErrorCode:
    """Return the first code that is an error, NONE if there is none."""
    return next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)


def epoch_or_none(value: int) -> LeaderEpoch | None:
    """Return the leader epoch a client sent, None for -1."""
    return LeaderEpoch(value) if value >= 0 else None


def bounded(value: int, most: int) -> int:
    """Return a client's value, limited to 0 and `most`."""
    return max(0, min(value, most))

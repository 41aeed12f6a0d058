"""ListOffsets and OffsetForLeaderEpoch.

Registered in `handlers`. Both answer at once; everything they tell is bounded by the high
watermark or by the epochs that the broker knows.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.broker_interface import EARLIEST, LATEST, ListedOffset
from strandline.errors import ErrorCode
from strandline.model import LeaderEpoch

from .reply import Reply, RequestContext, epoch_or_none, first_error
from .wire import Message


def known_epoch(value: int) -> LeaderEpoch | None:
    """Return the leader epoch a client sent, None if it sent -1."""
    epoch = epoch_or_none(value)
    return None if epoch is None else LeaderEpoch(epoch)


def _per_partition(request: Message, answer: Callable[[str, Message], Message]) -> Message:
    """Return a body that holds one answer for each partition of the request, grouped as asked."""
    topics = [
        {
            "name": topic["name"],
            "partitions": [answer(topic["name"], partition) for partition in topic["partitions"]],
        }
        for topic in request["topics"]
    ]
    return {"topics": topics}


def list_offsets(context: RequestContext, _version: int, request: Message) -> Reply:
    """Answer the earliest offset or the high watermark of each partition.

    Search by time would have to open batches; it is refused.
    """
    errors: list[ErrorCode] = []

    def answer(topic_name: str, partition: Message) -> Message:
        listed = _listed(context, topic_name, partition)
        errors.append(listed.error)
        return {
            "index": partition["index"],
            "error_code": listed.error,
            "offset": listed.offset,
            "leader_epoch": listed.leader_epoch,
        }

    return Reply(body=_per_partition(request, answer), error=first_error(errors))


def _listed(context: RequestContext, topic_name: str, partition: Message) -> ListedOffset:
    timestamp = partition["timestamp"]
    if timestamp not in {EARLIEST, LATEST}:
        return ListedOffset(error=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    return context.broker.list_offset(
        topic_name, partition["index"], timestamp, known_epoch(partition["current_leader_epoch"])
    )


def offset_for_leader_epoch(context: RequestContext, _version: int, request: Message) -> Reply:
    """Answer where the epoch asked for ends in the leader's log. Source: KIP-320."""
    errors: list[ErrorCode] = []

    def answer(topic_name: str, partition: Message) -> Message:
        error, end = context.broker.end_offset_for_epoch(
            topic_name,
            partition["index"],
            LeaderEpoch(partition["leader_epoch"]),
            known_epoch(partition["current_leader_epoch"]),
        )
        errors.append(error)
        return {
            "error_code": error,
            "index": partition["index"],
            "leader_epoch": end.leader_epoch,
            "end_offset": end.end_offset,
        }

    return Reply(body=_per_partition(request, answer), error=first_error(errors))

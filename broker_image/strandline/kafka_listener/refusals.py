"""Which answers tell of bad input, and what the log says of them.

Called by `connection` for each answer that carries an error. A refusal that every correct
client meets in its daily life (no leader yet, a wait that was too short) is no bad input and
has its place in the metrics alone. At most one refusal is told for a request, however many
partitions it named: the first, and how many there are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from strandline.errors import ErrorCode

from .reply import Reply
from .wire import Message

TOPIC_SHOWN_CHARACTERS: Final = 249
"""A legal name is shown whole; of another one no more than this goes into the log."""
NO_PARTITION: Final = -1

_LEVELS: Final = {
    # No correct client sends this: someone should look.
    ErrorCode.CORRUPT_MESSAGE: logging.WARNING,
    ErrorCode.MESSAGE_TOO_LARGE: logging.WARNING,
    ErrorCode.RECORD_LIST_TOO_LARGE: logging.WARNING,
    ErrorCode.INVALID_RECORD: logging.WARNING,
    ErrorCode.INVALID_REQUEST: logging.WARNING,
    ErrorCode.INVALID_REQUIRED_ACKS: logging.WARNING,
    ErrorCode.INVALID_TOPIC_EXCEPTION: logging.WARNING,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: logging.WARNING,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: logging.WARNING,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: logging.WARNING,
    ErrorCode.INVALID_PRODUCER_EPOCH: logging.WARNING,
    # A correct client may be behind the times, or ahead of them.
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: logging.INFO,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: logging.INFO,
    ErrorCode.UNKNOWN_TOPIC_ID: logging.INFO,
    ErrorCode.OFFSET_OUT_OF_RANGE: logging.INFO,
    ErrorCode.FENCED_LEADER_EPOCH: logging.INFO,
    ErrorCode.UNKNOWN_LEADER_EPOCH: logging.INFO,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: logging.INFO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The first refusal of an answer; without a topic it is of the whole request."""

    error: ErrorCode
    topic: str = ""
    partition: int = NO_PARTITION
    cause: str = ""
    count: int = 1

    @property
    def level(self) -> int:
        """The level of its log line."""
        return _LEVELS[self.error]

    def fields(self) -> dict[str, object]:
        """Return the values of its log line."""
        return {
            "error": self.error.name,
            "topic": self.topic[:TOPIC_SHOWN_CHARACTERS],
            "partition": self.partition,
            "cause": self.cause,
            "refused_count": self.count,
        }


def refusal_in(reply: Reply) -> Refusal | None:
    """Return what the log shall say of an answer, None for nothing."""
    if reply.error is ErrorCode.NONE:
        return None
    told = [refusal for refusal in _refusals(reply) if refusal.error in _LEVELS]
    if not told:
        return None
    first = told[0]
    return Refusal(
        error=first.error,
        topic=first.topic,
        partition=first.partition,
        cause=first.cause,
        count=len(told),
    )


def _refusals(reply: Reply) -> Iterator[Refusal]:
    """Yield every error of an answer, with the topic and the partition it stands at."""
    topics: list[Message] = reply.body.get("topics", []) if reply.body else []
    if not topics:
        yield Refusal(error=reply.error)
    for topic in topics:
        name = topic["name"] or ""
        if "error_code" in topic:
            yield Refusal(error=topic["error_code"], topic=name)
            continue
        for partition in topic["partitions"]:
            yield Refusal(
                error=partition["error_code"],
                topic=name,
                partition=partition["index"],
                cause=partition.get("error_message") or "",
            )

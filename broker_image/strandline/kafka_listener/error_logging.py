"""Chooses which errors of a response are logged, and their level and fields.

Called by `connection` for each response. An error that every correct client meets in normal
operation (no leader yet, a wait that was too short) is not bad input: only the metrics count
it. A request gets at most one log line, however many partitions it named: the line carries
the first logged error and the number of logged errors.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strandline.errors import ErrorCode

from .response import Response
from .turns import Turns
from .wire import Message

TOPIC_LOGGED_MAX_CHARACTERS: Final = 249
"""The log shows a legal name whole and cuts a longer one."""
NO_PARTITION: Final = -1

_LEVELS: Final = {
    # No correct client causes these: an operator should look.
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
    # A correct client may cause these with metadata older or newer than ours.
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: logging.INFO,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: logging.INFO,
    ErrorCode.UNKNOWN_TOPIC_ID: logging.INFO,
    ErrorCode.OFFSET_OUT_OF_RANGE: logging.INFO,
    ErrorCode.FENCED_LEADER_EPOCH: logging.INFO,
    ErrorCode.UNKNOWN_LEADER_EPOCH: logging.INFO,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: logging.INFO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedError:
    """The first logged error of a response; without a topic it concerns the whole request."""

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
            "topic": self.topic[:TOPIC_LOGGED_MAX_CHARACTERS],
            "partition": self.partition,
            "cause": self.cause,
            "refused_count": self.count,
        }


def error_to_log(response: Response) -> Turns[LoggedError | None]:
    """Return the error of a response that must be logged, None if there is none."""
    if response.error is ErrorCode.NONE:
        return None
    topics: list[Message] = response.body.get("topics", []) if response.body else []
    if not topics:
        return LoggedError(error=response.error) if response.error in _LEVELS else None
    logged = []
    for topic in topics:
        for entry in (topic,) if "error_code" in topic else topic["partitions"]:
            if entry["error_code"] in _LEVELS:
                logged.append((topic, entry))
            yield
    return _first_of(logged) if logged else None


def _first_of(logged: Sequence[tuple[Message, Message]]) -> LoggedError:
    """Return the first of the entries with an error, each beside its topic."""
    topic, entry = logged[0]
    return LoggedError(
        error=entry["error_code"],
        topic=topic["name"] or "",
        partition=NO_PARTITION if entry is topic else entry["index"],
        cause="" if entry is topic else entry.get("error_message") or "",
        count=len(logged),
    )

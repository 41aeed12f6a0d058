"""What a request handler is given and what it returns.

Shared by `handlers` and `connection`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from strandline.broker_interface import Broker
from strandline.errors import ErrorCode

from .settings import ListenerSettings
from .wire import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Where a request came in and whom it is for."""

    broker: Broker
    listener_name: str
    settings: ListenerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer: its body, the first error in it, and whether the connection ends with it.

    body None means that the client expects no answer (produce with acks=0).
    """

    body: Message | None
    error: ErrorCode = ErrorCode.NONE
    closes_connection: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """An answer that depends on what the broker has begun; `finish` makes it of the result.

    may_cancel tells whether `result` may be cancelled when the client has gone: reading may,
    an append that is under way may not.
    """

    result: Awaitable[Any]
    finish: Callable[[Any], Reply]
    may_cancel: bool


def first_error(codes: Iterable[ErrorCode]) -> ErrorCode:
    """Return the first code that is an error, NONE if there is none."""
    return next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)


def epoch_or_none(value: int) -> int | None:
    """Return an epoch as clients send it, None for their -1."""
    return value if value >= 0 else None

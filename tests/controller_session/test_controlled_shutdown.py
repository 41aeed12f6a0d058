"""How long a stopping broker waits for the controller to move its leaders."""

from __future__ import annotations

import pytest

from strandline.controller_session.controlled_shutdown import ControlledShutdown
from strandline.controller_session.effects import (
    ShutdownEnded,
    ShutdownOutcome,
    ShutdownProgressed,
)
from strandline.controller_session.messages import ShutdownRequest, ShutdownResponse
from strandline.errors import ErrorCode

from .setups import EPOCH, TIMING

ALL_MOVED = ShutdownEnded(outcome=ShutdownOutcome.ALL_MOVED, remaining=0)
UNANSWERED = ShutdownEnded(outcome=ShutdownOutcome.UNANSWERED, remaining=0)


def requested() -> ControlledShutdown:
    """Return a shutdown whose first request was sent at 0."""
    shutdown = ControlledShutdown(EPOCH, TIMING, now_ms=0)
    assert shutdown.on_time(has_session=True, leads=True, now_ms=0) == request(1)
    return shutdown


def request(request_id: int) -> ShutdownRequest:
    return ShutdownRequest(request_id=request_id, broker_epoch=EPOCH)


def response(
    remaining: int, request_id: int = 1, error: ErrorCode = ErrorCode.NONE
) -> ShutdownResponse:
    return ShutdownResponse(request_id=request_id, error=error, remaining=remaining)


@pytest.mark.parametrize(
    ("received", "leads", "judged"),
    [
        pytest.param(response(0), False, ALL_MOVED, id="all moved"),
        pytest.param(response(0), True, ShutdownProgressed(remaining=0), id="not yet applied"),
        pytest.param(response(2), True, ShutdownProgressed(remaining=2), id="some moved"),
        pytest.param(response(0, request_id=7), True, None, id="of another request"),
        pytest.param(response(0, error=ErrorCode.NOT_CONTROLLER), True, None, id="error, leads"),
        pytest.param(
            response(0, error=ErrorCode.NOT_CONTROLLER), False, UNANSWERED, id="error, leads none"
        ),
    ],
)
def test_response_is_judged(
    received: ShutdownResponse, leads: bool, judged: ShutdownEnded | ShutdownProgressed | None
) -> None:
    assert requested().on_response(received, leads=leads, now_ms=10) == judged


def test_second_response_to_one_request_changes_nothing() -> None:
    shutdown = requested()
    shutdown.on_response(response(2), leads=True, now_ms=10)
    assert shutdown.on_response(response(0), leads=True, now_ms=20) is None


@pytest.mark.parametrize(
    ("has_session", "leads", "judged"),
    [
        (True, True, None),
        (True, False, UNANSWERED),
        (False, True, None),
        (False, False, UNANSWERED),
    ],
)
def test_request_without_a_response_is_given_up(
    has_session: bool, leads: bool, judged: ShutdownEnded | None
) -> None:
    shutdown = requested()
    limit_ms = TIMING.shutdown_response_max_ms
    assert shutdown.on_time(has_session=has_session, leads=leads, now_ms=limit_ms - 1) is None
    assert shutdown.due_ms == limit_ms
    assert shutdown.on_time(has_session=has_session, leads=leads, now_ms=limit_ms) == judged
    assert shutdown.due_ms == limit_ms + TIMING.shutdown_retry_ms
    assert shutdown.on_response(response(0), leads=leads, now_ms=limit_ms + 1) is None


def test_without_a_session_a_leader_waits_and_a_follower_does_not() -> None:
    shutdown = ControlledShutdown(EPOCH, TIMING, now_ms=0)
    assert shutdown.on_time(has_session=False, leads=True, now_ms=0) is None
    assert shutdown.on_time(has_session=True, leads=True, now_ms=100) == request(1)
    shutdown = ControlledShutdown(EPOCH, TIMING, now_ms=0)
    assert shutdown.on_time(has_session=False, leads=False, now_ms=0) == UNANSWERED


def test_wait_ends_when_no_leader_moves_and_each_moved_leader_prolongs_it() -> None:
    shutdown = requested()
    judged = []
    for number, (remaining, now_ms) in enumerate(
        [(5, 100), (5, 1_900), (4, 2_050), (4, 4_049), (4, 4_150)], start=1
    ):
        received = response(remaining, request_id=number)
        judged.append(shutdown.on_response(received, leads=True, now_ms=now_ms))
        shutdown.on_time(has_session=True, leads=True, now_ms=shutdown.due_ms)
    assert judged == [
        ShutdownProgressed(remaining=5),
        None,
        ShutdownProgressed(remaining=4),
        None,
        ShutdownEnded(outcome=ShutdownOutcome.STALLED, remaining=4),
    ]

"""How long a stopping broker waits until the controller has moved its leaders.

One object per stop, used by `ControllerSession` alone. To lead means here: a partition that has
other replicas. A broker that leads none does not wait for a controller; one that leads asks again
until all leaders have moved and it follows them itself, or none moves.

Source: Kafka 3.9 KafkaServer.controlledShutdown, without its fixed number of retries
"""

from __future__ import annotations

from strandline.errors import ErrorCode
from strandline.model import BrokerEpoch

from .effects import ShutdownEnded, ShutdownOutcome, ShutdownProgressed
from .messages import ShutdownRequest, ShutdownResponse
from .timing import ControllerSessionTiming


class ControlledShutdown:
    """The requests of one stop; changed by its own methods alone.

    `on_time` acts at due_ms: the time limit of the request in flight, or when the next one is due.
    """

    def __init__(
        self, broker_epoch: BrokerEpoch, timing: ControllerSessionTiming, *, now_ms: int
    ) -> None:
        self._broker_epoch = broker_epoch
        self._timing = timing
        self._request_id = 0
        self._is_in_flight = False
        self._least_remaining: int | None = None
        self._moved_at_ms = now_ms
        self.due_ms = now_ms

    def on_time(
        self, *, has_session: bool, leads: bool, now_ms: int
    ) -> ShutdownRequest | ShutdownEnded | None:
        """Ask the controller, or give up a request without a response."""
        if now_ms < self.due_ms:
            return None
        if self._is_in_flight or not has_session:
            return self._judge_no_response(leads=leads, now_ms=now_ms)
        self._request_id += 1
        self._is_in_flight = True
        self.due_ms = now_ms + self._timing.shutdown_response_max_ms
        return ShutdownRequest(request_id=self._request_id, broker_epoch=self._broker_epoch)

    def on_response(
        self, response: ShutdownResponse, *, leads: bool, now_ms: int
    ) -> ShutdownEnded | ShutdownProgressed | None:
        """Judge a response; ignore one to an earlier request. None: `on_time` asks again.

        The last commands arrive just before the response and are written to disk first: a broker
        that still leads has clients left to tell of the next leader.
        """
        if not self._is_in_flight or response.request_id != self._request_id:
            return None
        if response.error is not ErrorCode.NONE:
            return self._judge_no_response(leads=leads, now_ms=now_ms)
        self._pause(now_ms)
        remaining = response.remaining
        if remaining == 0 and not leads:
            return ShutdownEnded(outcome=ShutdownOutcome.ALL_MOVED, remaining=0)
        if self._least_remaining is None or remaining < self._least_remaining:
            self._least_remaining, self._moved_at_ms = remaining, now_ms
            return ShutdownProgressed(remaining=remaining)
        if now_ms - self._moved_at_ms >= self._timing.shutdown_stalled_ms:
            return ShutdownEnded(outcome=ShutdownOutcome.STALLED, remaining=remaining)
        return None

    def _judge_no_response(self, *, leads: bool, now_ms: int) -> ShutdownEnded | None:
        self._pause(now_ms)
        return None if leads else ShutdownEnded(outcome=ShutdownOutcome.UNANSWERED, remaining=0)

    def _pause(self, now_ms: int) -> None:
        self._is_in_flight = False
        self.due_ms = now_ms + self._timing.shutdown_retry_ms

"""How long a stopping broker waits for its leaders to be moved.

One object per stop, used by `ControllerSession` alone. A broker that leads nothing does not
wait for a controller; one that leads asks again until everything is moved or nothing moves.

Source: Kafka 3.9 KafkaServer.controlledShutdown, without its fixed number of retries
"""

from __future__ import annotations

from .effects import ShutdownEnded, ShutdownOutcome, ShutdownProgressed
from .timing import ControllerSessionTiming


class ControlledShutdown:
    """The requests of one stop; fields are changed by its own methods only.

    due_ms is when the request in flight counts as unanswered, or when the next one is sent.
    """

    def __init__(self, timing: ControllerSessionTiming, *, now_ms: int) -> None:
        self._timing = timing
        self._request_id = 0
        self._least_remaining: int | None = None
        self._moved_at_ms = now_ms
        self.is_in_flight = False
        self.due_ms = now_ms

    def begin_request(self, now_ms: int) -> int:
        """Return the id of a request that is sent now."""
        self._request_id += 1
        self.is_in_flight = True
        self.due_ms = now_ms + self._timing.shutdown_response_max_ms
        return self._request_id

    def awaits(self, request_id: int) -> bool:
        """Tell whether a response belongs to the request in flight."""
        return self.is_in_flight and request_id == self._request_id

    def judge(
        self, remaining: int | None, *, leads: bool, now_ms: int
    ) -> ShutdownEnded | ShutdownProgressed | None:
        """Judge one response, or the lack of one.

        Shape:   remaining is None when no controller answered, or answered with an error
        Returns: None when the controller is simply to be asked again
        """
        self.is_in_flight = False
        self.due_ms = now_ms + self._timing.shutdown_retry_ms
        if remaining is None:
            if leads:
                return None
            return ShutdownEnded(outcome=ShutdownOutcome.UNANSWERED, remaining=0)
        if remaining == 0:
            return ShutdownEnded(outcome=ShutdownOutcome.ALL_MOVED, remaining=0)
        if self._least_remaining is None or remaining < self._least_remaining:
            self._least_remaining, self._moved_at_ms = remaining, now_ms
            return ShutdownProgressed(remaining=remaining)
        if now_ms - self._moved_at_ms >= self._timing.shutdown_stalled_ms:
            return ShutdownEnded(outcome=ShutdownOutcome.STALLED, remaining=remaining)
        return None

"""Controlled shutdowns: a broker leaves after the controller moved its leaders.

The response waits until every partition of that broker is settled, or for a bounded time; the
broker asks again while it leads a partition that another replica could lead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import BrokerId

from .context import ControllerContext
from .effects import ReplyControlledShutdown
from .events import ShutdownRequested
from .partition_reconciler import PartitionReconciler


@dataclass(slots=True, kw_only=True)
class _Leaving:
    """One request without a response; open_names are the partitions that may still move."""

    event: ShutdownRequested
    deadline_ms: int
    open_names: list[str]

    def is_settled(self, is_busy: Callable[[str], bool]) -> bool:
        """Tell whether no partition moves any more; drop those at rest."""
        while self.open_names and not is_busy(self.open_names[-1]):
            self.open_names.pop()
        return not self.open_names


class Shutdowns:
    """The brokers that asked to leave, at most one request of each."""

    def __init__(self, context: ControllerContext, reconciler: PartitionReconciler) -> None:
        self._table = context.table
        self._response_ms = context.timing.shutdown_response_ms
        self._reconciler = reconciler
        self._leaving: dict[BrokerId, _Leaving] = {}

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the first response is due."""
        return min((leaving.deadline_ms for leaving in self._leaving.values()), default=None)

    def begin(self, event: ShutdownRequested, names: list[str], now_ms: int) -> None:
        """Wait for the partitions of a leaving broker; the caller has queued them."""
        self._leaving[event.broker_id] = _Leaving(
            event=event,
            deadline_ms=now_ms + self._response_ms,
            open_names=list(names),
        )

    def cancel(self, broker_id: BrokerId) -> None:
        """Forget a request whose session is over."""
        self._leaving.pop(broker_id, None)

    def tick(self, now_ms: int) -> list[ReplyControlledShutdown]:
        """Respond to each broker whose partitions are settled, or that has waited long enough."""
        responses = []
        for broker_id in sorted(self._leaving):
            leaving = self._leaving[broker_id]
            if leaving.is_settled(self._reconciler.is_busy) or leaving.deadline_ms <= now_ms:
                del self._leaving[broker_id]
                led = self._led(broker_id)
                responses.append(reply_controlled_shutdown(leaving.event, ErrorCode.NONE, led))
        return responses

    def resign(self) -> list[ReplyControlledShutdown]:
        """Refuse every request: another controller decides from now on."""
        leaving, self._leaving = self._leaving, {}
        return [
            reply_controlled_shutdown(leaving[b].event, ErrorCode.NOT_CONTROLLER, self._led(b))
            for b in sorted(leaving)
        ]

    def _led(self, broker_id: BrokerId) -> int:
        """Count the partitions that a broker leads and that have other replicas."""
        led = (self._table.entries[name].stored.state for name in self._table.led_by(broker_id))
        return sum(1 for state in led if state is not None and len(state.replicas) > 1)


def reply_controlled_shutdown(
    event: ShutdownRequested, error: ErrorCode, remaining: int = 0
) -> ReplyControlledShutdown:
    """Return the response to a request; remaining is valid without an error."""
    return ReplyControlledShutdown(
        session_id=event.session_id,
        request_id=event.request_id,
        broker_id=event.broker_id,
        error=error,
        remaining=remaining,
    )

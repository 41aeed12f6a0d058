"""When an active controller loads the cluster again: after a lost watch, one load at a time."""

from __future__ import annotations

from .context import ControllerContext
from .effects import LoadCluster
from .store_events import ClusterLoaded, StoreOutcome


class ClusterReload:
    """The load that is due, and the load that is out."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._due_ms: int | None = None
        self._request_id: int | None = None

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the next load may begin."""
        return self._due_ms if self._request_id is None else None

    def ask(self, now_ms: int) -> None:
        """Load the cluster again, with a load that begins from now on."""
        self._due_ms = now_ms

    def tick(self, now_ms: int) -> list[LoadCluster]:
        """Begin the load that is due."""
        if self._due_ms is None or self._due_ms > now_ms or self._request_id is not None:
            return []
        self._due_ms, self._request_id = None, self._context.new_request_id()
        return [LoadCluster(request_id=self._request_id)]

    def on_cluster_loaded(self, event: ClusterLoaded, now_ms: int) -> bool:
        """Tell whether this load is the one that was out; repeat it later if it failed."""
        if event.request_id != self._request_id:
            return False
        self._request_id = None
        if event.outcome is StoreOutcome.OK:
            return True
        self._due_ms = now_ms + self._context.timing.lease.retry_period_ms
        return False

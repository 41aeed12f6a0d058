"""The work of one namespace: its reconciler, its Lease, and their tasks.

Called by `main`, once for each namespace that the operator watches. Namespaces share nothing but
the connection: another operator may hold the Lease of one of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from strandline.kube.api import ApiClient
from strandline.log_fields import fields

from .operator_config import OperatorConfig
from .operator_lease import OperatorLease
from .operator_metrics import OperatorMetrics
from .reconcile import Reconciler
from .work_queue import Pause

_log = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 15
"""Time for the running passes at the end; below the pod's grace period of 30 s."""
RELEASE_SECONDS: Final = 5
"""Time to give the Lease up; an operator that cannot is waited for as if it had died."""


class NamespaceWork:
    """Reconciles one namespace from `start` to `end`; on_ended runs when it cannot go on."""

    def __init__(
        self,
        api: ApiClient,
        config: OperatorConfig,
        metrics: OperatorMetrics,
        *,
        on_ended: Callable[[], None],
    ) -> None:
        self._namespace = config.namespace
        self._on_ended = on_ended
        self.reconciler = Reconciler(api, config, metrics)
        queue = self.reconciler.queue
        queue.pause(Pause.NO_LEASE)
        self._lease = OperatorLease(
            api,
            namespace=config.namespace,
            identity=config.identity,
            on_held=partial(queue.resume, Pause.NO_LEASE),
            on_lost=partial(queue.pause, Pause.NO_LEASE),
            on_store_went_back=self._end_at_old_store,
        )
        self._candidate: asyncio.Task[Any] | None = None
        self._work: asyncio.Task[Any] | None = None
        self._besides: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to be a candidate for the Lease, and to work once it is held."""
        self._candidate = asyncio.create_task(self._lease.run())
        self._work = asyncio.create_task(self.reconciler.queue.run())
        for task in (self._work, self._candidate):
            task.add_done_callback(lambda _: self._on_ended())
        self._besides = [
            asyncio.create_task(self.reconciler.resync()),
            asyncio.create_task(self.reconciler.tell_news()),
            asyncio.create_task(self.reconciler.follow_nodes()),
        ]

    async def end(self) -> None:
        """End after the running passes, then release the Lease for the next operator.

        Raises:  what ended the work queue or the Lease, if it was a bug
        """
        if self._work is None or self._candidate is None:
            return
        for task in self._besides:
            task.cancel()
        self.reconciler.queue.stop()
        try:
            await asyncio.wait_for(self._work, DRAIN_SECONDS)
        except TimeoutError:
            _log.error("passes under way were cut off", extra=fields(seconds=DRAIN_SECONDS))
        finally:
            await self._leave(self._candidate)

    async def _leave(self, candidate: asyncio.Task[Any]) -> None:
        """Release the Lease after the last pass, so that the next operator need not wait."""
        self._lease.release()
        try:
            await asyncio.wait_for(candidate, RELEASE_SECONDS)
        except TimeoutError:
            _log.warning("lease not released", extra=fields(seconds=RELEASE_SECONDS))

    def _end_at_old_store(self) -> None:
        _log.error(
            "ending: the store went back to an earlier state; the next start lists it",
            extra=fields(namespace=self._namespace),
        )
        self._on_ended()

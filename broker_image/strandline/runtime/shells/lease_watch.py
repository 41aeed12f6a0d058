"""Watches the controller Lease, for the controller of this broker and for its session.

A watch is a hint: whoever holds the Lease by it may have lost it, and both machines know that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from strandline.controller.events import ControllerEvent
from strandline.controller.store_events import LeaseObserved
from strandline.controller_session.events import Event as SessionEvent
from strandline.controller_session.events import HolderObserved
from strandline.errors import CoordinationError
from strandline.kube.lease import LeaseStore
from strandline.log_fields import fields
from strandline.model import LeaseRecord
from strandline.runtime.event_loop.begun_tasks import BegunTasks

_log = logging.getLogger(__name__)
WATCH_RESTART_SECONDS = 0.2
"""Pause before a broken watch begins anew, so that a sick API is not flooded."""


class LeaseWatch:
    """Tells both machines of each change of the Lease, and of what it was at the start."""

    def __init__(
        self,
        leases: LeaseStore,
        lease_name: str,
        *,
        step_controller: Callable[[ControllerEvent], None],
        step_session: Callable[[SessionEvent], None],
    ) -> None:
        self._leases = leases
        self._lease_name = lease_name
        self._step_controller = step_controller
        self._step_session = step_session
        self._tasks = BegunTasks()

    def start(self) -> None:
        """Begin to watch."""
        self._tasks.begin(self._watch_for_ever())

    async def stop(self) -> None:
        """Watch no more."""
        await self._tasks.close()

    async def _watch_for_ever(self) -> None:
        while True:
            try:
                found = await self._leases.get(self._lease_name)
                self._tell(found)
                version = "" if found is None else found.resource_version
                async with aclosing(self._leases.watch(self._lease_name, version)) as changes:
                    async for change in changes:
                        self._tell(change.value)
            except CoordinationError as error:
                _log.debug("lease watch begins anew", extra=fields(cause=str(error)))
            await asyncio.sleep(WATCH_RESTART_SECONDS)

    def _tell(self, lease: LeaseRecord | None) -> None:
        holder = "" if lease is None else lease.holder_identity
        self._step_session(HolderObserved(holder_identity=holder))
        self._step_controller(LeaseObserved(lease=lease))

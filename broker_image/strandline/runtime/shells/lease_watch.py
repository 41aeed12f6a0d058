"""Watches the controller Lease, for the controller of this broker and for its session.

A watch is a hint: the holder it shows may have lost the Lease, and both machines know that.
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

_log = logging.getLogger(__name__)
WATCH_RESTART_SECONDS = 0.2
"""Pause before a broken watch begins anew, so that a sick API server is not flooded."""


async def watch_lease(
    leases: LeaseStore,
    name: str,
    *,
    lease_duration_seconds: int,
    step_controller: Callable[[ControllerEvent], None],
    step_session: Callable[[SessionEvent], None],
) -> None:
    """Send both machines the Lease as it is at the start, and each change of it, for ever.

    Each watch lasts no longer than the Lease: a broken connection reports no error, and must not
    hide the next holder.
    """

    def tell(lease: LeaseRecord | None) -> None:
        step_session(HolderObserved(holder_identity=lease.holder_identity if lease else ""))
        step_controller(LeaseObserved(lease=lease))

    while True:
        try:
            found = await leases.list(name)
            tell(found.items[0] if found.items else None)
            watch = leases.watch(
                name, found.resource_version, timeout_seconds=lease_duration_seconds
            )
            async with aclosing(watch) as changes:
                async for change in changes:
                    tell(change.value)
        except CoordinationError as error:
            _log.debug("lease watch begins anew", extra=fields(cause=str(error)))
        await asyncio.sleep(WATCH_RESTART_SECONDS)

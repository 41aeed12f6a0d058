"""The broker's own Lease: renewed while the broker is registered, released at its end.

Made by `lifecycle`. Losing the Lease or the API server changes nothing here: only another
registration ends the process (`registration_watch`).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from strandline import names
from strandline.config.broker import BrokerConfig
from strandline.errors import (
    CoordinationError,
    StoreNotFound,
)
from strandline.kube.lease import LeaseStore
from strandline.kube.objects import format_micro_time
from strandline.log_fields import fields
from strandline.model import HolderIdentity, LeaseRecord

from .clock import Clock
from .metrics import Metrics
from .registration import WaitingReport, broker_lease_name

_log = logging.getLogger(__name__)
RELEASED_DURATION_SECONDS = 1


class BrokerLease:
    """Renews the Lease of one broker until it is released."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        leases: LeaseStore,
        clock: Clock,
        metrics: Metrics,
        incarnation: str,
    ) -> None:
        identity = config.identity
        self._config = config
        self._leases = leases
        self._clock = clock
        self._metrics = metrics
        self._name = broker_lease_name(identity.cluster, identity.broker_id)
        self._holder = str(HolderIdentity(broker_id=identity.broker_id, incarnation=incarnation))
        self._held: LeaseRecord | None = None
        self._was_ours = False

    async def run(self) -> None:
        """Renew for ever; a failure is reported and tried again at the next interval."""
        interval_seconds = self._config.timing.broker_lease_renew_interval_ms / 1000
        report = self._new_report()
        while True:
            try:
                # A call must not outlast the interval: the next renewal reads anew anyway.
                await asyncio.wait_for(self.renew(), interval_seconds)
                report = self._new_report()
            except TimeoutError:
                report.waiting_for("Lease renewal", "no answer in time")
            except CoordinationError as error:
                report.waiting_for("Lease renewal", error)
            await asyncio.sleep(interval_seconds)

    async def renew(self) -> None:
        """Renew or take the Lease once.

        Raises:  CoordinationError; the next call then begins with a read
        """
        found = self._held
        self._held = None
        if found is None:
            found = await self._leases.get(self._name)
        if found is None:
            raise StoreNotFound(f"leases/{self._name} does not exist")
        if self._was_ours and found.holder_identity != self._holder:
            self._was_ours = False
            self._metrics.counter(names.LEASE_LOST_TOTAL).labels(self._name).inc()
            _log.warning("lease lost", extra=fields(lease=self._name, to=found.holder_identity))
        begun_ms = self._clock.now_ms()
        self._held = await self._leases.put(self._renewed(found))
        self._was_ours = True
        seconds = (self._clock.now_ms() - begun_ms) / 1000
        self._metrics.histogram(names.LEASE_RENEW_SECONDS).labels(self._name).observe(seconds)
        if found.holder_identity != self._holder:
            self._metrics.counter(names.LEASE_TRANSITIONS_TOTAL).labels(self._name).inc()
            _log.info("lease taken", extra=fields(lease=self._name, holder=self._holder))

    async def release(self) -> None:
        """Give the Lease up if it is still ours; failing to only costs others some time."""
        try:
            found = await self._leases.get(self._name)
            if found is not None and found.holder_identity == self._holder:
                await self._leases.put(
                    replace(
                        found,
                        holder_identity="",
                        lease_duration_seconds=RELEASED_DURATION_SECONDS,
                    )
                )
                _log.info("lease released", extra=fields(lease=self._name))
        except CoordinationError as error:
            _log.warning("lease not released", extra=fields(lease=self._name, cause=str(error)))

    def _renewed(self, found: LeaseRecord) -> LeaseRecord:
        now = format_micro_time(self._clock.wall_time_us())
        renewed = replace(
            found,
            holder_identity=self._holder,
            lease_duration_seconds=self._config.timing.broker_lease_duration_seconds,
            renew_time=now,
        )
        if found.holder_identity == self._holder:
            return renewed
        return replace(renewed, acquire_time=now, lease_transitions=found.lease_transitions + 1)

    def _new_report(self) -> WaitingReport:
        interval_ms = self._config.observability.waiting_report_interval_ms
        return WaitingReport(self._clock, interval_ms=interval_ms)

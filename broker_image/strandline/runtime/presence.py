"""What a registered broker does to stay the holder of its id.

`LeaseKeeper` renews the broker's own Lease; `RegistrationGuard` watches the Broker
object. Neither decides about leadership: losing contact with the API server changes
nothing here, only another registration ends the process.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import replace
from enum import Enum

from strandline import names
from strandline.config.broker import BrokerConfig
from strandline.errors import (
    CoordinationError,
    RegistrationSuperseded,
    StoreNotFound,
)
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.lease import LeaseStore
from strandline.kube.objects import format_micro_time
from strandline.model import LeaseRecord, Registration, StoredBroker

from .clock import Clock
from .logs import fields
from .metrics import Metrics
from .registration import Backoff, Registered, WaitingReport, broker_lease_name, holder_identity

_log = logging.getLogger(__name__)
RELEASED_DURATION_SECONDS = 1


class LeaseKeeper:
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
        self._holder = holder_identity(identity.broker_id, incarnation)
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


class Verdict(Enum):
    """What a stored registration means for the running broker."""

    OURS = "ours"
    MISSING = "missing"
    ANOTHERS = "another's"


def judge_registration(own: Registration, stored: Registration | None) -> Verdict:
    """Judge what is stored about our id; see RegistrationGuard for what follows from it."""
    if stored is None:
        return Verdict.MISSING
    if stored.incarnation == own.incarnation and stored.broker_epoch <= own.broker_epoch:
        return Verdict.OURS
    return Verdict.ANOTHERS


class RegistrationGuard:
    """Keeps the registration in the Broker object, and ends the process if it is another's."""

    def __init__(
        self, *, config: BrokerConfig, store: ClusterStore, clock: Clock, registered: Registered
    ) -> None:
        self._config = config
        self._store = store
        self._clock = clock
        self._own = registered.registration
        self._version = registered.stored.resource_version

    async def run(self) -> None:
        """Watch for ever.

        Raises:  RegistrationSuperseded if another process holds the id
        """
        settings = self._config.kubernetes
        backoff = Backoff(first_ms=settings.backoff_ms, max_ms=settings.backoff_max_ms)
        while True:
            report = self._new_report()
            try:
                await self._watch_until_odd()
            except CoordinationError as error:
                report.waiting_for("watch of the own Broker object", error)
                await backoff.pause()
            while not await self._confirmed(report):
                await backoff.pause()
            backoff.reset()

    async def _watch_until_odd(self) -> None:
        """Follow changes until one does not show our registration; a quorum read then decides."""
        changes = self._store.watch_broker(self._config.identity.pod_name, self._version)
        async with aclosing(changes):
            async for change in changes:
                self._version = change.resource_version
                seen = change.value.registration if change.value else None
                if judge_registration(self._own, seen) is not Verdict.OURS:
                    return

    async def _confirmed(self, report: WaitingReport) -> bool:
        """Read with quorum and act on it.

        Returns: False if our registration could not be seen stored: try again
        Raises:  RegistrationSuperseded
        """
        try:
            found = await self._store.get_broker(self._config.identity.pod_name)
            if found is None:
                report.waiting_for("own Broker object", "it does not exist")
                return False
            match judge_registration(self._own, found.registration):
                case Verdict.ANOTHERS:
                    raise RegistrationSuperseded(f"Broker {found.name}: {found.registration}")
                case Verdict.MISSING:
                    found = await self._write_back(found)
                case Verdict.OURS:
                    pass
        except RegistrationSuperseded:
            raise
        except CoordinationError as error:
            report.waiting_for("own Broker object", error)
            return False
        self._version = found.resource_version
        return True

    async def _write_back(self, found: StoredBroker) -> StoredBroker:
        """Restore our registration in an object that has none.

        The object may have been deleted after a later process had registered; its epoch is
        then in an ISR entry, and that process is the one to write back.
        """
        highest = await self._store.highest_entry_epoch(self._own.broker_id)
        if highest > self._own.broker_epoch:
            raise RegistrationSuperseded(f"Broker {found.name}: an ISR entry has epoch {highest}")
        written = await self._store.put_broker_status(found, self._own)
        _log.warning("registration written back", extra=fields(broker=found.name))
        return written

    def _new_report(self) -> WaitingReport:
        interval_ms = self._config.observability.waiting_report_interval_ms
        return WaitingReport(self._clock, interval_ms=interval_ms)

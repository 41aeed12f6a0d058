"""How a starting broker becomes the one holder of its id.

`Registrar` reads with quorum what `start_decision` needs and commits the decision by
compare-and-swap on the Broker object. `lifecycle` calls it once per process. The order must hold:
the intended epochs are in meta, fsynced, before logs are loaded; a loss that the load finds is in
meta before the load removes its traces; and logs are loaded before the registration is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from strandline.config.broker import BrokerConfig
from strandline.errors import CoordinationError, ObjectMalformed, StoreForbidden, StoreNotFound
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.waiting import Pauses, WaitingReport
from strandline.log.data_directory import DataDirectory, MetaProperties
from strandline.log_fields import fields
from strandline.model import Endpoint, Registration, StoredBroker
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.storage.loaded_store import LoadedStore
from strandline.start_decision import (
    FoundOnDisk,
    StartDecision,
    StartEvidence,
    damaged,
    decide_registration,
    may_trust_fsync,
)

from .running_settings import RunningSettings

PROTOCOL_VERSION: Final = 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A committed registration, the evidence of its start, and the logs loaded for it."""

    stored: StoredBroker
    registration: Registration
    evidence: StartEvidence
    loaded: LoadedStore


@dataclass(slots=True, kw_only=True, eq=False)
class Registrar:
    """Registers one process; retries without limit, and logs the cause every few seconds."""

    config: BrokerConfig
    store: ClusterStore
    directory: DataDirectory
    disk: FoundOnDisk
    clock: Clock
    incarnation: str
    endpoints: tuple[Endpoint, ...]
    software_version: str
    load: Callable[[StartEvidence, Callable[[], None]], Awaitable[LoadedStore]]
    settings: RunningSettings
    _loaded: LoadedStore | None = field(default=None, init=False)
    _decision: StartDecision | None = field(default=None, init=False)
    _loss_found: bool = field(default=False, init=False)
    _forbidden_since_ms: int | None = field(default=None, init=False)

    async def register(self) -> Registered:
        """Register, however long the API server or the Broker object takes.

        Raises:  StoreForbidden if it outlasts its grace; StorageError if the disk fails
        """
        pauses, report = Pauses(self.config.kubernetes), WaitingReport(self.config.kubernetes)
        while True:
            try:
                return await self._attempt()
            except CoordinationError as error:
                self._give_up_if_forbidden(error)
                report.waiting_for("registration", error)
            await pauses.pause()

    async def _attempt(self) -> Registered:
        """Read, decide, and commit once.

        After a write without a response, the next attempt reads the outcome: either the stored
        registration is ours, or the attempt decides anew.
        """
        identity = self.config.identity
        found = await self.store.get_broker(identity.pod_name)
        if found is None:
            raise StoreNotFound(f"brokers/{identity.pod_name} does not exist yet")
        if found.broker_id != identity.broker_id:
            raise ObjectMalformed(
                f"Broker {found.name}: spec.brokerId must be {identity.broker_id}"
            )
        stored = found.registration
        attempted = self._decision
        if stored and attempted and self._loaded and stored.incarnation == self.incarnation:
            return Registered(
                stored=found,
                registration=stored,
                evidence=attempted.evidence,
                loaded=self._loaded,
            )
        highest = await self.store.highest_entry_epoch(identity.broker_id)
        decision = decide_registration(self.disk, stored, highest_entry_epoch=highest)
        if self._loaded is None and not decision.evidence.proves_every_byte:
            found = await self._tell_of_reading(found)
        loaded, decision = await self._prepare_disk(decision)
        if may_trust_fsync(self.disk, stored, decision.evidence):
            # Before the registration: a power cut between the two then takes no evidence away.
            await asyncio.to_thread(self.directory.write_flushed_mark, decision.broker_epoch)
        registration = self.settings.registered(found, self._registration(decision))
        written = await self.store.put_broker_status(found, registration)
        return Registered(
            stored=written,
            registration=registration,
            evidence=decision.evidence,
            loaded=loaded,
        )

    async def _tell_of_reading(self, found: StoredBroker) -> StoredBroker:
        """Say in the object that this process reads its logs: nobody restarts it then (ADR 0051).

        The registration beside it stays that of the last process. A start waits for no such word.

        Returns: the object to register in; as it was where nothing could be said
        """
        if found.registration is None:
            return found
        told = replace(found.registration, reading_logs=self.incarnation)
        try:
            return await self.store.put_broker_status(found, told)
        except CoordinationError as error:
            _log.warning("reading of logs not told", extra=fields(cause=str(error)))
            return found

    async def _prepare_disk(self, decision: StartDecision) -> tuple[LoadedStore, StartDecision]:
        """Record the intended epochs durably, then load the logs, once per process.

        The clean-shutdown marker and the failed mark stay until the broker is registered: a start
        that ends earlier takes nothing from the next one.
        """
        await asyncio.to_thread(self._intend, damaged(decision) if self._loss_found else decision)
        if self._loaded is None:
            self._loaded = await self.load(decision.evidence, lambda: self._note_loss(decision))
        return self._loaded, damaged(decision) if self._loss_found else decision

    def _note_loss(self, decision: StartDecision) -> None:
        """Record a loss durably; the load calls this, in its thread, before it cuts anything."""
        if not self._loss_found:
            self._loss_found = True
            self._intend(damaged(decision))

    def _intend(self, decision: StartDecision) -> None:
        """Write what this start means to register; blocking."""
        self._decision = decision
        self.directory.write_meta(
            MetaProperties(
                log_dir_id=self.disk.log_dir_id,
                broker_epoch=decision.broker_epoch,
                clean_since_epoch=decision.clean_since_epoch,
                mount=self.disk.mount,
            )
        )

    def _registration(self, decision: StartDecision) -> Registration:
        return Registration(
            broker_id=self.config.identity.broker_id,
            broker_epoch=decision.broker_epoch,
            clean_since_epoch=decision.clean_since_epoch,
            incarnation=self.incarnation,
            endpoints=self.endpoints,
            log_dir_id=self.disk.log_dir_id,
            boot_id=self.disk.boot_id,
            software_version=self.software_version,
            protocol_version=PROTOCOL_VERSION,
        )

    def _give_up_if_forbidden(self, error: CoordinationError) -> None:
        """Raise the error if the API server has forbidden every call for the grace."""
        if not isinstance(error, StoreForbidden):
            self._forbidden_since_ms = None
            return
        now_ms = self.clock.now_ms()
        if self._forbidden_since_ms is None:
            self._forbidden_since_ms = now_ms
        if now_ms - self._forbidden_since_ms >= self.config.kubernetes.forbidden_grace_ms:
            raise error

"""The Lease of the namespace's one working operator: others wait, and say so.

`main` lets passes begin only while this process holds the Lease. The elector is the controller's;
this shell does its reads and writes. It needs no watch: a candidate reads the Lease from time to
time, and a write about an older Lease is refused.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from strandline.config.kubernetes import KubernetesConfig
from strandline.controller.effects import ReadLease, WriteLease
from strandline.controller.lease_election import LeaseEffect, LeaseElector
from strandline.controller.lease_observation import HolderSilent, LeaseLost, LeaseWon, MayTake
from strandline.controller.store_events import LeaseResponseReceived, StoreOutcome
from strandline.errors import CoordinationError, StoreConflict, StoreUnavailable
from strandline.kube.api import ApiClient, is_before
from strandline.kube.lease import LeaseStore
from strandline.kube.objects import format_micro_time
from strandline.log_fields import fields
from strandline.model import ControllerEpoch, LeaseRecord

from . import kinds, operator_config

_log = logging.getLogger(__name__)

NAME = "strandline-operator"
"""Name of the Lease, whatever the release is called."""


class OperatorLease:
    """Takes and renews the Lease; calls `on_held` and `on_lost` as often as that changes.

    on_store_went_back: a read showed an older Lease than was known before the read began, so the
    store was restored from a backup.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        namespace: str,
        identity: str,
        on_held: Callable[[], None],
        on_lost: Callable[[], None],
        on_store_went_back: Callable[[], None],
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._leases = LeaseStore(api, KubernetesConfig(), namespace=namespace)
        self._on_held = on_held
        self._on_lost = on_lost
        self._on_store_went_back = on_store_went_back
        self._version = ""
        self._elector = LeaseElector(
            identity=identity,
            rank=0,
            timing=operator_config.LEASE_TIMING,
            new_request_id=count(1).__next__,
        )
        self._calls: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._holds = False
        self._told_holder = ""

    async def run(self) -> None:
        """Be a candidate, and a holder, until `release` has run."""
        retry_seconds = operator_config.LEASE_TIMING.retry_period_ms / 1000
        while not self._elector.is_stopped:
            self._changed.clear()
            self._perform(self._elector.tick(_now_ms()))
            if not self._holds and not self._calls:
                self._call(self._look())
            due_ms = self._elector.next_wakeup_ms
            due_seconds = retry_seconds if due_ms is None else (due_ms - _now_ms()) / 1000
            # As in the work queue: no task of its own that kopf would cancel.
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(retry_seconds, due_seconds))):
                    await self._changed.wait()

    def release(self) -> None:
        """Give the Lease up, if it is ours, so that the next operator need not wait; end `run`."""
        self._perform(self._elector.stop(_now_ms()))
        self._changed.set()

    def _perform(self, effects: Iterable[LeaseEffect]) -> None:
        for effect in effects:
            match effect:
                case ReadLease(request_id=request_id):
                    self._call(self._read(request_id))
                case WriteLease(request_id=request_id, lease=lease):
                    self._call(self._write(request_id, lease))
                case MayTake():
                    self._perform(self._elector.take(ControllerEpoch(0), _now_ms()))
                case HolderSilent():
                    # Of brokers alone: no operator is probed.
                    continue
                case LeaseWon():
                    self._holds, self._told_holder = True, ""
                    _log.info("operator lease held", extra=fields(lease=NAME))
                    self._on_held()
                case LeaseLost(reason=reason):
                    self._holds = False
                    _log.warning("operator lease lost", extra=fields(lease=NAME, reason=reason))
                    self._on_lost()

    def _call(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(call)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _look(self) -> None:
        """Read the Lease as a candidate; a released one is free at once."""
        outcome, lease = await self._get()
        if outcome is StoreOutcome.OK and not self._holds:
            self._elector.observe(lease, _now_ms())
            self._tell(lease)

    def _tell(self, lease: LeaseRecord | None) -> None:
        holder = "" if lease is None else lease.holder_identity
        if holder not in ("", self._elector.identity, self._told_holder):
            self._told_holder = holder
            _log.warning(
                "another operator works in this namespace, so this one waits",
                extra=fields(lease=NAME, holder=holder, namespace=self._namespace),
            )

    async def _read(self, request_id: int) -> None:
        self._respond(request_id, *await self._get())

    async def _get(self) -> tuple[StoreOutcome, LeaseRecord | None]:
        known = self._version
        try:
            found = await self._leases.get(NAME)
            if found is None:
                await self._create()
                found = await self._leases.get(NAME)
        except CoordinationError as error:
            _log.debug("operator lease not read", extra=fields(cause=str(error)))
            return StoreOutcome.UNKNOWN, None
        if found is not None:
            self._version = found.resource_version
            if is_before(found.resource_version, known):
                self._on_store_went_back()
        return StoreOutcome.OK, found

    async def _create(self) -> None:
        body = {
            **kinds.LEASE.type_meta,
            "metadata": {
                "name": NAME,
                "labels": {"app.kubernetes.io/managed-by": operator_config.FIELD_MANAGER},
            },
            "spec": {},
        }
        try:
            await self._api.create(kinds.LEASE.resource, self._namespace, body)
        except StoreConflict:
            return

    async def _write(self, request_id: int, lease: LeaseRecord) -> None:
        now = format_micro_time(time.time_ns() // 1000)
        stamped = replace(
            lease, acquire_time=lease.acquire_time or now, renew_time=lease.renew_time or now
        )
        try:
            written = await self._leases.put(stamped)
        except StoreUnavailable:
            return self._respond(request_id, StoreOutcome.UNKNOWN, None)
        except CoordinationError as error:
            _log.debug("operator lease not written", extra=fields(cause=str(error)))
            return self._respond(request_id, StoreOutcome.CONFLICT, None)
        self._version = written.resource_version
        return self._respond(request_id, StoreOutcome.OK, written)

    def _respond(self, request_id: int, outcome: StoreOutcome, lease: LeaseRecord | None) -> None:
        event = LeaseResponseReceived(request_id=request_id, outcome=outcome, lease=lease)
        self._perform(self._elector.on_lease_response(event, _now_ms()))
        self._changed.set()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000

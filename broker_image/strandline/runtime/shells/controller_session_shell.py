"""The shell of the session with the controller: streams, lookups, probes and the clock.

Made by `broker_service`. Nothing is decided here: `ControllerSession` says which broker to look
up, to dial and to probe, and what to send. The shell hands its events for the two other machines
over at once; log lines are views of its notices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from strandline.config.network import GrpcConfig
from strandline.controller.events import ControllerEvent
from strandline.controller_session import effects
from strandline.controller_session.controller_session import ControllerSession
from strandline.controller_session.events import (
    Event,
    HolderLookedUp,
    HolderProbed,
    HolderRead,
    MessageReceived,
    ShutdownBegun,
    StreamBroken,
    TimePassed,
)
from strandline.core.events import Event as CoreEvent
from strandline.errors import CoordinationError, InvariantViolation
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.lease import LeaseStore
from strandline.log_fields import fields
from strandline.model import joined_address
from strandline.rpc.probes import probe
from strandline.rpc.session_client import SessionClient
from strandline.runtime.event_loop.begun_tasks import BegunTasks
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.event_loop.driver import Driver

_log = logging.getLogger(__name__)


class ControllerSessionShell:
    """Performs the effects of one broker's session; at most one stream is open at a time."""

    def __init__(
        self,
        session: ControllerSession,
        *,
        store: ClusterStore,
        leases: LeaseStore,
        lease_name: str,
        grpc: GrpcConfig,
        clock: Clock,
        step_replicas: Callable[[CoreEvent], None],
        step_controller: Callable[[ControllerEvent], None],
        restore: Callable[[effects.RestoreReplicas], None],
        on_broken_promise: Callable[[InvariantViolation], None],
    ) -> None:
        self._store = store
        self._leases = leases
        self._lease_name = lease_name
        self._grpc = grpc
        self._step_replicas = step_replicas
        self._step_controller = step_controller
        self._restore = restore
        self._streams: dict[int, SessionClient] = {}
        self._calls = BegunTasks()
        self._closing = BegunTasks()
        self._shutdown_ended = asyncio.Event()
        self._driver: Driver[Event, effects.Effect] = Driver(
            session,
            perform=self._perform,
            tick=TimePassed(),
            now_ms=clock.now_ms,
            on_broken_promise=on_broken_promise,
        )

    def submit(self, event: Event) -> None:
        """Step the session with an event of the Lease or of the replicas."""
        self._driver.submit(event)

    async def drain(self) -> None:
        """Leave the ISRs and let the controller move leaders away, as far as it does."""
        self._driver.submit(ShutdownBegun())
        await self._shutdown_ended.wait()

    async def close(self) -> None:
        """End the stream and all outstanding calls; take no more events."""
        self._driver.stop()
        await self._calls.close()
        while self._streams:
            _, stream = self._streams.popitem()
            await stream.close()
        await self._closing.all_done()

    def _perform(self, performed: Sequence[effects.Effect]) -> None:
        for effect in performed:
            self._act(effect)

    def _act(self, effect: effects.Effect) -> None:
        match effect:
            case effects.StepReplicas(event=event):
                self._step_replicas(event)
            case effects.StepController(event=event):
                self._step_controller(event)
            case effects.RestoreReplicas():
                self._restore(effect)
            case effects.SendMessage(session_id=session_id, message=message):
                if session_id in self._streams:
                    self._streams[session_id].send(message)
            case effects.ReadHolder() | effects.FindHolder() | effects.ProbeHolder():
                self._calls.begin(self._call(effect))
            case effects.DialHolder():
                self._dial(effect)
            case effects.CloseStream(session_id=session_id):
                if session_id in self._streams:
                    self._closing.begin(self._streams.pop(session_id).close())
            case effects.ShutdownEnded():
                if effect.outcome is effects.ShutdownOutcome.STALLED:
                    left = effect.remaining
                    _log.warning("controlled shutdown stalled", extra=fields(remaining=left))
                self._shutdown_ended.set()
            case _:
                _report(effect)

    def _dial(self, effect: effects.DialHolder) -> None:
        session_id, endpoint = effect.session_id, effect.endpoint

        def on_broken() -> None:
            self._streams.pop(session_id, None)
            self.submit(StreamBroken(session_id=session_id))

        self._streams[session_id] = SessionClient(
            joined_address(endpoint.host, endpoint.port),
            self._grpc,
            on_message=lambda message: self.submit(
                MessageReceived(session_id=session_id, message=message)
            ),
            on_broken=on_broken,
        )

    async def _call(
        self, effect: effects.ReadHolder | effects.FindHolder | effects.ProbeHolder
    ) -> None:
        match effect:
            case effects.ReadHolder():
                await self._read_holder()
            case effects.FindHolder():
                await self._find(effect)
            case effects.ProbeHolder():
                await self._probe(effect)

    async def _read_holder(self) -> None:
        try:
            lease = await self._leases.get(self._lease_name)
        except CoordinationError as error:
            _log.debug("lease not read", extra=fields(cause=str(error)))
            return
        self.submit(HolderRead(holder_identity=lease.holder_identity if lease else ""))

    async def _find(self, effect: effects.FindHolder) -> None:
        try:
            found = await self._store.find_broker(effect.broker_id)
        except CoordinationError as error:
            _log.debug("lease holder not found", extra=fields(cause=str(error)))
            found = None
        registration = None if found is None else found.registration
        self.submit(HolderLookedUp(lookup_id=effect.lookup_id, registration=registration))

    async def _probe(self, effect: effects.ProbeHolder) -> None:
        verdict = await probe(
            joined_address(effect.endpoint.host, effect.endpoint.port),
            broker_id=effect.broker_id,
            incarnation=effect.incarnation,
            deadline_ms=effect.deadline_ms,
        )
        self.submit(HolderProbed(probe_id=effect.probe_id, verdict=verdict))


def _report(notice: effects.Notice) -> None:
    match notice:
        case effects.ShutdownProgressed(remaining=remaining):
            _log.info("controlled shutdown goes on", extra=fields(remaining=remaining))
        case effects.HolderUnknown(holder_identity=holder):
            _log.warning("lease holder is no broker", extra=fields(holder=holder))
        case effects.HolderDead(holder_identity=holder):
            _log.warning("controller is dead", extra=fields(holder=holder))

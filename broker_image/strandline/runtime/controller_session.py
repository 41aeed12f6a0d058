"""The broker's session with the present controller.

Follows the controller Lease, dials the holder's gRPC listener if the holder's registration
has the incarnation that signed the Lease, and keeps one session open. When the session breaks
it probes the holder, and reports a dead one to the local candidate. It decides nothing about
replicas: a broker without a session goes on as it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from strandline.config.network import GrpcConfig
from strandline.controller.events import ProbeVerdict
from strandline.controller_session.timing import ControllerSessionTiming
from strandline.core.effects import ProposeIsr, ReplyLeaderAndIsr, ReplyStopReplica
from strandline.errors import CoordinationError, ErrorCode
from strandline.kube.cluster_store import ClusterStore
from strandline.log_fields import fields
from strandline.model import BrokerId, ControllerEpoch, LeaseRecord, Registration
from strandline.rpc.probes import probe
from strandline.rpc.session_client import (
    ControlledShutdownResponseReceived,
    Replica,
    SessionClient,
    SessionMessage,
    SessionRefused,
)

from .clock import Clock

_log = logging.getLogger(__name__)
GRPC_LISTENER = "GRPC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who signed the controller Lease, and where that process listens."""

    identity: str
    broker_id: BrokerId
    incarnation: str
    address: str


class ControllerSession:
    """One session at a time, with the present holder of the Lease."""

    def __init__(
        self,
        *,
        registration: Registration,
        store: ClusterStore,
        clock: Clock,
        timing: ControllerSessionTiming,
        grpc: GrpcConfig,
        hosted: Callable[[], Sequence[Replica]],
        highest_controller_epoch: Callable[[], ControllerEpoch],
        on_message: Callable[[SessionMessage], None],
        on_holder_died: Callable[[str], None],
    ) -> None:
        self._registration = registration
        self._store = store
        self._clock = clock
        self._timing = timing
        self._grpc = grpc
        self._hosted = hosted
        self._highest_controller_epoch = highest_controller_epoch
        self._on_message = on_message
        self._on_holder_died = on_holder_died
        self._holder_identity = ""
        self._changed = asyncio.Event()
        self._session: SessionClient | None = None
        self._shutdown_answer: asyncio.Future[ControlledShutdownResponseReceived] | None = None
        self._shutdown_requests = 0

    def observe_lease(self, lease: LeaseRecord | None) -> None:
        """Take note of who holds the Lease; a change ends the present session."""
        identity = "" if lease is None else lease.holder_identity
        if identity != self._holder_identity:
            self._holder_identity = identity
            self._changed.set()

    async def run(self) -> None:
        """Keep a session with the holder for ever."""
        pause_ms = self._timing.redial_ms
        while True:
            self._changed.clear()
            holder = await self._find_holder()
            lasted = holder is not None and await self._hold_session(holder)
            pause_ms = (
                self._timing.redial_ms if lasted else min(2 * pause_ms, self._timing.redial_max_ms)
            )
            await self._pause(pause_ms)

    # --- what the core and the shutdown say to the controller ------------------------------

    def propose(self, proposal: ProposeIsr) -> bool:
        """Send a proposal; False if there is no session to send it on."""
        if self._session is None:
            return False
        self._session.propose(proposal)
        return True

    def answer(self, answer: ReplyLeaderAndIsr | ReplyStopReplica) -> None:
        """Answer a command; without a session the next hello says it all."""
        if self._session is not None:
            epoch = self._highest_controller_epoch()
            self._session.answer(answer, highest_controller_epoch=epoch)

    async def controlled_shutdown(self) -> int | None:
        """Ask once for leaders to be moved.

        Returns: how many are left, None if nobody answered in time
        """
        if self._session is None:
            return None
        self._shutdown_requests += 1
        self._shutdown_answer = asyncio.get_running_loop().create_future()
        self._session.controlled_shutdown(self._shutdown_requests)
        try:
            async with asyncio.timeout(self._timing.shutdown_response_max_ms / 1000):
                answer = await self._shutdown_answer
        except TimeoutError:
            return None
        return answer.remaining if answer.error is ErrorCode.NONE else None

    # --- the session -----------------------------------------------------------------------

    async def _find_holder(self) -> Holder | None:
        identity = self._holder_identity
        name, _, incarnation = identity.partition("/")
        if not incarnation or not name.startswith("broker-"):
            return None
        try:
            broker_id = BrokerId(int(name.removeprefix("broker-")))
            found = await self._store.find_broker(broker_id)
        except ValueError:
            _log.warning("lease holder is no broker", extra=fields(holder=identity))
            return None
        except CoordinationError as error:
            _log.debug("lease holder not found", extra=fields(cause=str(error)))
            return None
        registration = None if found is None else found.registration
        if registration is None or registration.incarnation != incarnation:
            return None
        endpoint = registration.endpoint(GRPC_LISTENER)
        if endpoint is None:
            return None
        return Holder(
            identity=identity,
            broker_id=broker_id,
            incarnation=incarnation,
            address=f"{endpoint.host}:{endpoint.port}",
        )

    async def _hold_session(self, holder: Holder) -> bool:
        """Run one session to its end; True if the holder answered at all, a refusal included."""
        accepted = False
        refused = False
        broken = asyncio.Event()

        def take(message: SessionMessage) -> None:
            nonlocal accepted, refused
            if isinstance(message, SessionRefused):
                refused = True
            elif isinstance(message, ControlledShutdownResponseReceived):
                self._take_shutdown_answer(message)
            else:
                accepted = True
                self._on_message(message)

        session = SessionClient(
            holder.address,
            self._grpc,
            broker_epoch=self._registration.broker_epoch,
            on_message=take,
            on_broken=broken.set,
        )
        session.hello(
            broker_id=self._registration.broker_id,
            clean_since_epoch=self._registration.clean_since_epoch,
            incarnation=self._registration.incarnation,
            highest_controller_epoch=self._highest_controller_epoch(),
            hosted=self._hosted(),
        )
        self._session = session
        heartbeats = asyncio.create_task(self._send_heartbeats(session))
        ends = {asyncio.create_task(broken.wait()), asyncio.create_task(self._changed.wait())}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._session = None
            for task in (heartbeats, *ends):
                task.cancel()
            await asyncio.gather(heartbeats, *ends, return_exceptions=True)
            was_broken = broken.is_set()
            await session.close()
        if was_broken and not refused and not self._changed.is_set():
            await self._look_for_death(holder)
        return accepted or refused

    def _take_shutdown_answer(self, message: ControlledShutdownResponseReceived) -> None:
        waiting = self._shutdown_answer
        if (
            waiting is not None
            and not waiting.done()
            and message.request_id == self._shutdown_requests
        ):
            waiting.set_result(message)

    async def _send_heartbeats(self, session: SessionClient) -> None:
        report_at_ms = self._clock.now_ms() + self._timing.hosted_report_interval_ms
        while True:
            await asyncio.sleep(self._timing.heartbeat_interval_ms / 1000)
            if self._clock.now_ms() < report_at_ms:
                session.heartbeat(None)
            else:
                session.heartbeat(self._hosted())
                report_at_ms = self._clock.now_ms() + self._timing.hosted_report_interval_ms

    async def _look_for_death(self, holder: Holder) -> None:
        """Probe a holder whose stream broke: three refusals in a row prove that it is gone."""
        for _ in range(self._timing.refused_probes_dead):
            verdict = await probe(
                holder.address,
                broker_id=holder.broker_id,
                incarnation=holder.incarnation,
                deadline_ms=self._timing.probe_deadline_ms,
            )
            if verdict is ProbeVerdict.OTHER_INCARNATION:
                break
            if verdict is not ProbeVerdict.REFUSED:
                return
            await asyncio.sleep(self._timing.probe_interval_ms / 1000)
        _log.warning("controller is dead", extra=fields(holder=holder.identity))
        self._on_holder_died(holder.identity)

    async def _pause(self, pause_ms: int) -> None:
        try:
            async with asyncio.timeout(pause_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            return

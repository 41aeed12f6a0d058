"""A broker's end of its session with the controller.

Follows the Lease, looks up the holder, dials it, sends heartbeats and reports, and looks
whether a holder whose stream broke is dead. The simulator's counterpart of the
runtime's: same order of steps, virtual time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline.controller.events import (
    BrokerResponseReceived,
    HeartbeatReceived,
    HostedReplica,
    HostedReported,
    IsrChangeRequested,
    ProbeVerdict,
    SessionOpened,
    ShutdownRequested,
)
from strandline.controller.store_events import ControllerEpochSeen, HolderDied, StoreOutcome
from strandline.core.effects import ProposeIsr, ReplyLeaderAndIsr, ReplyStopReplica
from strandline.core.events import AlterPartitionResponseReceived
from strandline.errors import ErrorCode
from strandline.model import NO_EPOCH, BrokerId, LeaseRecord, StoredBroker

from .session_stream import SessionStream

if TYPE_CHECKING:
    from .process import Process

REDIAL_MS = 50
REDIAL_MAX_MS = 1_000
PROBE_DEADLINE_MS = 200
PROBE_INTERVAL_MS = 30
REFUSED_PROBES_UNTIL_DEAD = 3


class SimulatedControllerSession:
    """One session at a time, with the present holder of the Lease."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._holder = ""
        self._session: SessionStream | None = None
        self._dial_number = 0
        self._pause_ms = REDIAL_MS
        self._report_at_ms = 0

    # --- the holder -----------------------------------------------------------------------

    def observe_lease(self, lease: LeaseRecord) -> None:
        """Take note of who holds the Lease; a change ends the present session."""
        if lease.holder_identity == self._holder:
            return
        self._holder = lease.holder_identity
        self._pause_ms = REDIAL_MS
        if self._session is not None:
            self._session.end_by_client()
            self._session = None
        self._dial_after(0)

    def _dial_after(self, delay_ms: int) -> None:
        self._dial_number += 1
        process = self._process
        process.world.virtual_time.after(delay_ms, process.deliver, self._dial, self._dial_number)

    def _dial(self, number: int) -> None:
        holder = broker_of(self._holder)
        if number != self._dial_number or self._session is not None or holder is None:
            return
        world = self._process.world

        def on_found(outcome: StoreOutcome, found: StoredBroker | None) -> None:
            if number == self._dial_number and self._session is None:
                self._connect(holder, found if outcome is StoreOutcome.OK else None)

        world.api.call(self._process, lambda: world.store.brokers[holder], on_found)

    def _connect(self, holder: BrokerId, found: StoredBroker | None) -> None:
        incarnation = self._holder.partition("/")[2]
        registration = None if found is None else found.registration
        if registration is None or registration.incarnation != incarnation:
            self._redial()
            return
        process = self._process
        session = self._session = process.world.open_session(process, holder)
        self._report_at_ms = (
            process.world.virtual_time.now_ms + process.world.plan.timing.hosted_report_ms
        )
        session.send_hello(
            incarnation,
            (
                ControllerEpochSeen(controller_epoch=process.replicas.controller_epoch),
                SessionOpened(
                    session_id=session.number,
                    broker_id=process.broker_id,
                    broker_epoch=process.broker_epoch,
                    clean_since_epoch=process.clean_since_epoch,
                    incarnation=process.incarnation,
                    hosted=self._hosted(),
                ),
            ),
        )
        self._heartbeat_after(session)

    def _redial(self) -> None:
        self._dial_after(self._pause_ms)
        self._pause_ms = min(2 * self._pause_ms, REDIAL_MAX_MS)

    # --- to the controller ----------------------------------------------------------------

    def propose(self, effect: ProposeIsr) -> None:
        """Send a proposal; without a session it is unanswered, a moment later."""
        process = self._process
        if self._session is None:
            unanswered = AlterPartitionResponseReceived(
                request_id=effect.request_id,
                tp=effect.tp,
                error=ErrorCode.NETWORK_EXCEPTION,
                stored=None,
            )
            process.world.virtual_time.after(1, process.deliver, process.step_core, unanswered)
            return
        self._session.send_to_controller(
            IsrChangeRequested(
                session_id=self._session.number,
                request_id=effect.request_id,
                broker_id=process.broker_id,
                broker_epoch=process.broker_epoch,
                tp=effect.tp,
                leader_epoch=effect.leader_epoch,
                partition_epoch=effect.partition_epoch,
                isr=effect.isr,
            ),
            repeatable=True,
        )

    def answer(self, effect: ReplyLeaderAndIsr | ReplyStopReplica) -> None:
        """Answer a command; without a session the next hello says it all."""
        if self._session is not None:
            self._session.send_to_controller(
                BrokerResponseReceived(
                    session_id=self._session.number,
                    request_id=effect.request_id,
                    broker_id=self._process.broker_id,
                    error=effect.error,
                    controller_epoch=self._process.replicas.controller_epoch,
                    partitions=effect.partitions,
                )
            )

    def request_shutdown(self, request_id: int) -> None:
        """Ask the controller to move leaders away."""
        if self._session is not None:
            self._session.send_to_controller(
                ShutdownRequested(
                    session_id=self._session.number,
                    request_id=request_id,
                    broker_id=self._process.broker_id,
                    broker_epoch=self._process.broker_epoch,
                )
            )

    def _heartbeat_after(self, session: SessionStream) -> None:
        world = self._process.world
        delay_ms = world.plan.timing.heartbeat_ms
        world.virtual_time.after(delay_ms, self._process.deliver, self._heartbeat, session)

    def _heartbeat(self, session: SessionStream) -> None:
        if session is not self._session:
            return
        process, now_ms = self._process, self._process.world.virtual_time.now_ms
        alive = HeartbeatReceived(
            session_id=session.number,
            broker_id=process.broker_id,
            broker_epoch=process.broker_epoch,
        )
        if now_ms < self._report_at_ms:
            session.send_heartbeat(alive)
        else:
            self._report_at_ms = now_ms + process.world.plan.timing.hosted_report_ms
            report = HostedReported(
                session_id=session.number, broker_id=process.broker_id, hosted=self._hosted()
            )
            session.send_heartbeat(alive, report)
        self._heartbeat_after(session)

    def _hosted(self) -> tuple[HostedReplica, ...]:
        return tuple(
            HostedReplica(
                tp=view.tp,
                leader_epoch=view.leader_epoch,
                partition_epoch=view.partition_epoch,
                last_epoch=view.epochs[-1].leader_epoch if view.epochs else NO_EPOCH,
                log_end_offset=view.log_end_offset,
            )
            for view in self._process.replicas.views()
        )

    # --- from the controller---------------------------------------------------------------

    def on_controller_message(self, session: SessionStream, message: tuple[Any, ...]) -> None:
        """Take a message, also a late one of a session that is over."""
        process = self._process
        kind, *rest = message
        if kind == "metadata":
            process.on_metadata(*rest)
        elif kind == "command":
            process.on_command(*rest)
        elif kind == "shutdown":
            process.on_shutdown_answered(*rest)
        elif session is self._session:
            # Refused: the holder is not the controller yet, or not for us.
            session.client_ended = True
            self._session = None
            self._redial()
            return
        if session is self._session:
            self._pause_ms = REDIAL_MS

    def on_broken(self, session: SessionStream) -> None:
        """Look whether the holder is dead, then dial again."""
        if session is not self._session:
            return
        session.client_ended = True
        self._session = None
        self._probe_holder(self._holder, 0)
        self._redial()

    def _probe_holder(self, identity: str, refused: int) -> None:
        holder = broker_of(identity)
        if holder is None:
            return
        process = self._process

        def on_verdict(verdict: ProbeVerdict) -> None:
            if verdict is ProbeVerdict.REFUSED and refused + 1 < REFUSED_PROBES_UNTIL_DEAD:
                process.world.virtual_time.after(
                    PROBE_INTERVAL_MS, process.deliver, self._probe_holder, identity, refused + 1
                )
            elif verdict in (ProbeVerdict.REFUSED, ProbeVerdict.OTHER_INCARNATION):
                process.step_controller(HolderDied(holder_identity=identity))

        incarnation = identity.partition("/")[2]
        process.world.probe(process, holder, incarnation, PROBE_DEADLINE_MS, on_verdict)


def identity_of(broker_id: BrokerId, incarnation: str) -> str:
    """Return how a broker signs the controller Lease."""
    return f"broker-{broker_id}/{incarnation}"


def broker_of(identity: str) -> BrokerId | None:
    """Return the broker of a holder identity, None if the Lease is free."""
    name, _, incarnation = identity.partition("/")
    return BrokerId(int(name.removeprefix("broker-"))) if incarnation else None

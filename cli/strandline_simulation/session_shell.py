"""Performs the effects of a broker's controller session: lookups, streams and probes.

The deciding is `strandline.controller_session`, the same as in a real broker (ADR 0019).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strandline.controller.events import ProbeVerdict
from strandline.controller.store_events import StoreOutcome
from strandline.controller_session import effects as done
from strandline.controller_session.controller_session import ControllerSession
from strandline.controller_session.events import (
    CommandPerformed,
    Event,
    HolderLookedUp,
    HolderProbed,
    HolderRead,
    MessageReceived,
    StreamBroken,
    TimePassed,
    TrashChanged,
)
from strandline.controller_session.messages import (
    ControllerMessage,
    Heartbeat,
    IsrProposal,
    ReplyRestoreReplica,
)
from strandline.core.events import ReplicaLoaded
from strandline.errors import ErrorCode
from strandline.model import LeaseRecord, StoredBroker, TopicPartition

from .driver import SimulatedDriver
from .environment import SimulatedEnvironment
from .network import Address, Channel, Delivery
from .probes import Prober
from .process_port import ProcessPort

RESTORE_MS = 5
"""How long a log needs to come back from the trash."""

_DELIVERIES: dict[type, Delivery] = {
    Heartbeat: Delivery.SKIPPABLE,
    IsrProposal: Delivery.REPEATABLE,
}
"""What the network may do to a message of a broker, if its delivery is not ONCE."""


class SimulatedSessionShell:
    """The broker's end of its session streams; on_shutdown_ended is the process's."""

    def __init__(
        self,
        environment: SimulatedEnvironment,
        port: ProcessPort,
        *,
        session: ControllerSession,
        prober: Prober,
        on_shutdown_ended: Callable[[], None],
    ) -> None:
        self._environment = environment
        self._port = port
        self._prober = prober
        self._on_shutdown_ended = on_shutdown_ended
        self._streams: dict[int, int] = {}
        """By session id; a closed one stays, so that late messages find their session."""
        self._session_ids: dict[int, int] = {}
        self._driver: SimulatedDriver[Event, done.Effect] = SimulatedDriver(
            session, port.life, perform=self._perform, tick=TimePassed()
        )

    def step(self, event: Event) -> None:
        """Step the session."""
        self._environment.trace.record(self._port.broker_id, event)
        self._driver.step(event)

    def on_message(self, stream: int, message: ControllerMessage) -> None:
        """Take a message of a controller, also a late one."""
        session_id = self._session_ids[stream]
        # Not into the trace: the machines that the message is for show it there.
        self._driver.step(MessageReceived(session_id=session_id, message=message))

    def on_stream_broken(self, stream: int) -> None:
        """Take note that a stream ended."""
        session_id = self._session_ids.get(stream)
        if session_id is not None:
            self.step(StreamBroken(session_id=session_id))

    def _perform(self, effects: Sequence[done.Effect]) -> None:
        port, own, network = self._port, self._port.life.address, self._environment.network
        for effect in effects:
            match effect:
                case done.SendMessage():
                    stream, message = self._streams[effect.session_id], effect.message
                    delivery = _DELIVERIES.get(type(message), Delivery.ONCE)
                    network.send_on(stream, own, message, delivery)
                case done.StepReplicas():
                    port.step_core(effect.event)
                case done.StepController():
                    port.step_controller(effect.event)
                case done.ReadHolder():
                    self._read_holder()
                case done.FindHolder():
                    self._find_holder(effect)
                case done.DialHolder():
                    holder = Address(effect.broker_id)
                    stream = network.open_stream(own, holder, Channel.SESSION)
                    self._streams[effect.session_id] = stream
                    self._session_ids[stream] = effect.session_id
                case done.CloseStream():
                    network.close_stream(self._streams[effect.session_id], own)
                case done.ProbeHolder():
                    self._probe(effect)
                case done.ShutdownEnded():
                    self._on_shutdown_ended()
                case done.RestoreReplicas():
                    port.life.deliver_after(RESTORE_MS, self._restore, effect)
                case _:
                    # Notices.
                    pass

    def _restore(self, effect: done.RestoreReplicas) -> None:
        """Take logs back from the trash; the replicas know of them before the session does."""
        disk = self._environment.disks[self._port.broker_id]
        results: list[tuple[TopicPartition, ErrorCode]] = []
        for tp in effect.partitions:
            restored = disk.restore(tp)
            error = ErrorCode.NONE if restored else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append((tp, error))
            if restored:
                hosted = next(each for each in disk.hosted() if each.tp == tp)
                self._port.step_core(ReplicaLoaded(hosted=hosted))
        self.step(TrashChanged(trashed=disk.trashed()))
        reply = ReplyRestoreReplica(
            request_id=effect.request_id, error=ErrorCode.NONE, partitions=tuple(results)
        )
        self.step(CommandPerformed(response=reply))

    def _read_holder(self) -> None:
        api = self._environment.api

        def on_read(_: StoreOutcome, found: LeaseRecord | None) -> None:
            if found is not None:
                self.step(HolderRead(holder_identity=found.holder_identity))

        api.call(self._port.life, lambda: api.store.lease, on_read)

    def _find_holder(self, effect: done.FindHolder) -> None:
        api = self._environment.api

        def on_found(_: StoreOutcome, found: StoredBroker | None) -> None:
            registration = None if found is None else found.registration
            self.step(HolderLookedUp(lookup_id=effect.lookup_id, registration=registration))

        api.call(self._port.life, lambda: api.store.brokers[effect.broker_id], on_found)

    def _probe(self, effect: done.ProbeHolder) -> None:
        def on_verdict(verdict: ProbeVerdict) -> None:
            self.step(HolderProbed(probe_id=effect.probe_id, verdict=verdict))

        self._prober.probe(effect.broker_id, effect.incarnation, effect.deadline_ms, on_verdict)

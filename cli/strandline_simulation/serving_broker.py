"""A registered process: the three pure machines, a shell for each, and one ear on the network.

Made by `Process` once it is registered. It hands what arrives to its parts, connects them, and
stops in order; it decides nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from enum import Enum
from typing import Any, get_args

from strandline.controller.events import ControllerEvent, StopRequested
from strandline.controller.store_events import ControllerEpochSeen, LeaseObserved
from strandline.controller_session.events import (
    ControllerIntroduced,
    HolderObserved,
    ShutdownBegun,
    VolumeChanged,
)
from strandline.controller_session.events import Event as SessionEvent
from strandline.controller_session.messages import BrokerMessage, ControllerMessage
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.events import Event as CoreEvent
from strandline.core.events import FetchResponseReceived, FollowerFetchReceived, ReplicaLoaded
from strandline.core.views import PartitionView
from strandline.model import ControllerEpoch, LeaseRecord, Registration, TopicPartition

from .broker_api import SimulatedBrokerApi
from .controller_shell import SimulatedControllerShell
from .core_shell import SimulatedCoreShell
from .environment import SimulatedEnvironment
from .machines import new_controller, new_replicas, new_session
from .messages import (
    ConsumeRequest,
    DeleteRecordsRequest,
    MetadataRequest,
    Probe,
    ProbeResponse,
    ProduceRequest,
)
from .network import Address, Channel, OnStream, Refused, StreamEnded
from .probes import Prober
from .process_life import ProcessLife
from .session_shell import SimulatedSessionShell

SHUTDOWN_MAX_MS = 1_200
RELEASE_MS = 30


class Phase(Enum):
    """How far an orderly stop is."""

    SERVING = "serving"
    MOVING_LEADERS = "moving leaders"
    RELEASING = "releasing"


class ServingBroker:
    """One process from its registration on; the port of its own parts (`ProcessPort`)."""

    def __init__(
        self, environment: SimulatedEnvironment, life: ProcessLife, registration: Registration
    ) -> None:
        self.life = life
        self.broker_id = life.broker_id
        self.incarnation = life.incarnation
        self._environment = environment
        self._disk = disk = environment.disks[life.broker_id]
        self._registration = registration
        self._phase = Phase.SERVING
        self._on_exit: Callable[[], None] = life.end
        timing = environment.plan.timing
        self._replicas = replicas = new_replicas(timing, registration, disk)
        self._controller = new_controller(timing, registration)
        metadata = MetadataCache(
            "c",
            now_ms=lambda: environment.virtual_time.now_ms,
            controller_epoch=disk.controller_epoch,
        )
        request_ids = itertools.count(1)
        self._prober = Prober(environment, life)
        self._broker_api = SimulatedBrokerApi(
            environment, self, replicas=replicas, metadata=metadata, request_ids=request_ids
        )
        self._core_shell = SimulatedCoreShell(
            environment,
            self,
            replicas=replicas,
            registration=registration,
            metadata=metadata,
            broker_api=self._broker_api,
            request_ids=request_ids,
        )
        self._controller_shell = SimulatedControllerShell(
            environment, self, controller=self._controller, prober=self._prober
        )
        self._session_shell = SimulatedSessionShell(
            environment,
            self,
            session=new_session(timing, registration, replicas, metadata, disk),
            prober=self._prober,
            on_shutdown_ended=self._finish_stop,
        )
        self.view: Callable[[TopicPartition], PartitionView | None] = replicas.view
        self.step_core: Callable[[CoreEvent], None] = self._core_shell.step
        self.step_controller: Callable[[ControllerEvent], None] = self._controller_shell.step
        self.step_session: Callable[[SessionEvent], None] = self._session_shell.step

    def begin(self) -> None:
        """Load what is on disk, listen, and follow the Lease."""
        life, environment = self.life, self._environment
        environment.network.register(life.address, self)
        environment.network.register(Address(life.broker_id), self)
        for hosted in self._disk.hosted():
            self.step_core(ReplicaLoaded(hosted=hosted))
        self.step_controller(ControllerEpochSeen(controller_epoch=self._disk.controller_epoch))
        environment.api.watch_lease(life, self._observe_lease)
        self.note_volume()

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.life.alive

    @property
    def is_listening(self) -> bool:
        """Whether the listener is open: it is closed before the controller Lease is released."""
        return self.life.alive and self._phase is not Phase.RELEASING

    @property
    def has_waiting_requests(self) -> bool:
        """Whether requests of clients wait in a purgatory."""
        waiting = self._replicas.purgatory_sizes()
        return (
            waiting["produce"] + waiting["delete_records"] > 0
            or self._broker_api.has_waiting_consumers
        )

    @property
    def active_epoch(self) -> ControllerEpoch | None:
        """The epoch of the active controller here, None while it is inactive."""
        return self._controller.epoch

    def note_volume(self) -> None:
        """Look whether the volume has room, as a real broker does twice a second."""
        self.life.deliver(self.step_session, VolumeChanged(is_full=self._disk.is_full))

    def receive(self, source: Address, value: object) -> None:
        """Take a value that arrived here; later if the process is paused."""
        self.life.deliver(_RECEIVERS[type(value)], self, source, value)

    def _on_stream(self, value: OnStream) -> None:
        _STREAM_RECEIVERS[type(value.message)](self, value.stream, value.message)

    def _on_stream_ended(self, stream: int) -> None:
        """Hand the end of a stream to all: each knows its own streams."""
        self._core_shell.on_stream_broken(stream)
        self._session_shell.on_stream_broken(stream)
        self._controller_shell.on_stream_broken(stream)

    def _on_probe(self, source: Address, probe: Probe) -> None:
        """Say which process this is; take the controller that a probe of this one introduces."""
        if probe.introduction is not None and probe.incarnation == self.incarnation:
            self.step_session(ControllerIntroduced(found=probe.introduction))
        response = ProbeResponse(probe_id=probe.probe_id, incarnation=self.incarnation)
        self._environment.network.send(self.life.address, source, response, Channel.PROBE)

    def _observe_lease(self, lease: LeaseRecord) -> None:
        """Take the controller Lease, as broker and as candidate."""
        self.step_session(HolderObserved(holder_identity=lease.holder_identity))
        self.step_controller(LeaseObserved(lease=lease))

    def stop(self, on_exit: Callable[[], None]) -> None:
        """Begin an orderly stop: leaders are moved first, within bounds."""
        if self._phase is Phase.SERVING:
            self._phase = Phase.MOVING_LEADERS
            self._on_exit = on_exit
            self.life.deliver_after(SHUTDOWN_MAX_MS, self._finish_stop)
            self.step_session(ShutdownBegun())

    def _finish_stop(self) -> None:
        if self._phase is Phase.MOVING_LEADERS:
            self._phase = Phase.RELEASING
            self._environment.network.unregister(Address(self.broker_id))
            self.step_controller(StopRequested())
            self.life.deliver_after(RELEASE_MS, self._exit)

    def _exit(self) -> None:
        self._disk.flush()
        self._disk.checkpoint(dict(self._replicas.high_watermarks()))
        self._disk.write_marker(self._registration.broker_epoch)
        self._on_exit()


_RECEIVERS: dict[type, Callable[[ServingBroker, Address, Any], None]] = {
    OnStream: lambda self, _, value: self._on_stream(value),
    StreamEnded: lambda self, _, ended: self._on_stream_ended(ended.stream),
    ProduceRequest: lambda self, source, value: self._broker_api.on_produce(source, value),
    ConsumeRequest: lambda self, source, value: self._broker_api.on_consume(source, value),
    DeleteRecordsRequest: lambda self, source, value: self._broker_api.on_delete(source, value),
    MetadataRequest: lambda self, source, _: self._broker_api.on_metadata(source),
    Probe: lambda self, source, probe: self._on_probe(source, probe),
    ProbeResponse: lambda self, _, value: self._prober.on_response(value),
    Refused: lambda self, _, refused: self._prober.on_refused(refused.value),
}
_STREAM_RECEIVERS: dict[type, Callable[[ServingBroker, int, Any], None]] = {
    FollowerFetchReceived: lambda self, stream, fetch: self._core_shell.on_fetch(stream, fetch),
    FetchResponseReceived: lambda self, _, found: self._core_shell.on_fetch_response(found),
    **dict.fromkeys(
        get_args(BrokerMessage),
        lambda self, stream, value: self._controller_shell.on_broker_message(stream, value),
    ),
    **dict.fromkeys(
        get_args(ControllerMessage),
        lambda self, stream, value: self._session_shell.on_message(stream, value),
    ),
}

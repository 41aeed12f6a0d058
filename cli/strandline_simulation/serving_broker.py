"""A registered process: the three pure machines, a shell for each, and one ear on the network.

Made by `Process` once it is registered. It hands what arrives to its parts, connects them, and
stops in order; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from strandline.controller.events import ControllerEvent, StopRequested
from strandline.controller.store_events import ControllerEpochSeen, LeaseObserved
from strandline.controller_session.controller_session import ControllerSession
from strandline.controller_session.events import Event as SessionEvent
from strandline.controller_session.events import HolderObserved, ShutdownBegun
from strandline.controller_session.messages import (
    CommandResponse,
    Heartbeat,
    Hello,
    IsrProposal,
    MetadataUpdate,
    SessionRefused,
    ShutdownRequest,
    ShutdownResponse,
)
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.events import (
    AlterPartitionResponseReceived,
    FetchResponseReceived,
    FollowerFetchReceived,
    LeaderAndIsrReceived,
    ReplicaLoaded,
    StopReplicaReceived,
)
from strandline.core.events import Event as CoreEvent
from strandline.core.views import PartitionView
from strandline.model import (
    ControllerEpoch,
    LeaseRecord,
    Registration,
    TopicPartition,
)

from .broker_api import SimulatedBrokerApi
from .controller_shell import SimulatedControllerShell, new_controller
from .core_shell import SimulatedCoreShell, new_replicas
from .disk import SimulatedDisk
from .driver import StepQueue
from .environment import SimulatedEnvironment
from .messages import (
    ConsumeRequest,
    MetadataRequest,
    Probe,
    ProbeResponse,
    ProduceRequest,
)
from .network import Address, Channel, OnStream, Refused, StreamEnded
from .probes import Prober
from .process_life import ProcessLife
from .request_ids import RequestIds
from .session_shell import SimulatedSessionShell, session_timing

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
        self,
        environment: SimulatedEnvironment,
        life: ProcessLife,
        *,
        registration: Registration,
        disk: SimulatedDisk,
    ) -> None:
        self.broker_id = life.broker_id
        self.incarnation = life.incarnation
        self.address = life.address
        self.deliver = life.deliver
        self.queue = StepQueue()
        self._environment = environment
        self._life = life
        self._disk = disk
        self._registration = registration
        self._phase = Phase.SERVING
        self._on_exit: Callable[[], None] = life.end
        timing = environment.plan.timing
        self._replicas = new_replicas(timing, registration, disk)
        self._controller = new_controller(timing, registration)
        metadata = MetadataCache("c", controller_epoch=disk.controller_epoch)
        session = ControllerSession(
            registration,
            replicas=self._replicas,
            metadata=metadata,
            timing=session_timing(timing),
        )
        request_ids = RequestIds()
        self._prober = Prober(environment, self)
        self._broker_api = SimulatedBrokerApi(
            environment,
            self,
            replicas=self._replicas,
            disk=disk,
            metadata=metadata,
            request_ids=request_ids,
        )
        self._core_shell = SimulatedCoreShell(
            environment,
            self,
            replicas=self._replicas,
            registration=registration,
            disk=disk,
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
            session=session,
            prober=self._prober,
            on_shutdown_ended=self._finish_stop,
        )

    def begin(self) -> None:
        """Load what is on disk, listen, and follow the Lease."""
        life, environment = self._life, self._environment
        environment.network.register(life.address, self)
        environment.network.register(Address(life.broker_id), self)
        for hosted in self._disk.hosted():
            self.step_core(ReplicaLoaded(hosted=hosted))
        self.step_controller(ControllerEpochSeen(controller_epoch=self._disk.controller_epoch))
        environment.api.watch_lease(self, self._observe_lease)

    # --- the port of the parts ------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._life.alive

    def step_core(self, event: CoreEvent) -> None:
        """Step the replicas."""
        self._core_shell.step(event)

    def step_controller(self, event: ControllerEvent) -> None:
        """Step the controller."""
        self._controller_shell.step(event)

    def step_session(self, event: SessionEvent) -> None:
        """Step the controller session."""
        self._session_shell.step(event)

    # --- what is seen from outside --------------------------------------------------------

    @property
    def is_listening(self) -> bool:
        """Whether the listener is open: it is closed before the controller Lease is released."""
        return self._life.alive and self._phase is not Phase.RELEASING

    @property
    def has_waiting_requests(self) -> bool:
        """Whether requests of clients wait in a purgatory."""
        return (
            self._broker_api.has_waiting_consumers
            or self._replicas.purgatory_sizes()["produce"] > 0
        )

    @property
    def active_epoch(self) -> ControllerEpoch | None:
        """The epoch of the active controller here, None while it is inactive."""
        return self._controller.epoch

    def view(self, tp: TopicPartition) -> PartitionView | None:
        """Return what the core has of a partition, None without a replica."""
        return self._replicas.view(tp)

    # --- the network ----------------------------------------------------------------------

    def receive(self, source: Address, value: object) -> None:
        """Take a value that arrived here; later if the process is paused."""
        self._life.deliver(_RECEIVERS[type(value)], self, source, value)

    def on_stream(self, _: Address, value: OnStream) -> None:
        """Hand a message to the part that it is for."""
        _STREAM_RECEIVERS[type(value.message)](self, value.stream, value.message)

    def on_stream_broken(self, _: Address, value: StreamEnded) -> None:
        """Hand the end of a stream to all: each knows its own streams."""
        self._core_shell.on_stream_broken(value.stream)
        self._session_shell.on_stream_broken(value.stream)
        self._controller_shell.on_stream_broken(value.stream)

    def on_probe(self, source: Address, probe: Probe) -> None:
        """Say which process this is."""
        response = ProbeResponse(probe_id=probe.probe_id, incarnation=self.incarnation)
        self._environment.network.send(self.address, source, response, Channel.PROBE)

    def _observe_lease(self, lease: LeaseRecord) -> None:
        """Take the controller Lease, as broker and as candidate."""
        self.step_session(HolderObserved(holder_identity=lease.holder_identity))
        self.step_controller(LeaseObserved(lease=lease))

    # --- stop -----------------------------------------------------------------------------

    def stop(self, on_exit: Callable[[], None]) -> None:
        """Begin an orderly stop: leaders are moved first, within bounds."""
        if self._phase is Phase.SERVING:
            self._phase = Phase.MOVING_LEADERS
            self._on_exit = on_exit
            self._environment.virtual_time.after(SHUTDOWN_MAX_MS, self.deliver, self._finish_stop)
            self.step_session(ShutdownBegun())

    def _finish_stop(self) -> None:
        if self._phase is Phase.MOVING_LEADERS:
            self._phase = Phase.RELEASING
            self._environment.network.unregister(Address(self.broker_id))
            self.step_controller(StopRequested())
            self._environment.virtual_time.after(RELEASE_MS, self.deliver, self._exit)

    def _exit(self) -> None:
        self._disk.flush()
        self._disk.high_watermarks = dict(self._replicas.high_watermarks())
        self._disk.marker_epoch = self._registration.broker_epoch
        self._on_exit()


_RECEIVERS: dict[type, Callable[[ServingBroker, Address, Any], None]] = {
    OnStream: ServingBroker.on_stream,
    StreamEnded: ServingBroker.on_stream_broken,
    ProduceRequest: lambda self, source, value: self._broker_api.on_produce(source, value),
    ConsumeRequest: lambda self, source, value: self._broker_api.on_consume(source, value),
    MetadataRequest: lambda self, source, _: self._broker_api.on_metadata(source),
    Probe: ServingBroker.on_probe,
    ProbeResponse: lambda self, _, value: self._prober.on_response(value),
    Refused: lambda self, _, refused: self._prober.on_refused(refused.value),
}

_StreamReceiver = Callable[[ServingBroker, int, Any], None]


def _to_session(self: ServingBroker, stream: int, message: Any) -> None:
    self._session_shell.on_message(stream, message)


def _to_controller(self: ServingBroker, stream: int, message: Any) -> None:
    self._controller_shell.on_broker_message(stream, message)


_STREAM_RECEIVERS: dict[type, _StreamReceiver] = {
    FollowerFetchReceived: lambda self, stream, fetch: self._core_shell.on_fetch(stream, fetch),
    FetchResponseReceived: lambda self, _, found: self._core_shell.on_fetch_response(found),
    **dict.fromkeys(
        (Heartbeat, IsrProposal, CommandResponse, Hello, ShutdownRequest), _to_controller
    ),
    **dict.fromkeys(
        (
            LeaderAndIsrReceived,
            StopReplicaReceived,
            MetadataUpdate,
            AlterPartitionResponseReceived,
            ShutdownResponse,
            SessionRefused,
        ),
        _to_session,
    ),
}

"""One process of a broker: core, controller, controller session, and their disk.

Starts as the runtime does: take the marker, decide the epochs, write meta, load logs, register
by compare-and-swap, then serve. A dead process takes nothing any more, a paused one later.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from strandline.controller.events import ControllerEvent, StopRequested
from strandline.controller.store_events import ControllerEpochSeen, LeaseObserved, StoreOutcome
from strandline.core import effects as done
from strandline.core.events import (
    Event,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    ReplicaLoaded,
    Ticked,
)
from strandline.core.replicas import Replicas
from strandline.core.settings import CoreSettings
from strandline.errors import ErrorCode
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    LeaseRecord,
    LiveBroker,
    PartitionCommand,
    PartitionState,
    Registration,
    StoredBroker,
    TopicPartition,
)
from strandline.start_decision import FoundOnDisk, damaged, decide_registration

from .controller_session import SimulatedControllerSession
from .controller_shell import SimulatedControllerShell
from .core_shell import SimulatedCoreShell
from .disk import SimulatedDisk
from .driver import SimulatedDriver
from .plan import Timing
from .prng import Prng, key_of
from .virtual_time import Callback

if TYPE_CHECKING:
    from .world import World

REGISTER_RETRY_MS = 100
SHUTDOWN_RETRY_MS = 100
SHUTDOWN_MAX_MS = 1_200
RELEASE_MS = 30


def core_settings(timing: Timing) -> CoreSettings:
    """Return the core's figures for a plan."""
    return CoreSettings(
        replica_lag_time_max_ms=timing.lag_max_ms,
        fetch_wait_max_ms=timing.fetch_wait_ms,
        fetch_backoff_ms=300,
        fetch_timeout_ms=timing.fetch_timeout_ms,
        high_watermark_checkpoint_interval_ms=timing.checkpoint_ms,
        isr_refusal_backoff_ms=timing.isr_refusal_backoff_ms,
        isr_request_timeout_ms=timing.isr_request_timeout_ms,
    )


class Process:
    """One process; serving from its registration on."""

    def __init__(
        self,
        world: World,
        *,
        broker_id: BrokerId,
        disk: SimulatedDisk,
        incarnation: str,
        boot_id: str,
    ) -> None:
        self.world = world
        self.broker_id = broker_id
        self.disk = disk
        self.incarnation = incarnation
        self.boot_id = boot_id
        self.alive = True
        self.paused = False
        self.serving = False
        self.stopping = False
        self.broker_epoch = BrokerEpoch(0)
        self.clean_since_epoch = BrokerEpoch(0)
        self.metadata: dict[TopicPartition, PartitionState] = {}
        self._inbox: deque[tuple[Callback, tuple[Any, ...]]] = deque()
        self.live: dict[BrokerId, LiveBroker] = {}
        self._metadata_epoch = ControllerEpoch(-1)
        self._prng = Prng(key_of(world.plan.seed, "process", broker_id, incarnation))
        self._marker = disk.marker_epoch
        disk.marker_epoch = None
        self._register()

    # --- life -----------------------------------------------------------------------------

    def deliver(self, callback: Callback, *arguments: object) -> None:
        """Run a callback in this process; later if it is paused, never if it is dead."""
        if not self.alive:
            return
        if self.paused:
            self._inbox.append((callback, arguments))
        else:
            callback(*arguments)

    def pause(self) -> None:
        """Freeze; what arrives waits."""
        self.paused = True

    def resume(self) -> None:
        """Go on with what has arrived meanwhile."""
        if not self.paused:
            return
        self.paused = False
        virtual_time = self.world.virtual_time
        while self._inbox:
            callback, arguments = self._inbox.popleft()
            virtual_time.after(0, self.deliver, callback, *arguments)

    def die(self) -> None:
        """End at once; what was under way to the disk may have reached it."""
        self.alive = False
        self._inbox.clear()
        self.disk.end_of_process(lambda: self._prng.chance(500))

    # --- start ----------------------------------------------------------------------------

    def _register(self) -> None:
        world = self.world
        store = world.store

        def on_read(outcome: StoreOutcome, found: tuple[StoredBroker, BrokerEpoch] | None) -> None:
            if outcome is not StoreOutcome.OK or found is None:
                self._register_later()
                return
            self._decide(*found)

        world.api.call(
            self,
            lambda: (
                store.brokers[self.broker_id],
                store.highest_entry_epoch(self.broker_id),
            ),
            on_read,
        )

    def _register_later(self) -> None:
        self.world.virtual_time.after(REGISTER_RETRY_MS, self.deliver, self._register)

    def _decide(self, found: StoredBroker, highest_entry_epoch: BrokerEpoch) -> None:
        stored, disk = found.registration, self.disk
        if stored is not None and stored.incarnation == self.incarnation:
            self._serve(stored)
            return
        found_on_disk = FoundOnDisk(
            log_dir_id=disk.log_dir_id,
            meta_epoch=disk.meta_epoch,
            marker_epoch=self._marker,
            boot_id=self.boot_id,
        )
        epochs = decide_registration(found_on_disk, stored, highest_entry_epoch=highest_entry_epoch)
        disk.meta_epoch = epochs.broker_epoch
        if disk.has_lost_logs():
            epochs = damaged(epochs)
        registration = Registration(
            broker_id=self.broker_id,
            broker_epoch=epochs.broker_epoch,
            clean_since_epoch=epochs.clean_since_epoch,
            incarnation=self.incarnation,
            endpoints=(Endpoint(listener="GRPC", host=f"b{self.broker_id}", port=1),),
            log_dir_id=disk.log_dir_id,
            boot_id=self.boot_id,
        )
        world = self.world

        def on_written(_: StoreOutcome, written: StoredBroker | None) -> None:
            if written is None:
                self._register_later()
            else:
                self._serve(registration)

        world.api.call(self, lambda: world.write_registration(found, registration), on_written)

    def _serve(self, registration: Registration) -> None:
        world, timing = self.world, self.world.plan.timing
        self.broker_epoch = registration.broker_epoch
        self.clean_since_epoch = registration.clean_since_epoch
        self.replicas = Replicas(
            self.broker_id,
            self.broker_epoch,
            self.clean_since_epoch,
            core_settings(timing),
            controller_epoch=self.disk.controller_epoch,
        )
        self.core_shell = SimulatedCoreShell(self)
        self._driver: SimulatedDriver[Event, done.Effect] = SimulatedDriver(
            self.replicas,
            virtual_time=world.virtual_time,
            deliver=self.deliver,
            perform=self.core_shell.perform,
            tick=Ticked(),
        )
        self.controller_shell = SimulatedControllerShell(self)
        self.controller_session = SimulatedControllerSession(self)
        self.serving = True
        for hosted in self.disk.hosted():
            self.step_core(ReplicaLoaded(hosted=hosted))
        self.step_controller(ControllerEpochSeen(controller_epoch=self.disk.controller_epoch))
        world.api.watch_lease(self, world.store.lease)

    # --- stop -----------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin an orderly stop: leaders are moved first, within bounds."""
        if self.stopping or not self.serving:
            return
        self.stopping = True
        self.world.virtual_time.after(SHUTDOWN_MAX_MS, self.deliver, self._finish_stop)
        self._request_shutdown(1)

    def _request_shutdown(self, number: int) -> None:
        if self.stopping:
            self.controller_session.request_shutdown(number)
            again = self.world.virtual_time.after
            again(SHUTDOWN_RETRY_MS, self.deliver, self._request_shutdown, number + 1)

    def on_shutdown_answered(self, _: int, error: ErrorCode, remaining: int) -> None:
        """Stop when this broker leads no partition any more."""
        if self.stopping and error is ErrorCode.NONE and remaining == 0:
            self._finish_stop()

    def _finish_stop(self) -> None:
        if self.stopping:
            self.stopping = False
            self.serving = False
            self.step_controller(StopRequested())
            self.world.virtual_time.after(RELEASE_MS, self.deliver, self._exit)

    def _exit(self) -> None:
        self.disk.flush()
        self.disk.high_watermarks = dict(self.replicas.high_watermarks())
        self.disk.marker_epoch = self.broker_epoch
        self.world.on_exit(self)

    # --- events ---------------------------------------------------------------------------

    def step_core(self, event: Event) -> None:
        """Step the replicas."""
        self.world.trace_event(self.broker_id, event)
        self._driver.step(event)

    def step_controller(self, event: ControllerEvent) -> None:
        """Step the controller."""
        self.controller_shell.step_controller(event)

    def observe_lease(self, lease: LeaseRecord) -> None:
        """Take the controller Lease, as candidate and as broker."""
        self.controller_session.observe_lease(lease)
        self.step_controller(LeaseObserved(lease=lease))

    def on_metadata(
        self,
        controller_epoch: ControllerEpoch,
        brokers: tuple[LiveBroker, ...],
        partitions: tuple[PartitionCommand, ...],
    ) -> None:
        """Take metadata unless an older controller sent it."""
        if controller_epoch < self._metadata_epoch:
            return
        self._metadata_epoch = controller_epoch
        self.live = {broker.broker_id: broker for broker in brokers}
        for command in partitions:
            known = self.metadata.get(command.tp)
            if known is None or known.partition_epoch <= command.state.partition_epoch:
                self.metadata[command.tp] = command.state
        self.step_core(LiveBrokersChanged(controller_epoch=controller_epoch, brokers=brokers))

    def on_command(self, event: Event) -> None:
        """Take a command or an answer of the controller."""
        if isinstance(event, LeaderAndIsrReceived):
            self.step_controller(ControllerEpochSeen(controller_epoch=event.controller_epoch))
        self.step_core(event)

"""Performs a controller's effects: store calls, probes, and its end of the sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from strandline import component_settings
from strandline.config.replication import ControllerConfig, ReplicationConfig
from strandline.config.timing import TimingConfig
from strandline.controller import effects as done
from strandline.controller.controller import Controller
from strandline.controller.events import (
    ControllerEvent,
    ProbeResponseReceived,
    ProbeVerdict,
    SessionBroken,
    Ticked,
)
from strandline.controller.notices import ControllerElected
from strandline.controller.store_events import (
    BrokerRead,
    ClusterLoaded,
    ControllerRecordResponseReceived,
    EpochFloorRead,
    LeaseResponseReceived,
    PartitionResponseReceived,
    StoreOutcome,
    TopicsRead,
)
from strandline.controller.timing import ControllerTiming, LeaseTiming
from strandline.controller_session.messages import BrokerMessage, Hello
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    StopReplicaReceived,
)
from strandline.model import BrokerId, ControllerEpoch, HolderIdentity, Registration

from .driver import SimulatedDriver
from .environment import SimulatedEnvironment
from .fault_counts import Anomaly
from .network import Address, Delivery
from .plan import Timing
from .probes import Prober
from .process_port import ProcessPort
from .session_messages import SessionEffect, events_of, messages_of

_REPEATABLE = (LeaderAndIsrReceived, StopReplicaReceived, AlterPartitionResponseReceived)


def controller_timing(timing: Timing) -> ControllerTiming:
    """Return the controller's figures for a plan: the configuration's, with the plan's times."""
    shipped = component_settings.controller(TimingConfig(), ControllerConfig(), ReplicationConfig())
    return replace(
        shipped,
        lease=LeaseTiming(
            lease_duration_ms=timing.lease_duration_ms,
            renew_deadline_ms=timing.renew_deadline_ms,
            retry_period_ms=timing.lease_retry_ms,
        ),
        session_timeout_ms=timing.session_timeout_ms,
        probe_deadline_ms=min(shipped.probe_deadline_ms, timing.session_timeout_ms),
        new_partition_wait_ms=500,
    )


def new_controller(timing: Timing, registration: Registration) -> Controller:
    """Return the controller of a process, a candidate."""
    broker_id, incarnation = registration.broker_id, registration.incarnation
    return Controller(
        broker_id=broker_id,
        identity=str(HolderIdentity(broker_id=broker_id, incarnation=incarnation)),
        rank=broker_id,
        timing=controller_timing(timing),
    )


class SimulatedControllerShell:
    """What one process does for its controller, acting or waiting."""

    def __init__(
        self,
        environment: SimulatedEnvironment,
        port: ProcessPort,
        *,
        controller: Controller,
        prober: Prober,
    ) -> None:
        self._environment = environment
        self._store = environment.api.store
        self._port = port
        self._prober = prober
        self._sessions: dict[int, BrokerId] = {}
        """By stream, whose number is the session id."""
        self._driver: SimulatedDriver[ControllerEvent, done.ControllerEffect] = SimulatedDriver(
            controller,
            virtual_time=environment.virtual_time,
            queue=port.queue,
            deliver=port.deliver,
            perform=self._perform,
            tick=Ticked(),
        )

    def step(self, event: ControllerEvent) -> None:
        """Step the controller."""
        self._environment.trace.record(self._port.broker_id, event)
        self._driver.step(event)

    # --- the server's end of sessions -----------------------------------------------------

    def on_broker_message(self, stream: int, message: BrokerMessage) -> None:
        """Take what a broker says; a hello opens its session."""
        if isinstance(message, Hello):
            self._sessions[stream] = message.broker_id
        broker_id = self._sessions.get(stream)
        if broker_id is not None:
            for event in events_of(message, session_id=stream, broker_id=broker_id):
                self._port.step_controller(event)

    def on_stream_broken(self, stream: int) -> None:
        """Take note that a stream ended."""
        broker_id = self._sessions.pop(stream, None)
        if broker_id is not None:
            self._port.step_controller(SessionBroken(session_id=stream, broker_id=broker_id))

    # --- effects --------------------------------------------------------------------------

    def _perform(self, effects: Sequence[done.ControllerEffect]) -> None:
        for effect in effects:
            perform = _PERFORMERS.get(type(effect))
            if perform is not None:
                perform(self, effect)
            elif isinstance(effect, ControllerElected):
                self._environment.trace.record(self._port.incarnation, effect)
                self._environment.tally.controllers_elected += 1

    def send(self, effect: SessionEffect) -> None:
        """Perform an effect on a session; one that is gone takes nothing."""
        if effect.session_id not in self._sessions:
            return
        own = Address(self._port.broker_id)
        for message in messages_of(effect, controller_id=self._port.broker_id):
            repeatable = isinstance(message, _REPEATABLE)
            delivery = Delivery.REPEATABLE if repeatable else Delivery.ONCE
            self._environment.network.send_on(effect.session_id, own, message, delivery)

    def close(self, effect: done.CloseSession) -> None:
        """Perform CloseSession; no SessionBroken follows."""
        self.send(effect)
        self._sessions.pop(effect.session_id, None)

    def read_lease(self, effect: done.ReadLease) -> None:
        """Perform ReadLease."""
        store, request_id = self._store, effect.request_id
        self._call(
            lambda: store.lease,
            lambda outcome, lease: LeaseResponseReceived(
                request_id=request_id, outcome=outcome, lease=lease
            ),
        )

    def write_lease(self, effect: done.WriteLease) -> None:
        """Perform WriteLease."""
        request_id = effect.request_id
        self._call(
            lambda: self._environment.api.write_lease(effect.lease),
            lambda outcome, lease: LeaseResponseReceived(
                request_id=request_id, outcome=outcome, lease=lease
            ),
        )

    def read_floor(self, effect: done.ReadEpochFloor) -> None:
        """Perform ReadEpochFloor."""
        store = self._store
        self._call(
            lambda: (store.partitions_epoch(), store.record),
            lambda outcome, found: EpochFloorRead(
                request_id=effect.request_id,
                outcome=outcome,
                partitions_epoch=ControllerEpoch(0) if found is None else found[0],
                record=None if found is None else found[1],
            ),
        )

    def read_record(self, effect: done.ReadControllerRecord) -> None:
        """Perform ReadControllerRecord."""
        self._call(
            lambda: self._store.record,
            lambda outcome, record: ControllerRecordResponseReceived(
                request_id=effect.request_id, outcome=outcome, record=record
            ),
        )

    def write_record(self, effect: done.WriteControllerRecord) -> None:
        """Perform WriteControllerRecord."""
        self._call(
            lambda: self._store.put_record(effect.record),
            lambda outcome, record: ControllerRecordResponseReceived(
                request_id=effect.request_id, outcome=outcome, record=record
            ),
        )

    def load(self, effect: done.LoadCluster) -> None:
        """Perform LoadCluster: quorum lists, then watches from there."""
        store = self._store

        def loaded(outcome: StoreOutcome, found: Any) -> ControllerEvent:
            partitions, brokers, version = found or ((), (), store.version)
            if version != store.version:
                self._environment.fault_counts[Anomaly.LIST_STALE] += 1
            return ClusterLoaded(
                request_id=effect.request_id,
                outcome=outcome,
                partitions=partitions,
                brokers=brokers,
                topics=(store.topic,),
            )

        self._call(
            lambda: (
                tuple(store.partitions.values()),
                tuple(store.brokers.values()),
                store.version,
            ),
            loaded,
            watch=self._port.step_controller,
        )

    def stop_watching(self, _: done.StopWatching) -> None:
        """Perform StopWatching."""
        self._environment.api.stop_watching(self._port)

    def read_partition(self, effect: done.ReadStoredPartition) -> None:
        """Perform ReadStoredPartition."""
        self._call(
            lambda: self._store.partitions[effect.name],
            lambda outcome, found: PartitionResponseReceived(
                request_id=effect.request_id, outcome=outcome, partition=found
            ),
        )

    def write_status(self, effect: done.WritePartitionStatus) -> None:
        """Perform WritePartitionStatus."""
        self._call(
            lambda: self._environment.api.write_status(self._port.broker_id, effect),
            lambda outcome, found: PartitionResponseReceived(
                request_id=effect.request_id, outcome=outcome, partition=found
            ),
        )

    def read_broker(self, effect: done.ReadBroker) -> None:
        """Perform ReadBroker."""
        self._call(
            lambda: self._store.brokers[effect.broker_id],
            lambda outcome, found: BrokerRead(
                request_id=effect.request_id, outcome=outcome, broker=found
            ),
        )

    def read_topics(self, effect: done.ReadTopics) -> None:
        """Perform ReadTopics."""
        self._call(
            lambda: (self._store.topic,),
            lambda outcome, found: TopicsRead(
                request_id=effect.request_id,
                outcome=outcome,
                topic_ids=frozenset(topic.topic_id for topic in found or ()),
                topics=found or (),
            ),
        )

    def probe(self, effect: done.ProbeBroker) -> None:
        """Perform ProbeBroker."""

        def on_verdict(verdict: ProbeVerdict) -> None:
            self._port.step_controller(
                ProbeResponseReceived(
                    request_id=effect.request_id, broker_id=effect.broker_id, verdict=verdict
                )
            )

        self._prober.probe(effect.broker_id, effect.incarnation, effect.deadline_ms, on_verdict)

    def _call(
        self,
        apply: Callable[[], Any],
        event: Callable[[StoreOutcome, Any], ControllerEvent],
        *,
        watch: Callable[[ControllerEvent], None] | None = None,
    ) -> None:
        def answer(outcome: StoreOutcome, found: Any) -> None:
            self._port.step_controller(event(outcome, found))

        self._environment.api.call(self._port, apply, answer, watch=watch)


_PERFORMERS: dict[type, Callable[[SimulatedControllerShell, Any], None]] = {
    done.ReadLease: SimulatedControllerShell.read_lease,
    done.WriteLease: SimulatedControllerShell.write_lease,
    done.ReadEpochFloor: SimulatedControllerShell.read_floor,
    done.ReadControllerRecord: SimulatedControllerShell.read_record,
    done.WriteControllerRecord: SimulatedControllerShell.write_record,
    done.LoadCluster: SimulatedControllerShell.load,
    done.StopWatching: SimulatedControllerShell.stop_watching,
    done.ReadStoredPartition: SimulatedControllerShell.read_partition,
    done.WritePartitionStatus: SimulatedControllerShell.write_status,
    done.ReadBroker: SimulatedControllerShell.read_broker,
    done.ReadTopics: SimulatedControllerShell.read_topics,
    done.ProbeBroker: SimulatedControllerShell.probe,
    done.CloseSession: SimulatedControllerShell.close,
    done.SendFullState: SimulatedControllerShell.send,
    done.SendLeaderAndIsr: SimulatedControllerShell.send,
    done.SendUpdateMetadata: SimulatedControllerShell.send,
    done.SendStopReplica: SimulatedControllerShell.send,
    done.ReplyAlterPartition: SimulatedControllerShell.send,
    done.ReplyControlledShutdown: SimulatedControllerShell.send,
}

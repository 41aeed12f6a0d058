"""Performs a controller's effects: store calls, probes, and its end of the sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    StopReplicaReceived,
)
from strandline.model import ControllerEpoch

from .controller_session import identity_of
from .driver import SimulatedDriver
from .fault_counts import Anomaly
from .plan import Timing
from .session_stream import SessionStream

if TYPE_CHECKING:
    from .process import Process


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


class SimulatedControllerShell:
    """The controller of one process, acting or waiting."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._sessions: dict[int, SessionStream] = {}
        self.controller = Controller(
            broker_id=process.broker_id,
            identity=identity_of(process.broker_id, process.incarnation),
            rank=process.broker_id,
            timing=controller_timing(process.world.plan.timing),
        )
        self._driver: SimulatedDriver[ControllerEvent, done.ControllerEffect] = SimulatedDriver(
            self.controller,
            virtual_time=process.world.virtual_time,
            deliver=process.deliver,
            perform=self._perform,
            tick=Ticked(),
        )

    def step_controller(self, event: ControllerEvent) -> None:
        """Step the controller."""
        self._world.trace_event(self._process.broker_id, event)
        self._driver.step(event)

    # --- the server's end of sessions -----------------------------------------------------

    def on_hello(self, session: SessionStream, events: tuple[ControllerEvent, ...]) -> None:
        """Open a session."""
        self._sessions[session.number] = session
        self.on_broker_message(session, events)

    def on_broker_message(
        self, session: SessionStream, events: tuple[ControllerEvent, ...]
    ) -> None:
        """Take the events of a broker."""
        if session.number in self._sessions:
            for event in events:
                self.step_controller(event)

    def on_broken(self, session: SessionStream) -> None:
        """Hear that a stream ended."""
        if self._sessions.pop(session.number, None) is not None:
            self.step_controller(
                SessionBroken(session_id=session.number, broker_id=session.client.broker_id)
            )

    def _send(self, session_id: int, *message: object, repeatable: bool = False) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            session.send_to_broker(message, repeatable=repeatable)

    # --- effects --------------------------------------------------------------------------

    def _perform(self, effects: Sequence[done.ControllerEffect]) -> None:
        for effect in effects:
            perform = _PERFORMERS.get(type(effect))
            if perform is None:
                self._world.on_controller_notice(self._process, effect)
            else:
                perform(self, effect)

    def read_lease(self, effect: done.ReadLease) -> None:
        """Perform ReadLease."""
        store, request_id = self._world.store, effect.request_id
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
            lambda: self._world.write_lease(effect.lease),
            lambda outcome, lease: LeaseResponseReceived(
                request_id=request_id, outcome=outcome, lease=lease
            ),
        )

    def read_floor(self, effect: done.ReadEpochFloor) -> None:
        """Perform ReadEpochFloor."""
        store = self._world.store
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
            lambda: self._world.store.record,
            lambda outcome, record: ControllerRecordResponseReceived(
                request_id=effect.request_id, outcome=outcome, record=record
            ),
        )

    def write_record(self, effect: done.WriteControllerRecord) -> None:
        """Perform WriteControllerRecord."""
        self._call(
            lambda: self._world.store.put_record(effect.record),
            lambda outcome, record: ControllerRecordResponseReceived(
                request_id=effect.request_id, outcome=outcome, record=record
            ),
        )

    def load(self, effect: done.LoadCluster) -> None:
        """Perform LoadCluster: quorum lists, then watches from there."""
        store = self._world.store

        def loaded(outcome: StoreOutcome, found: Any) -> ControllerEvent:
            partitions, brokers, version = found or ((), (), store.version)
            if version != store.version:
                self._world.fault_counts[Anomaly.LIST_STALE] += 1
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
            watch=True,
        )

    def stop_watching(self, _: done.StopWatching) -> None:
        """Perform StopWatching."""
        self._world.api.stop_watching(self._process)

    def read_partition(self, effect: done.ReadStoredPartition) -> None:
        """Perform ReadStoredPartition."""
        self._call(
            lambda: self._world.store.partitions[effect.name],
            lambda outcome, found: PartitionResponseReceived(
                request_id=effect.request_id, outcome=outcome, partition=found
            ),
        )

    def write_status(self, effect: done.WritePartitionStatus) -> None:
        """Perform WritePartitionStatus."""
        self._call(
            lambda: self._world.write_status(self._process, effect),
            lambda outcome, found: PartitionResponseReceived(
                request_id=effect.request_id, outcome=outcome, partition=found
            ),
        )

    def read_broker(self, effect: done.ReadBroker) -> None:
        """Perform ReadBroker."""
        self._call(
            lambda: self._world.store.brokers[effect.broker_id],
            lambda outcome, found: BrokerRead(
                request_id=effect.request_id, outcome=outcome, broker=found
            ),
        )

    def read_topics(self, effect: done.ReadTopics) -> None:
        """Perform ReadTopics."""
        self._call(
            lambda: (self._world.store.topic,),
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
            self.step_controller(
                ProbeResponseReceived(
                    request_id=effect.request_id, broker_id=effect.broker_id, verdict=verdict
                )
            )

        self._world.probe(
            self._process, effect.broker_id, effect.incarnation, effect.deadline_ms, on_verdict
        )

    def close(self, effect: done.CloseSession) -> None:
        """Perform CloseSession; no SessionBroken follows."""
        self._send(effect.session_id, "refused")
        self._sessions.pop(effect.session_id, None)

    def send_full_state(self, effect: done.SendFullState) -> None:
        """Perform SendFullState: metadata first, then the command."""
        epoch = effect.controller_epoch
        self._send(effect.session_id, "metadata", epoch, effect.brokers, effect.metadata)
        command = LeaderAndIsrReceived(
            request_id=effect.request_id,
            controller_epoch=epoch,
            broker_epoch=effect.broker_epoch,
            partitions=effect.partitions,
            full=True,
        )
        self._send(effect.session_id, "command", command, repeatable=True)

    def send_leader_and_isr(self, effect: done.SendLeaderAndIsr) -> None:
        """Perform SendLeaderAndIsr."""
        command = LeaderAndIsrReceived(
            request_id=effect.request_id,
            controller_epoch=effect.controller_epoch,
            broker_epoch=effect.broker_epoch,
            partitions=effect.partitions,
        )
        self._send(effect.session_id, "command", command, repeatable=True)

    def send_metadata(self, effect: done.SendUpdateMetadata) -> None:
        """Perform SendUpdateMetadata."""
        epoch = effect.controller_epoch
        self._send(effect.session_id, "metadata", epoch, effect.brokers, effect.partitions)

    def send_stop_replica(self, effect: done.SendStopReplica) -> None:
        """Perform SendStopReplica."""
        command = StopReplicaReceived(
            request_id=effect.request_id,
            controller_epoch=effect.controller_epoch,
            broker_epoch=effect.broker_epoch,
            partitions=effect.partitions,
        )
        self._send(effect.session_id, "command", command, repeatable=True)

    def reply_alter_partition(self, effect: done.ReplyAlterPartition) -> None:
        """Perform ReplyAlterPartition."""
        answer = AlterPartitionResponseReceived(
            request_id=effect.request_id,
            tp=effect.tp,
            error=effect.error,
            stored=effect.stored,
        )
        self._send(effect.session_id, "command", answer, repeatable=True)

    def reply_controlled_shutdown(self, effect: done.ReplyControlledShutdown) -> None:
        """Perform ReplyControlledShutdown."""
        self._send(effect.session_id, "shutdown", effect.request_id, effect.error, effect.remaining)

    def _call(
        self,
        apply: Callable[[], Any],
        event: Callable[[StoreOutcome, Any], ControllerEvent],
        *,
        watch: bool = False,
    ) -> None:
        def answer(outcome: StoreOutcome, found: Any) -> None:
            self.step_controller(event(outcome, found))

        self._world.api.call(self._process, apply, answer, watch=watch)


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
    done.SendFullState: SimulatedControllerShell.send_full_state,
    done.SendLeaderAndIsr: SimulatedControllerShell.send_leader_and_isr,
    done.SendUpdateMetadata: SimulatedControllerShell.send_metadata,
    done.SendStopReplica: SimulatedControllerShell.send_stop_replica,
    done.ReplyAlterPartition: SimulatedControllerShell.reply_alter_partition,
    done.ReplyControlledShutdown: SimulatedControllerShell.reply_controlled_shutdown,
}

"""Performs a controller's effects: store calls, probes, and its end of the sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, get_args

from strandline.controller import effects as done
from strandline.controller.controller import Controller
from strandline.controller.events import (
    ControllerEvent,
    LeaseHolderProbed,
    ProbeResponseReceived,
    ProbeVerdict,
    SessionBroken,
    Ticked,
)
from strandline.controller.notices import ControllerElected
from strandline.controller.store_events import (
    BrokerRead,
    ClusterLoaded,
    ClusterRecordResponseReceived,
    ControllerRecordResponseReceived,
    EpochFloorRead,
    LeaseResponseReceived,
    PartitionResponseReceived,
    StoreOutcome,
    TopicsRead,
)
from strandline.controller_session.messages import BrokerMessage, Hello
from strandline.controller_session.session_translation import events_of, messages_of
from strandline.core.events import (
    AlterPartitionResponseReceived,
    LeaderAndIsrReceived,
    StopReplicaReceived,
)
from strandline.model import BrokerId, ControllerEpoch

from .driver import SimulatedDriver
from .environment import SimulatedEnvironment
from .fault_counts import Anomaly
from .network import Address, Delivery
from .probes import Prober
from .process_port import ProcessPort

_REPEATABLE = (LeaderAndIsrReceived, StopReplicaReceived, AlterPartitionResponseReceived)


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
        self._api = environment.api
        self._store = environment.api.store
        self._port = port
        self._prober = prober
        self._sessions: dict[int, BrokerId] = {}
        """By stream, whose number is the session id."""
        self._driver: SimulatedDriver[ControllerEvent, done.ControllerEffect] = SimulatedDriver(
            controller, port.life, perform=self._perform, tick=Ticked()
        )

    def step(self, event: ControllerEvent) -> None:
        """Step the controller."""
        self._environment.trace.record(self._port.broker_id, event)
        self._driver.step(event)

    def on_broker_message(self, stream: int, message: BrokerMessage) -> None:
        """Take what a broker says; a hello opens its session."""
        if isinstance(message, Hello):
            self._sessions[stream] = message.broker_id
        broker_id = self._sessions.get(stream)
        if broker_id is not None:
            for event in events_of(message, session_id=stream, broker_id=broker_id):
                self.step(event)

    def on_stream_broken(self, stream: int) -> None:
        """Take note that a stream ended."""
        broker_id = self._sessions.pop(stream, None)
        if broker_id is not None:
            self.step(SessionBroken(session_id=stream, broker_id=broker_id))

    def _perform(self, effects: Sequence[done.ControllerEffect]) -> None:
        for effect in effects:
            perform = self._performers.get(type(effect))
            if perform is not None:
                perform(self, effect)

    def _elected(self, notice: ControllerElected) -> None:
        self._environment.trace.record(self._port.incarnation, notice)
        self._environment.invariants.on_controller_elected()

    def _send(self, effect: done.SessionEffect) -> None:
        """Send messages on a session; one that is gone takes nothing."""
        if effect.session_id not in self._sessions:
            return
        own = Address(self._port.broker_id)
        for message in messages_of(effect, controller_id=self._port.broker_id):
            repeatable = isinstance(message, _REPEATABLE)
            delivery = Delivery.REPEATABLE if repeatable else Delivery.ONCE
            self._environment.network.send_on(effect.session_id, own, message, delivery)

    def _close(self, effect: done.CloseSession) -> None:
        """Refuse a session; no SessionBroken follows."""
        self._send(effect)
        self._sessions.pop(effect.session_id, None)

    def _probe(self, effect: done.ProbeBroker) -> None:
        def on_verdict(verdict: ProbeVerdict) -> None:
            self.step(
                ProbeResponseReceived(
                    request_id=effect.request_id, broker_id=effect.broker_id, verdict=verdict
                )
            )

        self._prober.probe(
            effect.broker_id,
            effect.incarnation,
            effect.deadline_ms,
            on_verdict,
            effect.introduction,
        )

    def _probe_lease_holder(self, effect: done.ProbeLeaseHolder) -> None:
        def on_verdict(verdict: ProbeVerdict) -> None:
            self.step(LeaseHolderProbed(request_id=effect.request_id, verdict=verdict))

        self._prober.probe(effect.broker_id, effect.incarnation, effect.deadline_ms, on_verdict)

    def _read_lease(self, effect: done.ReadLease) -> None:
        self._call(effect, lambda: self._store.lease, LeaseResponseReceived, "lease")

    def _write_lease(self, effect: done.WriteLease) -> None:
        self._call(
            effect, lambda: self._api.write_lease(effect.lease), LeaseResponseReceived, "lease"
        )

    def _read_record(self, effect: done.ReadControllerRecord) -> None:
        self._call(effect, lambda: self._store.record, ControllerRecordResponseReceived, "record")

    def _write_record(self, effect: done.WriteControllerRecord) -> None:
        write = partial(self._store.put_record, effect.record)
        self._call(effect, write, ControllerRecordResponseReceived, "record")

    def _read_cluster(self, effect: done.ReadClusterRecord) -> None:
        self._call(effect, lambda: self._store.cluster, ClusterRecordResponseReceived, "record")

    def _write_cluster(self, effect: done.WriteClusterRecord) -> None:
        write = partial(self._store.put_cluster, effect.record)
        self._call(effect, write, ClusterRecordResponseReceived, "record")

    def _read_partition(self, effect: done.ReadStoredPartition) -> None:
        found = self._store.partitions
        self._call(effect, lambda: found[effect.name], PartitionResponseReceived, "partition")

    def _write_status(self, effect: done.WritePartitionStatus) -> None:
        write = partial(self._api.write_status, self._port.broker_id, effect)
        self._call(effect, write, PartitionResponseReceived, "partition")

    def _read_broker(self, effect: done.ReadBroker) -> None:
        self._call(effect, lambda: self._store.brokers[effect.broker_id], BrokerRead, "broker")

    def _call(
        self,
        effect: Any,
        apply: Callable[[], Any],
        event: Callable[..., ControllerEvent],
        field: str,
    ) -> None:
        """Call the store; `field` is where the event has the object that was read or written."""
        self._ask(effect, apply, event, lambda found: {field: found})

    def _read_floor(self, effect: done.ReadEpochFloor) -> None:
        def fields(found: Any) -> dict[str, Any]:
            epoch, record = found or (ControllerEpoch(0), None)
            return {"partitions_epoch": epoch, "record": record}

        store = self._store
        self._ask(effect, lambda: (store.partitions_epoch(), store.record), EpochFloorRead, fields)

    def _read_topics(self, effect: done.ReadTopics) -> None:
        def fields(found: Any) -> dict[str, Any]:
            cluster, topics = found or (None, ())
            ids = frozenset(each.topic_id for each in topics)
            return {"cluster": cluster, "topic_ids": ids, "topics": topics}

        store = self._store
        self._ask(effect, lambda: (store.cluster, store.topics), TopicsRead, fields)

    def _load(self, effect: done.LoadCluster) -> None:
        """List everything by quorum reads, and watch from there."""
        store = self._store

        def read() -> tuple[Any, ...]:
            found = tuple(store.partitions.values()), tuple(store.brokers.values())
            return *found, store.topics, store.cluster, store.version

        def fields(found: Any) -> dict[str, Any]:
            none_found = ((), (), (), None, store.version)
            partitions, brokers, topics, cluster, version = found or none_found
            if version != store.version:
                self._environment.fault_counts[Anomaly.LIST_STALE] += 1
            return {
                "cluster": cluster,
                "partitions": partitions,
                "brokers": brokers,
                "topics": topics,
            }

        self._ask(effect, read, ClusterLoaded, fields, watch=self.step)

    def _ask(
        self,
        effect: Any,
        apply: Callable[[], Any],
        event: Callable[..., ControllerEvent],
        fields: Callable[[Any], dict[str, Any]],
        *,
        watch: Callable[[ControllerEvent], None] | None = None,
    ) -> None:
        """Call the store; `fields` turns what it found, or None, into fields of the event."""

        def on_response(outcome: StoreOutcome, found: Any) -> None:
            self.step(event(request_id=effect.request_id, outcome=outcome, **fields(found)))

        self._api.call(self._port.life, apply, on_response, watch=watch)

    _performers: ClassVar[dict[type, Callable[[SimulatedControllerShell, Any], None]]] = {
        **dict.fromkeys(get_args(done.SessionEffect), _send),
        done.CloseSession: _close,
        done.ProbeBroker: _probe,
        done.ProbeLeaseHolder: _probe_lease_holder,
        done.ReadLease: _read_lease,
        done.WriteLease: _write_lease,
        done.ReadControllerRecord: _read_record,
        done.WriteControllerRecord: _write_record,
        done.ReadStoredPartition: _read_partition,
        done.WritePartitionStatus: _write_status,
        done.ReadBroker: _read_broker,
        done.ReadEpochFloor: _read_floor,
        done.ReadTopics: _read_topics,
        done.ReadClusterRecord: _read_cluster,
        done.WriteClusterRecord: _write_cluster,
        done.LoadCluster: _load,
        done.StopWatching: lambda self, _: self._api.stop_watching(self._port.life),
        ControllerElected: _elected,
    }

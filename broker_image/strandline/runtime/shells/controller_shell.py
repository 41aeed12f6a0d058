"""The shell of the pure controller: the store, the sessions, probes and the clock.

Every broker has one, because every broker may become the controller. Store calls run side by
side. The API client bounds the time of each, and each yields exactly one event; watches are
hints. Nothing is decided here: this module knows only which outcome a call had.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from strandline.config.kubernetes import KubernetesConfig
from strandline.controller import effects, store_events
from strandline.controller.controller import Controller
from strandline.controller.events import (
    ControllerEvent,
    LeaseHolderProbed,
    ProbeResponseReceived,
    ProbeVerdict,
    Ticked,
)
from strandline.controller.notices import ControllerNotice
from strandline.controller.store_events import StoreOutcome
from strandline.controller.topic_effects import TellAppliedConfig
from strandline.errors import CoordinationError, InvariantViolation, StoreUnavailable
from strandline.kube.api import Listed
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.lease import LeaseStore
from strandline.kube.objects import format_micro_time
from strandline.kube.waiting import WaitingReport
from strandline.kube.watch import Change
from strandline.log_fields import fields
from strandline.model import (
    GRPC_LISTENER,
    BrokerId,
    ClusterRecord,
    ControllerEpoch,
    LeaseRecord,
    LiveBroker,
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
    joined_address,
)
from strandline.rpc.probes import probe
from strandline.rpc.session_server import SessionServer
from strandline.runtime.event_loop.begun_tasks import BegunTasks
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.event_loop.driver import Driver

_log = logging.getLogger(__name__)
WATCH_RESTART_SECONDS = 0.2
"""Pause before a broken watch is reported, so that a sick API server is not flooded.

The controller then lists everything anew at once."""

Value = TypeVar("Value")


class ControllerShell:
    """The controller of this broker, acting or waiting."""

    def __init__(
        self,
        controller: Controller,
        *,
        store: ClusterStore,
        leases: LeaseStore,
        lease_name: str,
        sessions: SessionServer,
        live_broker: Callable[[BrokerId], LiveBroker | None],
        clock: Clock,
        kubernetes: KubernetesConfig,
        on_notice: Callable[[ControllerNotice], None],
        on_lease_written: Callable[[float], None],
        on_step: Callable[[ControllerEvent, float], None],
        on_broken_promise: Callable[[InvariantViolation], None],
    ) -> None:
        self._store = store
        self._leases = leases
        self._lease_name = lease_name
        self._sessions = sessions
        self._live_broker = live_broker
        self._clock = clock
        self._outage = WaitingReport(kubernetes)
        self._on_notice = on_notice
        self._on_lease_written = on_lease_written
        self._calls = BegunTasks()
        self._watches = BegunTasks()
        self._partitions: dict[str, StoredPartition] = {}
        self._topics: dict[str, StoredTopic] = {}
        self._driver: Driver[ControllerEvent, effects.ControllerEffect] = Driver(
            controller,
            perform=self._perform,
            tick=Ticked(),
            now_ms=clock.now_ms,
            on_broken_promise=on_broken_promise,
            on_step=on_step,
        )

    def submit(self, event: ControllerEvent) -> None:
        """Step the controller with an event of sessions, the Lease or the broker's life."""
        self._driver.submit(event)

    def start(self) -> None:
        """Send the first tick; each step then says when the next is due."""
        self._driver.submit(Ticked())

    async def stop(self) -> None:
        """End watches and outstanding calls; the controller must have been stopped before."""
        self._driver.stop()
        await self._calls.close()
        await self._watches.close()

    async def settled(self) -> None:
        """Wait until no store call is outstanding, the release of the Lease included."""
        await self._calls.all_done()

    def _perform(self, performed: Sequence[effects.ControllerEffect]) -> None:
        for effect in performed:
            if isinstance(effect, ControllerNotice):
                self._on_notice(effect)
            elif isinstance(effect, effects.SessionEffect):
                self._sessions.perform(effect)
            elif isinstance(effect, effects.StopWatching):
                self._watches.cancel()
            elif isinstance(effect, TellAppliedConfig):
                self._calls.begin(self._tell_applied_config(effect))
            else:
                self._calls.begin(self._call(effect))

    async def _tell_applied_config(self, effect: TellAppliedConfig) -> None:
        """Write it; the controller tells a failure by the topic, which stays as it was."""
        write = self._store.apply_applied_config(
            effect.name, effect.resource_version, effect.applied
        )
        await _outcome(write, writes=True)

    async def _call(self, effect: effects.ControllerEffect) -> None:
        self.submit(await self._response_to(effect))

    async def _response_to(self, effect: effects.ControllerEffect) -> ControllerEvent:
        match effect:
            case effects.WritePartitionStatus(request_id=request_id):
                write = self._store.put_partition_status(
                    effect.name, effect.resource_version, effect.state
                )
                outcome, stored = await _outcome(write, writes=True)
            case effects.ReadStoredPartition(request_id=request_id, name=name):
                outcome, stored = await _outcome(self._store.get_partition(name))
            case effects.ReadBroker(request_id=request_id, broker_id=broker_id):
                outcome, broker = await _outcome(self._store.find_broker(broker_id))
                return store_events.BrokerRead(
                    request_id=request_id, outcome=outcome, broker=broker
                )
            case effects.ReadTopics(request_id=request_id):
                return await self._read_topics(request_id)
            case effects.ReadClusterRecord() | effects.WriteClusterRecord():
                return await self._response_about_cluster(effect)
            case effects.LoadCluster(request_id=request_id):
                return await self._load(request_id)
            case effects.ProbeBroker():
                return await _probe(effect)
            case _:
                return await self._response_to_election(effect)
        return store_events.PartitionResponseReceived(
            request_id=request_id, outcome=outcome, partition=stored
        )

    async def _response_to_election(self, effect: effects.ControllerEffect) -> ControllerEvent:
        match effect:
            case effects.ReadLease(request_id=request_id):
                outcome, lease = await _outcome(self._leases.get(self._lease_name))
                return self._lease_response(request_id, outcome, lease)
            case effects.WriteLease(request_id=request_id, lease=lease):
                return self._lease_response(request_id, *await self._write_lease(lease))
            case effects.ReadEpochFloor(request_id=request_id):
                return await self._read_floor(request_id)
            case effects.ReadControllerRecord(request_id=request_id):
                outcome, record = await _outcome(self._store.get_controller_record())
            case effects.WriteControllerRecord(request_id=request_id):
                write = self._store.put_controller_record(effect.record)
                outcome, record = await _outcome(write, writes=True)
            case effects.ProbeLeaseHolder():
                return await self._probe_lease_holder(effect)
            case _:
                raise InvariantViolation("every effect has a performer", effect=effect)
        return store_events.ControllerRecordResponseReceived(
            request_id=request_id, outcome=outcome, record=record
        )

    async def _response_about_cluster(
        self, effect: effects.ReadClusterRecord | effects.WriteClusterRecord
    ) -> ControllerEvent:
        if isinstance(effect, effects.ReadClusterRecord):
            outcome, record = await _outcome(self._store.get_cluster_record())
        else:
            write = self._store.put_cluster_record(effect.record)
            outcome, record = await _outcome(write, writes=True)
        return store_events.ClusterRecordResponseReceived(
            request_id=effect.request_id, outcome=outcome, record=record
        )

    async def _probe_lease_holder(self, effect: effects.ProbeLeaseHolder) -> ControllerEvent:
        holder = self._live_broker(effect.broker_id)
        endpoint = None if holder is None else holder.endpoint(GRPC_LISTENER)
        if endpoint is None:
            # Without an address nothing is proved.
            return LeaseHolderProbed(request_id=effect.request_id, verdict=ProbeVerdict.ANSWERED)
        verdict = await probe(
            joined_address(endpoint.host, endpoint.port),
            broker_id=effect.broker_id,
            incarnation=effect.incarnation,
            deadline_ms=effect.deadline_ms,
        )
        return LeaseHolderProbed(request_id=effect.request_id, verdict=verdict)

    async def _write_lease(self, lease: LeaseRecord) -> tuple[StoreOutcome, LeaseRecord | None]:
        now = format_micro_time(self._clock.wall_time_us())
        stamped = replace(
            lease, acquire_time=lease.acquire_time or now, renew_time=lease.renew_time or now
        )
        begun_ms = self._clock.now_ms()
        outcome, written = await _outcome(self._leases.put(stamped), writes=True)
        if outcome is StoreOutcome.OK:
            self._on_lease_written((self._clock.now_ms() - begun_ms) / 1000)
        return outcome, written

    def _lease_response(
        self, request_id: int, outcome: StoreOutcome, lease: LeaseRecord | None
    ) -> store_events.LeaseResponseReceived:
        """Return the response; log an outage here, because every broker reads the Lease often."""
        if outcome is StoreOutcome.UNKNOWN:
            self._outage.waiting_for("controller Lease", "no usable answer from the API server")
        else:
            self._outage.reset()
        return store_events.LeaseResponseReceived(
            request_id=request_id, outcome=outcome, lease=lease
        )

    async def _read_floor(self, request_id: int) -> store_events.EpochFloorRead:
        outcome, found = await _outcome(self._store.list_partitions())
        record = None
        if outcome is StoreOutcome.OK:
            outcome, record = await _outcome(self._store.get_controller_record())
        states = [partition.state for partition in found.items] if found else []
        epochs = (state.controller_epoch for state in states if state)
        return store_events.EpochFloorRead(
            request_id=request_id,
            outcome=outcome,
            partitions_epoch=max(epochs, default=ControllerEpoch(0)),
            record=record,
        )

    async def _read_topics(self, request_id: int) -> store_events.TopicsRead:
        """Read BrokerCluster, topics, then ids: a topic whose id is missing then is deleted."""
        outcome, found = await _outcome(self._list_topics())
        if found is None:
            return store_events.TopicsRead(request_id=request_id, outcome=outcome)
        cluster, topics, ids = found
        return store_events.TopicsRead(
            request_id=request_id,
            outcome=outcome,
            cluster=cluster,
            topic_ids=ids,
            topics=topics.items,
        )

    async def _list_topics(
        self,
    ) -> tuple[ClusterRecord | None, Listed[StoredTopic], frozenset[TopicId]]:
        return (
            await self._store.get_cluster_record(),
            await self._store.list_topics(),
            await self._store.list_topic_ids(),
        )

    async def _load(self, request_id: int) -> store_events.ClusterLoaded:
        self._watches.cancel()
        outcome, listed = await _outcome(self._list_all())
        if listed is None:
            return store_events.ClusterLoaded(request_id=request_id, outcome=outcome)
        cluster, partitions, brokers, topics = listed
        self._partitions = {partition.name: partition for partition in partitions.items}
        self._topics = {topic.name: topic for topic in topics.items}
        self._watch(self._store.watch_partitions(partitions.resource_version), self._on_partition)
        self._watch(self._store.watch_brokers(brokers.resource_version), self._on_broker)
        self._watch(self._store.watch_topics(topics.resource_version), self._on_topic)
        return store_events.ClusterLoaded(
            request_id=request_id,
            outcome=StoreOutcome.OK,
            cluster=cluster,
            partitions=partitions.items,
            brokers=brokers.items,
            topics=topics.items,
        )

    async def _list_all(
        self,
    ) -> tuple[
        ClusterRecord | None, Listed[StoredPartition], Listed[StoredBroker], Listed[StoredTopic]
    ]:
        return (
            await self._store.get_cluster_record(),
            await self._store.list_partitions(),
            await self._store.list_brokers(),
            await self._store.list_topics(),
        )

    def _watch(
        self,
        changes: AsyncGenerator[Change[Value], None],
        on_change: Callable[[Change[Value]], None],
    ) -> None:
        async def run() -> None:
            try:
                async with aclosing(changes):
                    async for change in changes:
                        on_change(change)
            except CoordinationError as error:
                _log.warning("watch lost", extra=fields(cause=str(error)))
                await asyncio.sleep(WATCH_RESTART_SECONDS)
                self.submit(store_events.WatchLost())

        self._watches.begin(run())

    def _on_partition(self, change: Change[StoredPartition]) -> None:
        if change.value is not None:
            self._partitions[change.name] = change.value
            self.submit(store_events.PartitionObserved(partition=change.value))
        elif (gone := self._partitions.pop(change.name, None)) is not None:
            self.submit(store_events.PartitionDeleted(name=gone.name, tp=gone.tp))

    def _on_broker(self, change: Change[StoredBroker]) -> None:
        if change.value is not None:
            self.submit(store_events.BrokerObserved(broker=change.value))

    def _on_topic(self, change: Change[StoredTopic]) -> None:
        if change.value is not None:
            self._topics[change.name] = change.value
            self.submit(store_events.TopicObserved(topic=change.value))
        elif (gone := self._topics.pop(change.name, None)) is not None:
            self.submit(store_events.TopicDeleted(topic_id=gone.topic_id))


async def _outcome(
    call: Awaitable[Value], *, writes: bool = False
) -> tuple[StoreOutcome, Value | None]:
    """Return the outcome of a call: a refused call wrote nothing, an unanswered one may have."""
    try:
        return StoreOutcome.OK, await call
    except StoreUnavailable as error:
        _log.debug("store call unanswered", extra=fields(cause=str(error)))
        return StoreOutcome.UNKNOWN, None
    except CoordinationError as error:
        _log.debug("store call refused", extra=fields(cause=str(error)))
        return (StoreOutcome.CONFLICT if writes else StoreOutcome.UNKNOWN), None


async def _probe(effect: effects.ProbeBroker) -> ProbeResponseReceived:
    verdict = ProbeVerdict.NO_ANSWER
    for endpoint in effect.endpoints:
        if endpoint.listener == GRPC_LISTENER:
            verdict = await probe(
                joined_address(endpoint.host, endpoint.port),
                broker_id=effect.broker_id,
                incarnation=effect.incarnation,
                deadline_ms=effect.deadline_ms,
                introduction=effect.introduction,
            )
    return ProbeResponseReceived(
        request_id=effect.request_id, broker_id=effect.broker_id, verdict=verdict
    )

"""Performs a core's effects: the disk, and the replication streams to leaders and followers.

The simulator's counterpart of the runtime's performer. Performing writes the disk at once and
sends or schedules everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from strandline import component_settings
from strandline.config.replication import ReplicationConfig
from strandline.config.timing import TimingConfig
from strandline.controller_session.events import CommandPerformed, IsrProposed
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core import effects as done
from strandline.core.events import (
    Event,
    FetchedPartition,
    FetchFailed,
    FetchResponseReceived,
    FollowerFetchReceived,
    RecordsHandle,
    RequestCancelled,
    StatePersisted,
    Ticked,
)
from strandline.core.replicas import Replicas
from strandline.core.settings import CoreSettings
from strandline.errors import ErrorCode
from strandline.model import BrokerId, Registration

from .broker_api import SimulatedBrokerApi
from .disk import RecordLog, SimulatedDisk, StoredBatch, new_batch
from .driver import SimulatedDriver
from .environment import SimulatedEnvironment
from .network import Address, Channel, Delivery
from .plan import Timing
from .prng import Prng, key_of
from .process_port import ProcessPort
from .request_ids import RequestIds


def core_settings(timing: Timing) -> CoreSettings:
    """Return the core's figures for a plan: the configuration's, with the plan's times."""
    return replace(
        component_settings.core(TimingConfig(), ReplicationConfig()),
        replica_lag_time_max_ms=timing.lag_max_ms,
        fetch_wait_max_ms=timing.fetch_wait_ms,
        fetch_timeout_ms=timing.fetch_timeout_ms,
        high_watermark_checkpoint_interval_ms=timing.checkpoint_ms,
        isr_refusal_backoff_ms=timing.isr_refusal_backoff_ms,
        isr_request_timeout_ms=timing.isr_request_timeout_ms,
    )


def new_replicas(timing: Timing, registration: Registration, disk: SimulatedDisk) -> Replicas:
    """Return the core of a process, without the replicas on its disk."""
    return Replicas(
        registration.broker_id,
        registration.broker_epoch,
        registration.clean_since_epoch,
        core_settings(timing),
        controller_epoch=disk.controller_epoch,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _WaitingFetch:
    """A follower's unanswered fetch: its stream, and the request id that the follower uses."""

    stream: int
    request_id: int


@dataclass(slots=True, kw_only=True)
class _LeaderStream:
    """The stream to a leader, and the id of the one fetch that is out on it, if any."""

    leader: BrokerId
    stream: int
    request_id: int | None = None


class SimulatedCoreShell:
    """What one process does for its core, and what it remembers of open requests."""

    def __init__(
        self,
        environment: SimulatedEnvironment,
        port: ProcessPort,
        *,
        replicas: Replicas,
        registration: Registration,
        disk: SimulatedDisk,
        metadata: MetadataCache,
        broker_api: SimulatedBrokerApi,
        request_ids: RequestIds,
    ) -> None:
        self._environment = environment
        self._port = port
        self._registration = registration
        self._disk = disk
        self._metadata = metadata
        self._broker_api = broker_api
        self._request_ids = request_ids
        self._waiting_fetches: dict[int, _WaitingFetch] = {}
        self._leader_streams: dict[BrokerId, _LeaderStream] = {}
        # The names below belong to the seed: other names would draw other delays.
        key = key_of(environment.plan.seed, "hands", port.broker_id, port.incarnation)
        self._prng = Prng(key)
        self._last_state_write_ms = 0
        self._driver: SimulatedDriver[Event, done.Effect] = SimulatedDriver(
            replicas,
            virtual_time=environment.virtual_time,
            queue=port.queue,
            deliver=port.deliver,
            perform=self._perform,
            tick=Ticked(),
        )

    def step(self, event: Event) -> None:
        """Step the replicas."""
        self._environment.trace.record(self._port.broker_id, event)
        self._driver.step(event)

    # --- streams --------------------------------------------------------------------------

    def on_fetch(self, stream: int, event: FollowerFetchReceived) -> None:
        """Take a follower's fetch."""
        request_id = self._request_ids.next()
        waiting = _WaitingFetch(stream=stream, request_id=event.request_id)
        self._waiting_fetches[request_id] = waiting
        self._port.step_core(replace(event, request_id=request_id))

    def on_fetch_response(self, response: FetchResponseReceived) -> None:
        """Take a leader's response, also a late one."""
        stream = self._leader_streams.get(response.leader)
        if stream is not None and stream.request_id == response.request_id:
            stream.request_id = None
        self._port.step_core(response)

    def on_stream_broken(self, number: int) -> None:
        """Forget what waits for a follower that is gone; a fetch from a leader has failed."""
        gone = [key for key, fetch in self._waiting_fetches.items() if fetch.stream == number]
        for request_id in gone:
            del self._waiting_fetches[request_id]
            self._port.step_core(RequestCancelled(request_id=request_id))
        for stream in list(self._leader_streams.values()):
            if stream.stream == number:
                del self._leader_streams[stream.leader]
                if stream.request_id is not None:
                    failed = FetchFailed(request_id=stream.request_id, leader=stream.leader)
                    self._port.step_core(failed)

    # --- effects: the disk ----------------------------------------------------------------

    def _perform(self, effects: Sequence[done.Effect]) -> None:
        for effect in effects:
            _PERFORMERS[type(effect)](self, effect)
        self._environment.invariants.after_step(self._port)

    def create(self, effect: done.CreateReplica) -> None:
        """Perform CreateReplica."""
        self._disk.logs.setdefault(effect.tp, RecordLog())

    def persist(self, effect: done.PersistState) -> None:
        """Perform PersistState: done some time later, in order."""
        virtual_time, conditions = self._environment.virtual_time, self._environment.conditions
        delay_ms = self._prng.between(1, conditions.now.state_write_max_ms)
        done_ms = max(virtual_time.now_ms + delay_ms, self._last_state_write_ms)
        self._last_state_write_ms = done_ms
        self._disk.state_writes.append(effect)
        virtual_time.at(done_ms, self._persisted, effect)

    def _persisted(self, effect: done.PersistState) -> None:
        if self._port.alive:
            self._disk.write_state(effect)
            self._port.deliver(self._port.step_core, StatePersisted(token=effect.token))

    def append_as_leader(self, effect: done.AppendAsLeader) -> None:
        """Perform AppendAsLeader."""
        values = cast("tuple[int, ...]", effect.records)
        log = self._disk.logs[effect.tp]
        log.append(new_batch(effect.base_offset, effect.leader_epoch, values))

    def append_as_follower(self, effect: done.AppendAsFollower) -> None:
        """Perform AppendAsFollower."""
        log = self._disk.logs[effect.tp]
        for batch in cast("tuple[StoredBatch, ...]", effect.records)[: effect.batch_count]:
            log.append(batch)

    def truncate(self, effect: done.TruncateTo) -> None:
        """Perform TruncateTo."""
        self._disk.logs[effect.tp].truncate_to(effect.offset)
        self._environment.invariants.on_truncated(self._port.broker_id, effect.tp, effect.offset)

    def restart_log(self, effect: done.RestartLogAt) -> None:
        """Perform RestartLogAt."""
        self._disk.logs[effect.tp].restart_at(effect.offset)
        self._environment.invariants.on_truncated(self._port.broker_id, effect.tp, 0)

    def write_epochs(self, effect: done.WriteEpochCheckpoint) -> None:
        """Perform WriteEpochCheckpoint: epochs are rebuilt from batches, nothing to keep."""

    def write_high_watermarks(self, effect: done.WriteHighWatermarkCheckpoint) -> None:
        """Perform WriteHighWatermarkCheckpoint."""
        self._disk.high_watermarks = dict(effect.high_watermarks)

    def delete(self, effect: done.DeleteReplica) -> None:
        """Perform DeleteReplica."""
        self._disk.logs.pop(effect.tp, None)
        self._disk.persisted.pop(effect.tp, None)

    # --- effects: the network -------------------------------------------------------------

    def reply_produce(self, effect: done.ReplyProduce) -> None:
        """Perform ReplyProduce."""
        self._broker_api.reply_produce(effect)

    def complete_fetch(self, effect: done.CompleteFetch) -> None:
        """Perform CompleteFetch."""
        self._broker_api.complete_fetch(effect)

    def reply_fetch(self, effect: done.ReplyFetch) -> None:
        """Perform ReplyFetch: read the log now, send the response."""
        waiting = self._waiting_fetches.pop(effect.request_id, None)
        if waiting is None:
            return
        response = FetchResponseReceived(
            request_id=waiting.request_id,
            leader=self._port.broker_id,
            partitions=tuple(map(self._fetched, effect.partitions)),
        )
        self._environment.network.send_on(
            waiting.stream,
            Address(self._port.broker_id),
            response,
            Delivery.REPEATABLE,
        )

    def _fetched(self, part: done.LogReadInfo) -> FetchedPartition:
        batches = self._read(part)
        return FetchedPartition(
            tp=part.tp,
            error=part.error,
            high_watermark=part.high_watermark,
            log_start_offset=part.log_start_offset,
            batches=tuple(batch.span for batch in batches),
            records=RecordsHandle(batches),
            diverging=part.diverging,
        )

    def _read(self, part: done.LogReadInfo) -> tuple[StoredBatch, ...]:
        if part.error is not ErrorCode.NONE or part.from_offset >= part.up_to_offset:
            return ()
        return tuple(
            self._disk.logs[part.tp].read(
                from_offset=part.from_offset,
                up_to_offset=part.up_to_offset,
                batches_max=self._environment.plan.timing.fetch_batches_max,
            )
        )

    def send_fetch(self, effect: done.SendFetch) -> None:
        """Perform SendFetch; without an address it has failed, a moment later."""
        leader, environment = effect.leader, self._environment
        if self._metadata.live_broker(leader) is None:
            failed = FetchFailed(request_id=effect.request_id, leader=leader)
            environment.virtual_time.after(1, self._port.deliver, self._port.step_core, failed)
            return
        stream = self._leader_streams.get(leader)
        if stream is None:
            number = environment.network.open_stream(
                self._port.address, Address(leader), Channel.FETCH
            )
            stream = self._leader_streams[leader] = _LeaderStream(leader=leader, stream=number)
        stream.request_id = effect.request_id
        fetch = FollowerFetchReceived(
            request_id=effect.request_id,
            follower=self._port.broker_id,
            broker_epoch=self._registration.broker_epoch,
            clean_since_epoch=self._registration.clean_since_epoch,
            max_wait_ms=effect.max_wait_ms,
            partitions=effect.partitions,
        )
        environment.network.send_on(stream.stream, self._port.address, fetch, Delivery.REPEATABLE)

    def propose(self, effect: done.ProposeIsr) -> None:
        """Perform ProposeIsr."""
        self._environment.invariants.on_proposed(self._port, effect)
        self._port.step_session(IsrProposed(proposal=effect))

    def reply_to_controller(self, effect: done.ReplyLeaderAndIsr | done.ReplyStopReplica) -> None:
        """Perform ReplyLeaderAndIsr and ReplyStopReplica."""
        self._port.step_session(CommandPerformed(response=effect))

    def on_notice(self, notice: done.Notice) -> None:
        """Hand a notice to the invariants."""
        self._environment.invariants.on_notice(self._port, notice)


_PERFORMERS: dict[type, Callable[[SimulatedCoreShell, Any], None]] = {
    done.CreateReplica: SimulatedCoreShell.create,
    done.PersistState: SimulatedCoreShell.persist,
    done.AppendAsLeader: SimulatedCoreShell.append_as_leader,
    done.AppendAsFollower: SimulatedCoreShell.append_as_follower,
    done.TruncateTo: SimulatedCoreShell.truncate,
    done.RestartLogAt: SimulatedCoreShell.restart_log,
    done.WriteEpochCheckpoint: SimulatedCoreShell.write_epochs,
    done.WriteHighWatermarkCheckpoint: SimulatedCoreShell.write_high_watermarks,
    done.DeleteReplica: SimulatedCoreShell.delete,
    done.ReplyProduce: SimulatedCoreShell.reply_produce,
    done.CompleteFetch: SimulatedCoreShell.complete_fetch,
    done.ReplyFetch: SimulatedCoreShell.reply_fetch,
    done.SendFetch: SimulatedCoreShell.send_fetch,
    done.ProposeIsr: SimulatedCoreShell.propose,
    done.ReplyLeaderAndIsr: SimulatedCoreShell.reply_to_controller,
    done.ReplyStopReplica: SimulatedCoreShell.reply_to_controller,
    done.BecameLeader: SimulatedCoreShell.on_notice,
    done.BecameFollower: SimulatedCoreShell.on_notice,
    done.IsrChanged: SimulatedCoreShell.on_notice,
    done.IsrProposalRefused: SimulatedCoreShell.on_notice,
    done.HighWatermarkAdvanced: SimulatedCoreShell.on_notice,
    done.Truncated: SimulatedCoreShell.on_notice,
    done.Fenced: SimulatedCoreShell.on_notice,
    done.RequestExpired: SimulatedCoreShell.on_notice,
    done.ReplicaFailed: SimulatedCoreShell.on_notice,
}

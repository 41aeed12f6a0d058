"""Performs a core's effects: the disk, and the replication streams to leaders and followers.

The simulator's counterpart of the runtime's performer. Performing writes the disk at once and
sends or schedules everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast, get_args

from strandline.controller_session.events import CommandPerformed, IsrProposed, TrashChanged
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core import effects as done
from strandline.core.events import (
    Event,
    FetchedPartition,
    FetchFailed,
    FetchResponseReceived,
    FollowerFetchReceived,
    LogFlushed,
    LogStartPersisted,
    RecordsHandle,
    RequestCancelled,
    StatePersisted,
    Ticked,
)
from strandline.core.notices import Notice
from strandline.core.replicas import Replicas
from strandline.errors import ErrorCode
from strandline.model import BrokerId, Registration, TopicPartition

from .broker_api import SimulatedBrokerApi
from .disk import RecordLog, StoredBatch, new_batch
from .driver import SimulatedDriver
from .environment import SimulatedEnvironment
from .network import Address, Channel, Delivery
from .prng import Prng, key_of
from .process_port import ProcessPort

BATCH_BYTES = 4 << 20
"""What a batch counts for where copies are bounded: a few already hold the next ones back."""


class _WaitingFetch(NamedTuple):
    """A follower's unanswered fetch: its stream, and the request id that the follower uses."""

    stream: int
    request_id: int


@dataclass(slots=True)
class _LeaderStream:
    """The stream to a leader, and the id of the one fetch that is out on it, if any."""

    stream: int
    request_id: int | None = None


def _without_records(fetched: FetchedPartition) -> FetchedPartition:
    return replace(fetched, batches=(), records=RecordsHandle(()))


class SimulatedCoreShell:
    """What one process does for its core, and what it remembers of open requests."""

    def __init__(
        self,
        environment: SimulatedEnvironment,
        port: ProcessPort,
        *,
        replicas: Replicas,
        registration: Registration,
        metadata: MetadataCache,
        broker_api: SimulatedBrokerApi,
        request_ids: Iterator[int],
    ) -> None:
        self._environment = environment
        self._port = port
        self._registration = registration
        self._disk = environment.disks[port.broker_id]
        self._metadata = metadata
        self._broker_api = broker_api
        self._request_ids = request_ids
        self._waiting_fetches: dict[int, _WaitingFetch] = {}
        self._leader_streams: dict[BrokerId, _LeaderStream] = {}
        # The names below belong to the seed: other names would draw other delays.
        key = key_of(environment.plan.seed, "hands", port.broker_id, port.incarnation)
        self._prng = Prng(key)
        self._last_state_write_ms = 0
        sync_key = key_of(environment.plan.seed, "syncs", port.broker_id, port.incarnation)
        self._sync_prng = Prng(sync_key)
        self._syncing: set[TopicPartition] = set()
        self._driver: SimulatedDriver[Event, done.Effect] = SimulatedDriver(
            replicas, port.life, perform=self._perform, tick=Ticked()
        )

    def step(self, event: Event) -> None:
        """Step the replicas."""
        self._environment.trace.record(self._port.broker_id, event)
        self._driver.step(event)

    def on_fetch(self, stream: int, event: FollowerFetchReceived) -> None:
        """Take a follower's fetch."""
        request_id = next(self._request_ids)
        self._waiting_fetches[request_id] = _WaitingFetch(stream, event.request_id)
        self.step(replace(event, request_id=request_id))

    def on_fetch_response(self, response: FetchResponseReceived) -> None:
        """Take a leader's response, also a late one; records that have no room are left out.

        In a plan whose full followers tell nothing, such a fetch has failed.
        """
        stream = self._leader_streams.get(response.leader)
        if self._disk.is_full and any(fetched.batches for fetched in response.partitions):
            if not self._environment.plan.full_followers_tell:
                if stream is not None:
                    del self._leader_streams[response.leader]
                self.step(FetchFailed(request_id=response.request_id, leader=response.leader))
                return
            kept = tuple(map(_without_records, response.partitions))
            response = replace(response, partitions=kept)
        if stream is not None and stream.request_id == response.request_id:
            stream.request_id = None
        self.step(response)

    def on_stream_broken(self, number: int) -> None:
        """Forget what waits for a follower that is gone; a fetch from a leader has failed."""
        gone = [key for key, fetch in self._waiting_fetches.items() if fetch.stream == number]
        for request_id in gone:
            del self._waiting_fetches[request_id]
            self.step(RequestCancelled(request_id=request_id))
        for leader, stream in list(self._leader_streams.items()):
            if stream.stream == number:
                del self._leader_streams[leader]
                if stream.request_id is not None:
                    self.step(FetchFailed(request_id=stream.request_id, leader=leader))

    def _perform(self, effects: Sequence[done.Effect]) -> None:
        for effect in effects:
            self._performers[type(effect)](self, effect)
        self._environment.invariants.after_step(self._port)

    def _create(self, effect: done.CreateReplica) -> None:
        self._disk.create_log(effect.tp)
        self._begin_sync(effect.tp)

    def _persist(self, effect: done.PersistState) -> None:
        """Write the state file some time later, in order."""
        virtual_time, conditions = self._environment.virtual_time, self._environment.conditions
        delay_ms = self._prng.between(1, conditions.now.state_write_max_ms)
        done_ms = max(virtual_time.now_ms + delay_ms, self._last_state_write_ms)
        self._last_state_write_ms = done_ms
        self._disk.begin_state_write(effect)
        virtual_time.at(done_ms, self._on_written, effect)

    def _on_written(self, effect: done.PersistState) -> None:
        if self._port.alive:
            self._disk.write_state(effect)
            self._port.life.deliver(self.step, StatePersisted(token=effect.token))

    def _append_as_leader(self, effect: done.AppendAsLeader) -> None:
        values = cast("tuple[int, ...]", effect.records)
        log = self._disk.logs[effect.tp]
        log.append(new_batch(effect.base_offset, effect.leader_epoch, values))
        self._begin_sync(effect.tp)

    def _append_as_follower(self, effect: done.AppendAsFollower) -> None:
        log = self._disk.logs[effect.tp]
        for batch in cast("tuple[StoredBatch, ...]", effect.records)[: effect.batch_count]:
            log.append(batch)
        self._begin_sync(effect.tp)

    def _begin_sync(self, tp: TopicPartition) -> None:
        """Bring a log to disk some time later, as far as it goes now; one sync at a time."""
        if not self._disk.flushes or tp in self._syncing:
            return
        self._syncing.add(tp)
        log = self._disk.logs[tp]
        delay_ms = self._sync_prng.between(1, self._environment.conditions.now.sync_max_ms)
        self._environment.virtual_time.after(delay_ms, self._on_synced, tp, log, log.end, log.cuts)

    def _on_synced(self, tp: TopicPartition, log: RecordLog, offset: int, cuts: int) -> None:
        """Have records on disk, also if the process is paused and hears of it later."""
        if not self._port.alive:
            return
        if log.cuts == cuts:
            log.flush_to(offset)
        self._port.life.deliver(self._end_sync, tp, log, offset, cuts)

    def _end_sync(self, tp: TopicPartition, log: RecordLog, offset: int, cuts: int) -> None:
        """Tell of a sync unless a cut or a deletion overtook it; begin the next one if due."""
        self._syncing.remove(tp)
        if self._disk.logs.get(tp) is log and log.cuts == cuts:
            self.step(LogFlushed(tp=tp, offset=offset))
        present = self._disk.logs.get(tp)
        if present is not None and present.flushed < present.end:
            self._begin_sync(tp)

    def _truncate(self, effect: done.TruncateTo) -> None:
        self._disk.logs[effect.tp].truncate_to(effect.offset)
        self._environment.invariants.on_truncated(self._port.broker_id, effect.tp, effect.offset)

    def _restart_log(self, effect: done.RestartLogAt) -> None:
        self._disk.logs[effect.tp].restart_at(effect.offset)
        self._environment.invariants.on_truncated(self._port.broker_id, effect.tp, 0)

    def _persist_log_start(self, effect: done.PersistLogStart) -> None:
        """Write the log start checkpoint some time later; a process that ends may not have."""
        self._environment.invariants.on_log_start(self._port, effect.tp, effect.offset)
        delay_ms = self._prng.between(1, self._environment.conditions.now.state_write_max_ms)
        self._environment.virtual_time.after(delay_ms, self._on_log_start_written, effect)

    def _on_log_start_written(self, effect: done.PersistLogStart) -> None:
        log = self._disk.logs.get(effect.tp)
        if self._port.alive and log is not None and effect.offset <= log.end:
            log.checkpoint_start(effect.offset)
            persisted = LogStartPersisted(tp=effect.tp, offset=effect.offset)
            self._port.life.deliver(self.step, persisted)

    def _delete_segments(self, effect: done.DeleteSegmentsBelow) -> None:
        self._disk.logs[effect.tp].delete_below(effect.offset)

    def _write_high_watermarks(self, effect: done.WriteHighWatermarkCheckpoint) -> None:
        self._disk.checkpoint(dict(effect.high_watermarks))

    def _delete(self, effect: done.DeleteReplica) -> None:
        self._disk.delete(effect.tp)
        self._environment.invariants.on_deleted(self._port.broker_id, effect.tp)
        self._port.step_session(TrashChanged(trashed=self._disk.trashed()))

    def _reply_fetch(self, effect: done.ReplyFetch) -> None:
        """Read the log now, send the response; a follower that is gone gets none."""
        waiting = self._waiting_fetches.pop(effect.request_id, None)
        if waiting is None:
            return
        response = FetchResponseReceived(
            request_id=waiting.request_id,
            leader=self._port.broker_id,
            partitions=tuple(map(self._fetched, effect.partitions)),
        )
        own = Address(self._port.broker_id)
        self._environment.network.send_on(waiting.stream, own, response, Delivery.REPEATABLE)

    def _fetched(self, part: done.LogReadInfo) -> FetchedPartition:
        batches: tuple[StoredBatch, ...] = ()
        if part.error is ErrorCode.NONE and part.from_offset < part.up_to_offset:
            batches = self._disk.logs[part.tp].read(
                from_offset=part.from_offset,
                up_to_offset=part.up_to_offset,
                batches_max=self._environment.plan.timing.fetch_batches_max,
            )
        return FetchedPartition(
            tp=part.tp,
            error=part.error,
            high_watermark=part.high_watermark,
            log_start_offset=part.log_start_offset,
            batches=tuple(batch.span for batch in batches),
            records=RecordsHandle(batches),
            record_bytes=len(batches) * BATCH_BYTES,
            diverging=part.diverging,
        )

    def _send_fetch(self, effect: done.SendFetch) -> None:
        """Send a fetch; without an address it has failed, a moment later."""
        self._environment.invariants.on_fetch_sent(self._port, effect)
        leader, life, network = effect.leader, self._port.life, self._environment.network
        if self._metadata.live_broker(leader) is None:
            failed = FetchFailed(request_id=effect.request_id, leader=leader)
            life.deliver_after(1, self.step, failed)
            return
        stream = self._leader_streams.get(leader)
        if stream is None:
            number = network.open_stream(life.address, Address(leader), Channel.FETCH)
            stream = self._leader_streams[leader] = _LeaderStream(number)
        stream.request_id = effect.request_id
        fetch = FollowerFetchReceived(
            request_id=effect.request_id,
            follower=self._port.broker_id,
            broker_epoch=self._registration.broker_epoch,
            clean_since_epoch=self._registration.clean_since_epoch,
            max_wait_ms=effect.max_wait_ms,
            partitions=effect.partitions,
            changes=effect.changes,
            without_records=self._disk.is_full and self._environment.plan.full_followers_tell,
        )
        network.send_on(stream.stream, life.address, fetch, Delivery.REPEATABLE)

    def _propose(self, effect: done.ProposeIsr) -> None:
        self._environment.invariants.on_proposed(effect)
        self._port.step_session(IsrProposed(proposal=effect))

    def _reply_to_controller(self, effect: done.ReplyLeaderAndIsr | done.ReplyStopReplica) -> None:
        self._port.step_session(CommandPerformed(response=effect))

    def _on_notice(self, notice: Notice) -> None:
        self._environment.invariants.on_notice(self._port, notice)

    _performers: ClassVar[dict[type, Callable[[SimulatedCoreShell, Any], None]]] = {
        done.CreateReplica: _create,
        done.PersistState: _persist,
        done.AppendAsLeader: _append_as_leader,
        done.AppendAsFollower: _append_as_follower,
        done.TruncateTo: _truncate,
        done.RestartLogAt: _restart_log,
        done.PersistLogStart: _persist_log_start,
        done.DeleteSegmentsBelow: _delete_segments,
        done.WriteEpochCheckpoint: lambda *_: None,  # epochs are rebuilt from batches
        done.WriteHighWatermarkCheckpoint: _write_high_watermarks,
        done.DeleteReplica: _delete,
        done.ReplyProduce: lambda self, effect: self._broker_api.reply_produce(effect),
        done.ReplyDeleteRecords: lambda self, effect: self._broker_api.reply_deleted(effect),
        done.CompleteFetch: lambda self, effect: self._broker_api.complete_fetch(effect),
        done.ReplyFetch: _reply_fetch,
        done.SendFetch: _send_fetch,
        done.ProposeIsr: _propose,
        done.ReplyLeaderAndIsr: _reply_to_controller,
        done.ReplyStopReplica: _reply_to_controller,
        **dict.fromkeys(get_args(Notice), _on_notice),
    }

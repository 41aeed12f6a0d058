"""Performs a core's effects: the disk, and messages to followers, leaders and clients.

The simulator's counterpart of the runtime's performer. Performing never steps a machine: it
writes the disk at once and schedules everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from strandline.core import effects as done
from strandline.core.events import (
    DelayedFetchReceived,
    FetchedPartition,
    FetchFailed,
    FetchResponseReceived,
    FollowerFetchReceived,
    ProduceReceived,
    RecordsHandle,
    StatePersisted,
)
from strandline.errors import ErrorCode
from strandline.model import Acks, BrokerId, TopicPartition

from .clients import ConsumerRequest, ProducerRequest
from .disk import RecordLog, StoredBatch, new_batch
from .prng import Prng, key_of
from .virtual_time import Callback

if TYPE_CHECKING:
    from .process import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetch:
    """A follower's unanswered fetch: the follower, and the request id that it uses."""

    follower: Process
    request_id: int


class SimulatedCoreShell:
    """What one process does for its core, and what it remembers of open requests."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.world = process.world
        self.waiting_consumers: dict[int, ConsumerRequest] = {}
        self._fetches: dict[int, FollowerFetch] = {}
        self._produces: dict[int, tuple[ProducerRequest, int, tuple[int, ...]]] = {}
        self._arriving_batches: dict[TopicPartition, list[StoredBatch]] = {}
        # The names below belong to the seed: other names would draw other delays.
        key = key_of(process.world.plan.seed, "hands", process.broker_id, process.incarnation)
        self._prng = Prng(key)
        self._last_request_id = 0
        self._last_state_write_ms = 0

    # --- requests -------------------------------------------------------------------------

    def on_fetch(self, follower: Process, event: FollowerFetchReceived) -> None:
        """Take a follower's fetch."""
        request_id = self._next_request_id()
        self._fetches[request_id] = FollowerFetch(follower=follower, request_id=event.request_id)
        self.process.step_core(replace(event, request_id=request_id))

    def on_fetched(
        self, event: FetchResponseReceived, batches: dict[TopicPartition, list[StoredBatch]]
    ) -> None:
        """Take a leader's answer; the batches last as long as the step."""
        self._arriving_batches = batches
        self.process.step_core(event)
        self._arriving_batches = {}

    def on_produce(
        self, sender: ProducerRequest, attempt: int, tp: TopicPartition, values: tuple[int, ...]
    ) -> None:
        """Take a producer's batch."""
        request_id = self._next_request_id()
        self._produces[request_id] = (sender, attempt, values)
        self.process.step_core(
            ProduceReceived(
                request_id=request_id,
                tp=tp,
                acks=Acks.ALL,
                record_count=len(values),
                records=RecordsHandle(values),
                timeout_ms=self.world.clients.request_timeout_ms,
            )
        )

    def on_consume(self, sender: ConsumerRequest, tp: TopicPartition, position: int) -> None:
        """Let a consumer read what it may see, or wait for more."""
        read = self.process.replicas.read_for_consumer(
            tp, fetch_offset=position, leader_epoch=None, last_fetched_epoch=None
        )
        values: list[int] = []
        if read.error is ErrorCode.NONE:
            log = self.process.disk.logs[tp]
            values = log.values[position - log.start : read.up_to_offset - log.start]
            self.world.invariants.on_read(self.process, tp, position, values)
        wait_ms = sender.op.wait_ms
        if read.error is ErrorCode.NONE and not values and wait_ms and not sender.waited:
            request_id = self._next_request_id()
            self.waiting_consumers[request_id] = sender
            watches = ((tp, read.high_watermark),)
            self.process.step_core(
                DelayedFetchReceived(request_id=request_id, watches=watches, max_wait_ms=wait_ms)
            )
            return
        self._to_client(sender.client, sender.on_read, read.error, position + len(values))

    def _to_client(self, client: int, callback: Callback, *arguments: object) -> None:
        self.world.network.send(self.process.broker_id, client, "client", callback, *arguments)

    def _next_request_id(self) -> int:
        self._last_request_id += 1
        return self._last_request_id

    # --- effects --------------------------------------------------------------------------

    def perform(self, effects: Sequence[done.Effect]) -> None:
        """Do what the core decided, in its order."""
        for effect in effects:
            _PERFORMERS[type(effect)](self, effect)
        self.world.invariants.after_step(self.process)

    def create(self, effect: done.CreateReplica) -> None:
        """Perform CreateReplica."""
        self.process.disk.logs.setdefault(effect.tp, RecordLog())

    def persist(self, effect: done.PersistState) -> None:
        """Perform PersistState: done some time later, in order."""
        virtual_time = self.world.virtual_time
        delay_ms = self._prng.between(1, self.world.conditions.state_write_max_ms)
        done_ms = max(virtual_time.now_ms + delay_ms, self._last_state_write_ms)
        self._last_state_write_ms = done_ms
        self.process.disk.state_writes.append(effect)
        virtual_time.at(done_ms, self._persisted, effect)

    def _persisted(self, effect: done.PersistState) -> None:
        if self.process.alive:
            self.process.disk.write_state(effect)
            self.process.deliver(self.process.step_core, StatePersisted(token=effect.token))

    def append_as_leader(self, effect: done.AppendAsLeader) -> None:
        """Perform AppendAsLeader."""
        values = self._produces[effect.request_id][2]
        log = self.process.disk.logs[effect.tp]
        log.append(new_batch(effect.base_offset, effect.leader_epoch, values))

    def append_as_follower(self, effect: done.AppendAsFollower) -> None:
        """Perform AppendAsFollower."""
        log = self.process.disk.logs[effect.tp]
        for batch in self._arriving_batches[effect.tp][: effect.batch_count]:
            log.append(batch)

    def truncate(self, effect: done.TruncateTo) -> None:
        """Perform TruncateTo."""
        self.process.disk.logs[effect.tp].truncate_to(effect.offset)
        self.world.invariants.on_truncated(self.process.broker_id, effect.tp, effect.offset)

    def restart_log(self, effect: done.RestartLogAt) -> None:
        """Perform RestartLogAt."""
        self.process.disk.logs[effect.tp].restart_at(effect.offset)
        self.world.invariants.on_truncated(self.process.broker_id, effect.tp, 0)

    def write_epochs(self, effect: done.WriteEpochCheckpoint) -> None:
        """Perform WriteEpochCheckpoint: epochs are rebuilt from batches, nothing to keep."""

    def write_high_watermarks(self, effect: done.WriteHighWatermarkCheckpoint) -> None:
        """Perform WriteHighWatermarkCheckpoint."""
        self.process.disk.high_watermarks = dict(effect.high_watermarks)

    def delete(self, effect: done.DeleteReplica) -> None:
        """Perform DeleteReplica."""
        self.process.disk.logs.pop(effect.tp, None)
        self.process.disk.persisted.pop(effect.tp, None)

    def reply_produce(self, effect: done.ReplyProduce) -> None:
        """Perform ReplyProduce: from now on an acknowledged record counts."""
        sender, attempt, values = self._produces.pop(effect.request_id)
        if effect.error is ErrorCode.NONE:
            self.world.invariants.on_acknowledged(
                self.process, effect.tp, effect.base_offset, values
            )
        self._to_client(sender.client, sender.on_response, attempt, effect.error)

    def complete_fetch(self, effect: done.CompleteFetch) -> None:
        """Perform CompleteFetch: the consumer reads again and does not wait a second time."""
        sender = self.waiting_consumers.pop(effect.request_id)
        sender.waited = True
        self._to_client(sender.client, sender.send_again)

    def reply_fetch(self, effect: done.ReplyFetch) -> None:
        """Perform ReplyFetch: read the log now, send the answer."""
        waiting = self._fetches.pop(effect.request_id)
        batches_max = self.world.plan.timing.fetch_batches_max
        found: dict[TopicPartition, list[StoredBatch]] = {}
        parts: list[FetchedPartition] = []
        for part in effect.partitions:
            batches: list[StoredBatch] = []
            if part.error is ErrorCode.NONE and part.from_offset < part.up_to_offset:
                batches = self.process.disk.logs[part.tp].read(
                    from_offset=part.from_offset,
                    up_to_offset=part.up_to_offset,
                    batches_max=batches_max,
                )
            found[part.tp] = batches
            parts.append(
                FetchedPartition(
                    tp=part.tp,
                    error=part.error,
                    high_watermark=part.high_watermark,
                    log_start_offset=part.log_start_offset,
                    batches=tuple(batch.span for batch in batches),
                    diverging=part.diverging,
                )
            )
        answer = FetchResponseReceived(
            request_id=waiting.request_id, leader=self.process.broker_id, partitions=tuple(parts)
        )
        follower = waiting.follower
        if not self.world.network.send(
            self.process.broker_id,
            follower.broker_id,
            "answer",
            follower.deliver,
            follower.core_shell.on_fetched,
            answer,
            found,
            repeatable=True,
        ):
            follower.core_shell.fetch_failed_after(
                self.world.plan.timing.break_detected_ms, waiting.request_id, self.process.broker_id
            )

    def send_fetch(self, effect: done.SendFetch) -> None:
        """Perform SendFetch; without an address it has failed, a moment later."""
        timing, leader = self.world.plan.timing, effect.leader
        if leader not in self.process.live:
            self.fetch_failed_after(1, effect.request_id, leader)
            return
        fetch = FollowerFetchReceived(
            request_id=effect.request_id,
            follower=self.process.broker_id,
            broker_epoch=self.process.broker_epoch,
            clean_since_epoch=self.process.clean_since_epoch,
            max_wait_ms=effect.max_wait_ms,
            partitions=effect.partitions,
        )
        on_arrival = self.world.deliver_fetch
        if not self.world.network.send(
            self.process.broker_id,
            leader,
            "fetch",
            on_arrival,
            leader,
            self.process,
            fetch,
            repeatable=True,
        ):
            self.fetch_failed_after(timing.break_detected_ms, effect.request_id, leader)

    def fetch_failed_after(self, delay_ms: int, request_id: int, leader: BrokerId) -> None:
        """Hear after a while that a fetch did not come back."""
        failed = FetchFailed(request_id=request_id, leader=leader)
        self.world.virtual_time.after(
            delay_ms, self.process.deliver, self.process.step_core, failed
        )

    def propose(self, effect: done.ProposeIsr) -> None:
        """Perform ProposeIsr."""
        self.world.invariants.on_proposed(self.process, effect)
        self.process.controller_session.propose(effect)

    def reply_to_controller(self, effect: done.ReplyLeaderAndIsr | done.ReplyStopReplica) -> None:
        """Perform ReplyLeaderAndIsr and ReplyStopReplica."""
        self.process.controller_session.answer(effect)

    def on_notice(self, notice: done.Notice) -> None:
        """Hand a notice to the invariants."""
        self.world.invariants.on_notice(self.process, notice)


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

"""Reconciles partitions: one keyed state machine, one store call in flight per partition.

A partition that may need something is queued; `run` decides about the object as last read, and
writes by compare-and-swap on the resourceVersion of that read. A conflict and an unknown outcome
have one cure: a quorum read, then a new decision. No state remembers the purpose of a write: an ISR
request whose write landed is found "already so", a refused one meets a higher partition epoch.
The states of one partition's call are drawn in `partition_entry`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from strandline.errors import ErrorCode
from strandline.model import STATE_LOST, BrokerId, ElectionKind, PartitionState, TopicPartition

from .context import ControllerContext
from .effects import ControllerEffect, ReadStoredPartition, WritePartitionStatus
from .election_input import ElectionInput
from .elections import decide, is_to_be_rebuilt
from .events import IsrChangeRequested
from .isr_changes import Commit, ReadFirst, RespondNow, judge, reply_alter_partition
from .leader_balance import LeaderBalance
from .moves import Moves
from .notices import StoreConflicted
from .partition_entry import Finished, InDoubt, PartitionEntry
from .partition_queue import PartitionQueue
from .reassignment import next_step
from .rebuild import KnownEpochs, accepted_epochs, is_behind
from .restores import Restores
from .store_events import PartitionResponseReceived, StoreOutcome
from .write_notices import StatusWrite


class PartitionReconciler:
    """Reconciles the partitions of the cluster during one controller epoch."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        sent_state_of: Callable[[TopicPartition], PartitionState | None],
        restores: Restores,
        moves: Moves,
    ) -> None:
        """Take what is shared, and what tells the last state of a partition that brokers got."""
        self._sent_state_of = sent_state_of
        self._restores = restores
        self._moves = moves
        self._balance = LeaderBalance(wait_ms=context.timing.preferred_leader_wait_ms)
        self._brokers = context.brokers
        self._topics = context.topics
        self._timing = context.timing
        self._epoch = context.epoch
        self._new_request_id = context.new_request_id
        self._table = context.table
        self._queue = PartitionQueue()
        self._calls: dict[int, str] = {}

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the first delayed partition is due, or the first preferred leader."""
        due = (self._queue.next_wakeup_ms, self._balance.next_wakeup_ms)
        return min((ms for ms in due if ms is not None), default=None)

    @property
    def calls_out(self) -> int:
        """Store calls whose answers are yet to come."""
        return len(self._calls)

    @property
    def queue_length(self) -> int:
        """Partitions that wait for their turn."""
        return len(self._queue)

    def is_busy(self, name: str) -> bool:
        """Tell whether a partition is queued or has a store call out."""
        entry = self._table.entries.get(name)
        return name in self._queue or (entry is not None and entry.open_request_id is not None)

    def forget(self, name: str) -> list[ControllerEffect]:
        """Forget a partition whose object is gone; refuse its requests."""
        entry = self._table.remove(name)
        if entry is None:
            return []
        self._queue.discard(name)
        self._moves.forget(name)
        self._balance.forget(name)
        if entry.open_request_id is not None:
            self._calls.pop(entry.open_request_id, None)
        return _respond_to_all(entry, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)

    def queue(self, name: str, now_ms: int) -> None:
        """Reconcile a partition soon."""
        if self._is_to_wait(name, now_ms):
            self._queue.add(name)

    def queue_first(self, name: str, now_ms: int) -> None:
        """Reconcile a partition before the others: it has no leader, or producers wait."""
        if self._is_to_wait(name, now_ms):
            self._queue.add_first(name)

    def _is_to_wait(self, name: str, now_ms: int) -> bool:
        """Tell whether a partition is known; one that did not wait yet does so from now on."""
        entry = self._table.entries.get(name)
        if entry is not None and not self.is_busy(name):
            entry.mark_queued(now_ms)
        return entry is not None

    def add_request(self, entry: PartitionEntry, event: IsrChangeRequested, now_ms: int) -> None:
        """Judge an AlterPartition soon, and at once if records wait for members to leave."""
        leaves = entry.add_request(event)
        (self.queue_first if leaves else self.queue)(entry.stored.name, now_ms)

    def doubt_status(self, entry: PartitionEntry, now_ms: int) -> None:
        """Read a partition again whose stored status may be another than the known one."""
        entry.doubt_status()
        self.queue(entry.stored.name, now_ms)

    def refused_as_known(self, entry: PartitionEntry, now_ms: int) -> None:
        """Take a partition offline that a broker refused as new, for it has its data (ADR 0004)."""
        entry.mark_state_lost()
        self.queue_first(entry.stored.name, now_ms)

    def on_partition_response(
        self, event: PartitionResponseReceived, now_ms: int
    ) -> tuple[Finished | None, list[ControllerEffect]]:
        """Take a store response. None: no call waits for it, or the call failed."""
        name = self._calls.pop(event.request_id, None)
        entry = None if name is None else self._table.entries.get(name)
        if name is None or entry is None or entry.open_request_id != event.request_id:
            return None, []
        if event.outcome is StoreOutcome.OK:
            finished = entry.end_call(event.partition)
            self.queue(name, now_ms)
            return finished, []
        entry.fail_call(now_ms, self._timing.retry)
        self._queue.add(name)
        outcome, failures = event.outcome.value, entry.failures
        return None, [StoreConflicted(name=name, outcome=outcome, failures=failures)]

    def run(self, now_ms: int) -> list[ControllerEffect]:
        """Reconcile the queued partitions, as many as store calls may be in flight."""
        self._queue.wake(now_ms)
        for name in self._balance.take_due(now_ms):
            self.queue(name, now_ms)
        effects: list[ControllerEffect] = []
        while self._queue and len(self._calls) < self._timing.store_calls_in_flight_max:
            name = self._queue.take()
            entry = self._table.entries.get(name)
            if entry is None or entry.open_request_id is not None:
                continue
            if now_ms < entry.not_before_ms:
                self._queue.delay(name, entry.not_before_ms)
            else:
                effects.extend(self._reconcile(name, entry, now_ms))
        return effects

    def _reconcile(self, name: str, entry: PartitionEntry, now_ms: int) -> list[ControllerEffect]:
        """Read if the last read is in doubt, else write what must change, else serve requests."""
        if isinstance(entry.call, InDoubt):
            return self._read(entry)
        state = entry.stored.state
        is_known_lost = entry.state_lost or (state is not None and state.reason == STATE_LOST)
        if state and not is_known_lost and is_behind(state, self._accepted(entry)):
            return self._read(entry)
        until_counts_ms = entry.first_seen_ms + self._timing.topic_commit_wait_ms
        may_count = state is None and self._topics.may_be_committed(entry.stored.tp.topic_id)
        if may_count and now_ms < until_counts_ms:
            # The logs of a topic that goes before it counts would stay (ADR 0037).
            self._queue.delay(name, until_counts_ms)
            return []
        wait_until_ms = entry.first_seen_ms + self._timing.new_partition_wait_ms
        inputs = ElectionInput(
            brokers=self._brokers.entries,
            topic=self._topics.known.get(entry.stored.tp.topic_id),
            hosted=self._brokers.hosting(entry.stored.tp),
            trashed=self._brokers.with_trashed(entry.stored.tp),
            announced=self._sent_state_of(entry.stored.tp),
            controller_epoch=self._epoch,
            waited=now_ms >= wait_until_ms,
            state_lost=entry.state_lost,
            first_seen_ms=entry.first_seen_ms,
        )
        stored = entry.stored
        if stored.state is None and self._table.has_state_aside(stored.tp):
            # Brokers may have data of the object that does not count.
            stored = replace(stored, recover=True)
        self._moves.take_back(name)
        decision = (
            decide(stored, inputs)
            or next_step(stored, inputs, may_copy=partial(self._moves.may_begin, name))
            or self._balance.next_step(stored, inputs, now_ms)
        )
        if decision is not None:
            return self._write(entry, decision.state, kind=decision.kind)
        if entry.stored.state is None and not inputs.waited:
            self._queue.delay(name, wait_until_ms)
        if not entry.requests:
            entry.forgive()
        if state is not None and is_to_be_rebuilt(state):
            return [*self._restores.ask(entry.stored.tp, state), *self._serve(entry)]
        return [*self._moves.stop_removed(entry.stored), *self._serve(entry)]

    def _accepted(self, entry: PartitionEntry) -> KnownEpochs:
        """Return the epochs that brokers are known to have accepted."""
        tp = entry.stored.tp
        return accepted_epochs(
            entry.stored.state,
            self._brokers.hosting(tp).values(),
            self._sent_state_of(tp),
            without_log=self._brokers.without_log(tp),
        )

    def _serve(self, entry: PartitionEntry) -> list[ControllerEffect]:
        """Judge the pending requests until one needs the store."""
        effects: list[ControllerEffect] = []
        for broker_id in sorted(entry.requests):
            pending = entry.requests[broker_id]
            if pending.event.tp != entry.stored.tp:
                # The name now belongs to another incarnation of the topic.
                request = entry.take_request(broker_id)
                effects.append(reply_alter_partition(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                continue
            verdict = judge(
                pending.event,
                entry.stored,
                self._brokers.entries,
                controller_epoch=self._epoch,
                read_since_request=pending.read_since,
            )
            match verdict:
                case RespondNow():
                    request = entry.take_request(broker_id)
                    effects.append(
                        reply_alter_partition(request, verdict.error, stored=entry.stored.state)
                    )
                case ReadFirst():
                    return effects + self._read(entry)
                case Commit(state=state, refusal=refusal):
                    return effects + self._write(entry, state, requester=broker_id, refusal=refusal)
        return effects

    def _read(self, entry: PartitionEntry) -> list[ControllerEffect]:
        request_id = self._new_call(entry)
        entry.begin_read(request_id, self._accepted(entry))
        return [ReadStoredPartition(request_id=request_id, name=entry.stored.name)]

    def _write(
        self,
        entry: PartitionEntry,
        state: PartitionState,
        *,
        kind: ElectionKind | None = None,
        requester: BrokerId | None = None,
        refusal: str = "",
    ) -> list[ControllerEffect]:
        request_id, stored = self._new_call(entry), entry.stored
        write = StatusWrite(
            before=stored.state,
            after=state,
            kind=kind,
            requester=requester,
            refusal=refusal,
            since_ms=entry.since_ms,
        )
        entry.begin_write(request_id, write)
        return [
            WritePartitionStatus(
                request_id=request_id,
                name=stored.name,
                tp=stored.tp,
                resource_version=stored.resource_version,
                state=state,
            )
        ]

    def _new_call(self, entry: PartitionEntry) -> int:
        request_id = self._new_request_id()
        self._calls[request_id] = entry.stored.name
        return request_id

    def resign(self) -> list[ControllerEffect]:
        """Refuse every pending request: another controller decides from now on."""
        effects: list[ControllerEffect] = []
        for name in sorted(self._table.entries):
            entry = self._table.entries[name]
            effects.extend(_respond_to_all(entry, ErrorCode.NOT_CONTROLLER, entry.stored.state))
        return effects


def _respond_to_all(
    entry: PartitionEntry, error: ErrorCode, stored: PartitionState | None
) -> list[ControllerEffect]:
    return [reply_alter_partition(each, error, stored=stored) for each in entry.take_requests()]

"""Reconciles partitions: one keyed state machine, one store call in flight per partition.

A partition that may need something is queued; `run` decides about the object that was last
read and writes by compare-and-swap on its resourceVersion, the very read whose leader and
partition epoch were compared. A conflict and an unknown outcome have one cure: a quorum
read, then the decision anew. Nothing remembers what a write was meant to do: an ISR request
whose write landed is found "already so", a refused one finds a higher partition epoch.

Per partition: idle -> reading -> idle, idle -> writing -> idle (OK) | reading (otherwise).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strandline.errors import ErrorCode
from strandline.model import (
    BrokerId,
    ControllerEpoch,
    ElectionKind,
    PartitionState,
    StoredPartition,
    StoredTopic,
    TopicId,
)

from .brokers import Brokers
from .cluster_state import PartitionEntry, PartitionTable, PendingRequest
from .effects import (
    ControllerEffect,
    ReadStoredPartition,
    ReplyAlterPartition,
    WritePartitionStatus,
)
from .elections import ElectionInput, decide
from .events import IsrChangeRequested
from .isr_changes import Accept, AnswerNow, ReadFirst, Refuse, judge
from .notices import StoreConflicted
from .store_events import PartitionResponseReceived, StoreOutcome
from .timing import ControllerTiming
from .write_notices import StatusWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A store call came back: what is stored (None: gone), and our write that it proves."""

    entry: PartitionEntry
    partition: StoredPartition | None
    written: StatusWrite | None


class PartitionReconciler:
    """Reconciles the partitions of the cluster during one controller epoch."""

    def __init__(
        self,
        *,
        table: PartitionTable,
        brokers: Brokers,
        topics: dict[TopicId, StoredTopic],
        timing: ControllerTiming,
        controller_epoch: ControllerEpoch,
        new_request_id: Callable[[], int],
    ) -> None:
        self._brokers = brokers
        self._topics = topics
        self._timing = timing
        self._epoch = controller_epoch
        self._new_request_id = new_request_id
        self._table = table
        self._urgent: dict[str, None] = {}
        self._queue: dict[str, None] = {}
        self._delayed: dict[str, int] = {}
        self._calls: dict[int, str] = {}

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the first delayed partition is due."""
        return min(self._delayed.values(), default=None)

    @property
    def queue_length(self) -> int:
        """Partitions that wait for their turn."""
        return len(self._urgent) + len(self._queue)

    def is_busy(self, name: str) -> bool:
        """Tell whether anything is still to be done for a partition."""
        entry = self._table.entries.get(name)
        waits = name in self._urgent or name in self._queue or name in self._delayed
        return waits or (entry is not None and entry.request_id is not None)

    def remove(self, name: str) -> list[ControllerEffect]:
        """Forget a partition whose object is gone; its requests are answered."""
        entry = self._table.remove(name)
        if entry is None:
            return []
        for queue in (self._urgent, self._queue, self._delayed):
            queue.pop(name, None)
        if entry.request_id is not None:
            self._calls.pop(entry.request_id, None)
        return self._answer_all(entry, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)

    def queue(self, name: str, now_ms: int) -> None:
        """Reconcile a partition soon."""
        self._enqueue(self._queue, name, now_ms)

    def queue_first(self, name: str, now_ms: int) -> None:
        """Reconcile a partition that lost its leader before the others."""
        self._queue.pop(name, None)
        self._enqueue(self._urgent, name, now_ms)

    def _enqueue(self, queue: dict[str, None], name: str, now_ms: int) -> None:
        entry = self._table.entries.get(name)
        if entry is None:
            return
        if not self.is_busy(name):
            entry.since_ms = now_ms
        if name not in self._urgent:
            queue[name] = None

    def add_request(self, name: str, event: IsrChangeRequested, now_ms: int) -> None:
        """Queue an AlterPartition; a later one of the same broker replaces an earlier one."""
        self._table.entries[name].requests[event.broker_id] = PendingRequest(event=event)
        self.queue(name, now_ms)

    def answered(
        self, event: PartitionResponseReceived, now_ms: int
    ) -> tuple[Finished | None, list[ControllerEffect]]:
        """Take a store answer. None: no call waits for it, or the state is still unknown."""
        name = self._calls.pop(event.request_id, None)
        entry = None if name is None else self._table.entries.get(name)
        if name is None or entry is None or entry.request_id != event.request_id:
            return None, []
        entry.request_id = None
        was_write = entry.writing is not None and not entry.must_read
        if event.outcome is StoreOutcome.OK:
            self.queue(name, now_ms)
            return self._finished(entry, event.partition), []
        self._queue[name] = None
        entry.failures += 1
        entry.must_read = True
        if not was_write or entry.failures > 1:
            entry.not_before_ms = now_ms + self._timing.retry_after_ms(entry.failures)
        return None, [
            StoreConflicted(name=name, outcome=event.outcome.value, failures=entry.failures)
        ]

    def _finished(self, entry: PartitionEntry, partition: StoredPartition | None) -> Finished:
        """Clear the open call. A read that shows what we last wrote proves that write."""
        was_read = entry.must_read
        entry.must_read = False
        written, entry.writing = entry.writing, None
        if was_read:
            for request in entry.requests.values():
                request.read_since = True
            stored = None if partition is None else partition.state
            if written is not None and stored != written.after:
                written = None
        if not was_read or written is not None:
            entry.failures = 0
        return Finished(entry=entry, partition=partition, written=written)

    def run(self, now_ms: int) -> list[ControllerEffect]:
        """Reconcile the queued partitions, as many as store calls may be in flight."""
        for name in [name for name, due_ms in self._delayed.items() if due_ms <= now_ms]:
            del self._delayed[name]
            self._queue[name] = None
        effects: list[ControllerEffect] = []
        for queue in (self._urgent, self._queue):
            for name in list(queue):
                if len(self._calls) >= self._timing.store_calls_in_flight_max:
                    return effects
                del queue[name]
                entry = self._table.entries.get(name)
                if entry is None or entry.request_id is not None:
                    continue
                if now_ms < entry.not_before_ms:
                    self._delayed[name] = entry.not_before_ms
                else:
                    effects.extend(self._reconcile(name, entry, now_ms))
        return effects

    def _reconcile(self, name: str, entry: PartitionEntry, now_ms: int) -> list[ControllerEffect]:
        """Read if the last read is in doubt, else write what must change, else serve requests."""
        if entry.must_read:
            return self._read(name, entry)
        wait_until_ms = entry.first_seen_ms + self._timing.new_partition_wait_ms
        inputs = ElectionInput(
            brokers=self._brokers.views,
            topic=self._topics.get(entry.stored.tp.topic_id),
            hosted=self._brokers.hosting(entry.stored.tp),
            controller_epoch=self._epoch,
            waited=now_ms >= wait_until_ms,
            state_lost=entry.state_lost,
        )
        decision = decide(entry.stored, inputs)
        if decision is not None:
            return self._write(name, entry, decision.state, kind=decision.kind)
        if entry.stored.state is None and not inputs.waited:
            self._delayed[name] = wait_until_ms
        if not entry.requests:
            entry.failures = 0
        return self._serve(name, entry)

    def _serve(self, name: str, entry: PartitionEntry) -> list[ControllerEffect]:
        """Judge the pending requests until one needs the store."""
        effects: list[ControllerEffect] = []
        for broker_id in sorted(entry.requests):
            pending = entry.requests[broker_id]
            if pending.event.tp != entry.stored.tp:
                # The name belongs to another incarnation of the topic by now.
                del entry.requests[broker_id]
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                effects.append(_answer(pending.event, error, None))
                continue
            verdict = judge(
                pending.event,
                entry.stored,
                self._brokers.views,
                controller_epoch=self._epoch,
                read_since_request=pending.read_since,
            )
            match verdict:
                case AnswerNow():
                    del entry.requests[broker_id]
                    effects.append(_answer(pending.event, verdict.error, entry.stored.state))
                case ReadFirst():
                    entry.must_read = True
                    return effects + self._read(name, entry)
                case Accept():
                    return effects + self._write(name, entry, verdict.state, requester=broker_id)
                case Refuse():
                    return effects + self._write(
                        name, entry, verdict.state, requester=broker_id, refusal=verdict.reason
                    )
        return effects

    def _read(self, name: str, entry: PartitionEntry) -> list[ControllerEffect]:
        entry.request_id = self._new_request_id()
        self._calls[entry.request_id] = name
        return [ReadStoredPartition(request_id=entry.request_id, name=name)]

    def _write(
        self,
        name: str,
        entry: PartitionEntry,
        state: PartitionState,
        *,
        kind: ElectionKind | None = None,
        requester: BrokerId | None = None,
        refusal: str = "",
    ) -> list[ControllerEffect]:
        entry.request_id = self._new_request_id()
        self._calls[entry.request_id] = name
        entry.writing = StatusWrite(
            before=entry.stored.state,
            after=state,
            kind=kind,
            requester=requester,
            refusal=refusal,
            since_ms=entry.since_ms,
        )
        return [
            WritePartitionStatus(
                request_id=entry.request_id,
                name=name,
                tp=entry.stored.tp,
                resource_version=entry.stored.resource_version,
                state=state,
            )
        ]

    def resign(self) -> list[ControllerEffect]:
        """Answer every pending request: another controller decides from now on."""
        effects: list[ControllerEffect] = []
        for name in sorted(self._table.entries):
            entry = self._table.entries[name]
            effects.extend(self._answer_all(entry, ErrorCode.NOT_CONTROLLER, entry.stored.state))
        return effects

    def _answer_all(
        self, entry: PartitionEntry, error: ErrorCode, stored: PartitionState | None
    ) -> list[ControllerEffect]:
        requests, entry.requests = entry.requests, {}
        return [_answer(requests[b].event, error, stored) for b in sorted(requests)]


def _answer(
    event: IsrChangeRequested, error: ErrorCode, stored: PartitionState | None
) -> ReplyAlterPartition:
    return ReplyAlterPartition(
        session_id=event.session_id,
        request_id=event.request_id,
        broker_id=event.broker_id,
        tp=event.tp,
        error=error,
        stored=stored,
    )

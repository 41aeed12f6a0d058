"""The work on partitions: one keyed state machine, one store call in flight per partition.

A partition that may need something is queued; `run` decides about the object that was last
read and writes by compare-and-swap on its resourceVersion, the very read whose leader and
partition epoch were compared. A conflict and an unknown outcome have one cure: a quorum
read, then the decision anew. So nothing remembers what a write was meant to do: an ISR
request whose write landed is found "already so", one that was refused finds a higher
partition epoch.

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
from .cluster_state import PartitionTable, PendingRequest, Slot
from .effects import AnswerIsrChange, Effect, ReadPartition, WritePartitionStatus
from .elections import Situation, decide
from .events import IsrChangeRequested
from .isr_changes import Accept, Answer, ReadFirst, Refuse, judge
from .notices import StoreConflicted
from .reports import Written
from .store_events import Outcome, PartitionAnswered
from .timing import ControllerTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A store call came back: what is stored (None: gone), and our write that it proves."""

    slot: Slot
    partition: StoredPartition | None
    written: Written | None


class PartitionWork:
    """What is done about the partitions of one term of office."""

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
        slot = self._table.slots.get(name)
        waits = name in self._urgent or name in self._queue or name in self._delayed
        return waits or (slot is not None and slot.request_id is not None)

    def remove(self, name: str) -> list[Effect]:
        """Forget a partition whose object is gone; its requests are answered."""
        slot = self._table.remove(name)
        if slot is None:
            return []
        for queue in (self._urgent, self._queue, self._delayed):
            queue.pop(name, None)
        if slot.request_id is not None:
            self._calls.pop(slot.request_id, None)
        return self._answer_all(slot, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)

    def queue(self, name: str, now_ms: int) -> None:
        """Have a partition looked at."""
        self._enqueue(self._queue, name, now_ms)

    def queue_first(self, name: str, now_ms: int) -> None:
        """Have a partition that lost its leader looked at before the others."""
        self._queue.pop(name, None)
        self._enqueue(self._urgent, name, now_ms)

    def _enqueue(self, queue: dict[str, None], name: str, now_ms: int) -> None:
        slot = self._table.slots.get(name)
        if slot is None:
            return
        if not self.is_busy(name):
            slot.since_ms = now_ms
        if name not in self._urgent:
            queue[name] = None

    def add_request(self, name: str, event: IsrChangeRequested, now_ms: int) -> None:
        """Queue an AlterPartition; a later one of the same broker replaces an earlier one."""
        self._table.slots[name].requests[event.broker_id] = PendingRequest(event=event)
        self.queue(name, now_ms)

    def answered(
        self, event: PartitionAnswered, now_ms: int
    ) -> tuple[Finished | None, list[Effect]]:
        """Take a store answer. None: nobody waits for it, or nothing is known yet."""
        name = self._calls.pop(event.request_id, None)
        slot = None if name is None else self._table.slots.get(name)
        if name is None or slot is None or slot.request_id != event.request_id:
            return None, []
        slot.request_id = None
        was_write = slot.writing is not None and not slot.must_read
        if event.outcome is Outcome.OK:
            self.queue(name, now_ms)
            return self._finished(slot, event.partition), []
        self._queue[name] = None
        slot.failures += 1
        slot.must_read = True
        if not was_write or slot.failures > 1:
            slot.not_before_ms = now_ms + self._timing.retry_after_ms(slot.failures)
        return None, [
            StoreConflicted(name=name, outcome=event.outcome.value, failures=slot.failures)
        ]

    def _finished(self, slot: Slot, partition: StoredPartition | None) -> Finished:
        """Something is known again. A read that shows what we last wrote proves that write."""
        was_read = slot.must_read
        slot.must_read = False
        written, slot.writing = slot.writing, None
        if was_read:
            for request in slot.requests.values():
                request.read_since = True
            stored = None if partition is None else partition.state
            if written is not None and stored != written.after:
                written = None
        if not was_read or written is not None:
            slot.failures = 0
        return Finished(slot=slot, partition=partition, written=written)

    def run(self, now_ms: int) -> list[Effect]:
        """Work on the queued partitions, as many as the store may be asked at a time."""
        for name in [name for name, due_ms in self._delayed.items() if due_ms <= now_ms]:
            del self._delayed[name]
            self._queue[name] = None
        effects: list[Effect] = []
        for queue in (self._urgent, self._queue):
            for name in list(queue):
                if len(self._calls) >= self._timing.store_calls_in_flight_max:
                    return effects
                del queue[name]
                slot = self._table.slots.get(name)
                if slot is None or slot.request_id is not None:
                    continue
                if now_ms < slot.not_before_ms:
                    self._delayed[name] = slot.not_before_ms
                else:
                    effects.extend(self._work_on(name, slot, now_ms))
        return effects

    def _work_on(self, name: str, slot: Slot, now_ms: int) -> list[Effect]:
        """Read if the last read is in doubt, else write what must change, else serve requests."""
        if slot.must_read:
            return self._read(name, slot)
        wait_until_ms = slot.first_seen_ms + self._timing.new_partition_wait_ms
        situation = Situation(
            brokers=self._brokers.views,
            topic=self._topics.get(slot.stored.tp.topic_id),
            hosted=self._brokers.hosting(slot.stored.tp),
            controller_epoch=self._epoch,
            waited=now_ms >= wait_until_ms,
            state_lost=slot.state_lost,
        )
        decision = decide(slot.stored, situation)
        if decision is not None:
            return self._write(name, slot, decision.state, kind=decision.kind)
        if slot.stored.state is None and not situation.waited:
            self._delayed[name] = wait_until_ms
        if not slot.requests:
            slot.failures = 0
        return self._serve(name, slot)

    def _serve(self, name: str, slot: Slot) -> list[Effect]:
        """Judge the pending requests until one needs the store."""
        effects: list[Effect] = []
        for broker_id in sorted(slot.requests):
            pending = slot.requests[broker_id]
            if pending.event.tp != slot.stored.tp:
                # The name belongs to another incarnation of the topic by now.
                del slot.requests[broker_id]
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                effects.append(_answer(pending.event, error, None))
                continue
            verdict = judge(
                pending.event,
                slot.stored,
                self._brokers.views,
                controller_epoch=self._epoch,
                read_since_request=pending.read_since,
            )
            match verdict:
                case Answer():
                    del slot.requests[broker_id]
                    effects.append(_answer(pending.event, verdict.error, slot.stored.state))
                case ReadFirst():
                    slot.must_read = True
                    return effects + self._read(name, slot)
                case Accept():
                    return effects + self._write(name, slot, verdict.state, requester=broker_id)
                case Refuse():
                    return effects + self._write(
                        name, slot, verdict.state, requester=broker_id, refusal=verdict.reason
                    )
        return effects

    def _read(self, name: str, slot: Slot) -> list[Effect]:
        slot.request_id = self._new_request_id()
        self._calls[slot.request_id] = name
        return [ReadPartition(request_id=slot.request_id, name=name)]

    def _write(
        self,
        name: str,
        slot: Slot,
        state: PartitionState,
        *,
        kind: ElectionKind | None = None,
        requester: BrokerId | None = None,
        refusal: str = "",
    ) -> list[Effect]:
        slot.request_id = self._new_request_id()
        self._calls[slot.request_id] = name
        slot.writing = Written(
            before=slot.stored.state,
            after=state,
            kind=kind,
            requester=requester,
            refusal=refusal,
            since_ms=slot.since_ms,
        )
        return [
            WritePartitionStatus(
                request_id=slot.request_id,
                name=name,
                tp=slot.stored.tp,
                resource_version=slot.stored.resource_version,
                state=state,
            )
        ]

    def resign(self) -> list[Effect]:
        """Answer every pending request: somebody else decides from now on."""
        effects: list[Effect] = []
        for name in sorted(self._table.slots):
            slot = self._table.slots[name]
            effects.extend(self._answer_all(slot, ErrorCode.NOT_CONTROLLER, slot.stored.state))
        return effects

    def _answer_all(
        self, slot: Slot, error: ErrorCode, stored: PartitionState | None
    ) -> list[Effect]:
        requests, slot.requests = slot.requests, {}
        return [_answer(requests[b].event, error, stored) for b in sorted(requests)]


def _answer(
    event: IsrChangeRequested, error: ErrorCode, stored: PartitionState | None
) -> AnswerIsrChange:
    return AnswerIsrChange(
        session_id=event.session_id,
        request_id=event.request_id,
        broker_id=event.broker_id,
        tp=event.tp,
        error=error,
        stored=stored,
    )

"""The producer state of a partition: the last five batches of each idempotent producer.

`partition_log` records here every batch that it appends or finds, on leaders and followers alike;
`runtime` checks a client's batch through the log before the core sees it. The state is derived from
the log (ADR 0008), so every replica can tell a retry from a new batch after an election.

Bounded: PRODUCERS_MAX ids, of which the least recently writing is forgotten first, and five
batches each, because a producer has at most five requests in flight.

Source: Kafka ProducerStateManager, ProducerStateEntry, ProducerAppendInfo; KIP-98.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from strandline.core.events import SequenceCheck
from strandline.errors import ErrorCode

from .record_batch import NO_PRODUCER_ID, SEQUENCE_MASK, BatchHeader

BATCHES_PER_PRODUCER_MAX = 5
PRODUCERS_MAX = 10_000


@dataclass(slots=True)
class _Producer:
    """One producer id; batches ascend by offset and are all of one producer epoch."""

    producer_epoch: int
    has_older: bool
    """The log may hold batches of this id before the remembered ones."""
    batches: deque[BatchHeader] = field(
        default_factory=lambda: deque(maxlen=BATCHES_PER_PRODUCER_MAX)
    )


class ProducerState:
    """Sequence state of one partition."""

    __slots__ = ("_forgot", "_producers", "_producers_max")

    def __init__(self, *, producers_max: int = PRODUCERS_MAX) -> None:
        self._producers: dict[int, _Producer] = {}
        self._producers_max = producers_max
        self._forgot = False

    def check(self, header: BatchHeader) -> SequenceCheck:
        """Tell whether a client's batch is new, a retry, or out of order; changes nothing.

        An unknown id may begin anywhere: its state may have been forgotten or truncated.
        A retry older than the five remembered batches is out of order. It never gets
        DUPLICATE_SEQUENCE_NUMBER: clients take that for "it is in the log", which the state
        does not know.

        Returns: OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_PRODUCER_EPOCH as refusals
        """
        producer = self._producers.get(header.producer_id)
        if header.producer_id == NO_PRODUCER_ID or producer is None:
            return ErrorCode.NONE
        if header.producer_epoch < producer.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if header.producer_epoch > producer.producer_epoch:
            in_order = header.base_sequence == 0
            return ErrorCode.NONE if in_order else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        last_sequence = header.last_sequence
        for batch in producer.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == last_sequence:
                return batch.span
        if header.base_sequence == (producer.batches[-1].last_sequence + 1) & SEQUENCE_MASK:
            return ErrorCode.NONE
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def record(self, header: BatchHeader) -> None:
        """Remember a batch that is now in the log, at its end."""
        if header.producer_id == NO_PRODUCER_ID:
            return
        producer = self._producers.pop(header.producer_id, None)
        if producer is None:
            producer = _Producer(header.producer_epoch, has_older=self._forgot)
        elif producer.producer_epoch != header.producer_epoch:
            producer = _Producer(header.producer_epoch, has_older=True)
        elif len(producer.batches) == BATCHES_PER_PRODUCER_MAX:
            producer.has_older = True
        producer.batches.append(header)
        self._producers[header.producer_id] = producer
        if len(self._producers) > self._producers_max:
            del self._producers[next(iter(self._producers))]
            self._forgot = True

    def clear(self) -> None:
        """Forget everything: the log was emptied."""
        self._producers.clear()
        self._forgot = False

    def truncate_to(self, offset: int) -> dict[int, int]:
        """Forget batches at or above an offset.

        Returns: for each producer id that lost a batch and may have older ones in the log, the
                 number of batches still remembered; hand it to `refill`
        """
        incomplete = {}
        for producer_id, producer in list(self._producers.items()):
            batches = producer.batches
            if not batches or batches[-1].next_offset <= offset:
                continue
            while batches and batches[-1].next_offset > offset:
                batches.pop()
            if producer.has_older:
                incomplete[producer_id] = len(batches)
            elif not batches:
                del self._producers[producer_id]
        return incomplete

    def refill(self, incomplete: dict[int, int], backwards: Iterable[BatchHeader]) -> None:
        """Complete producers after a truncation from the log, read from its end.

        Reads no further than needed. A producer without a batch in the log is forgotten.

        Shape:   backwards yields every batch of the log, newest first
        """
        skip = dict(incomplete)
        missing = set(incomplete)
        for header in backwards if missing else ():
            producer_id = header.producer_id
            if producer_id not in missing:
                continue
            if skip[producer_id]:
                skip[producer_id] -= 1
                continue
            if not self._extend_backwards(producer_id, header):
                missing.discard(producer_id)
            if not missing:
                break
        for producer_id in sorted(missing):
            self._producers[producer_id].has_older = False
        for producer_id in sorted(incomplete):
            if not self._producers[producer_id].batches:
                del self._producers[producer_id]

    def _extend_backwards(self, producer_id: int, header: BatchHeader) -> bool:
        """Put an older batch before the remembered ones; False once no more are wanted."""
        producer = self._producers[producer_id]
        if not producer.batches:
            producer.producer_epoch = header.producer_epoch
        elif header.producer_epoch != producer.producer_epoch:
            return False
        producer.batches.appendleft(header)
        return len(producer.batches) < BATCHES_PER_PRODUCER_MAX

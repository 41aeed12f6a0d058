"""The producer state of a partition: the last five batches of each idempotent producer.

`partition_log` records here every batch that it appends or finds, on leaders and followers alike;
`runtime` checks a client's batch through the log before the core sees it. The state is derived from
the log (ADR 0008), so every replica can tell a retry from a new batch after an election.

Bounded: PRODUCERS_MAX ids, of which the least recently writing is forgotten first, and five
batches each, because a producer has at most five requests in flight.

Source: Kafka ProducerStateManager, ProducerStateEntry, ProducerAppendInfo; KIP-98.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field

from strandline.core.events import SequenceCheck
from strandline.errors import ErrorCode

from .record_batch import (
    HEADER_BYTES,
    NO_PRODUCER_ID,
    SEQUENCE_MASK,
    BatchHeader,
    pack_header,
    parse_header,
)

BATCHES_PER_PRODUCER_MAX = 5
PRODUCERS_MAX = 10_000
_FORGOT = struct.Struct(">?")
_PRODUCER = struct.Struct(">qh?B")


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

    def copy(self) -> ProducerState:
        """Return a state of its own with the same content; headers are shared, they never change.

        Cost: a few ms for PRODUCERS_MAX producers.
        """
        same = ProducerState(producers_max=self._producers_max)
        same._forgot = self._forgot
        same._producers = {
            producer_id: _Producer(
                producer.producer_epoch, producer.has_older, producer.batches.copy()
            )
            for producer_id, producer in self._producers.items()
        }
        return same

    def to_bytes(self) -> bytes:
        """Return the state as bytes, the producer that wrote longest ago first."""
        parts = [_FORGOT.pack(self._forgot)]
        for producer_id, producer in self._producers.items():
            parts.append(
                _PRODUCER.pack(
                    producer_id, producer.producer_epoch, producer.has_older, len(producer.batches)
                )
            )
            parts += [pack_header(batch) for batch in producer.batches]
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, content: bytes) -> ProducerState:
        """Return the state that `to_bytes` wrote; the caller has checked that nothing changed."""
        state = cls()
        (state._forgot,) = _FORGOT.unpack_from(content)
        position = _FORGOT.size
        while position < len(content):
            producer_id, epoch, has_older, count = _PRODUCER.unpack_from(content, position)
            position += _PRODUCER.size
            producer = state._producers[producer_id] = _Producer(epoch, has_older)
            for _ in range(count):
                producer.batches.append(parse_header(content, position))
                position += HEADER_BYTES
        return state

    def truncate_to(self, offset: int) -> bool:
        """Forget batches at or above an offset.

        Returns: False if the log may hold older batches of a producer that lost one: the state is
                 then incomplete, and the caller makes it anew from a summary and the log
        """
        complete = True
        for producer_id, producer in list(self._producers.items()):
            batches = producer.batches
            if batches[-1].next_offset <= offset:
                continue
            while batches and batches[-1].next_offset > offset:
                batches.pop()
            if producer.has_older:
                complete = False
            if not batches:
                del self._producers[producer_id]
        return complete

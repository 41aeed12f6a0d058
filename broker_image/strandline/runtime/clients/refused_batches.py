"""A batch that a producer sent right behind a refused batch gets the same refusal (ADR 0012).

A producer has several batches in flight. If the reason for which the first was refused has passed
when the second comes, the second is out of order, and some clients then give up. If the second
gets the error of the first instead, every client sends both again.

BATCHES_BEHIND_MAX batches share one refusal; the refusals of PRODUCERS_MAX pairs of producer and
partition are kept, the newest ones. Any batch but the very next one ends the sharing, so that a
gap without a refusal gets its own error, at the next attempt at the latest.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline.errors import ErrorCode
from strandline.log.producer_state import BATCHES_PER_PRODUCER_MAX, PRODUCERS_MAX
from strandline.log.record_batch import NO_PRODUCER_ID, SEQUENCE_MASK, ClientBatch

BATCHES_BEHIND_MAX = BATCHES_PER_PRODUCER_MAX - 1
"""A producer has at most five batches of a partition in flight: the refused one and four."""

PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals after which every client sends the same batch again."""


ProducerPartition = tuple[str, int, int]
"""Topic name, partition, producer id."""


class SentBatch(NamedTuple):
    """A client's batch, and the partition that the client named."""

    topic_name: str
    partition: int
    batch: ClientBatch

    @property
    def producer_partition(self) -> ProducerPartition:
        """The key under which a refusal is remembered."""
        return self.topic_name, self.partition, self.batch.header.producer_id


class _Refused(NamedTuple):
    error: ErrorCode
    producer_epoch: int
    next_sequence: int
    shares_left: int


class RefusedBatches:
    """The last refusal of each producer and partition, for as long as it may be shared."""

    def __init__(self, *, producers_max: int = PRODUCERS_MAX) -> None:
        self._refused: dict[ProducerPartition, _Refused] = {}
        self._producers_max = producers_max

    def __len__(self) -> int:
        return len(self._refused)

    def shared(self, sent: SentBatch) -> ErrorCode:
        """Return the refusal that a batch shares, NONE if it is to be judged by itself."""
        header = sent.batch.header
        refused = self._refused.get(sent.producer_partition)
        if refused is None:
            return ErrorCode.NONE
        expected = (refused.producer_epoch, refused.next_sequence)
        if refused.shares_left and (header.producer_epoch, header.base_sequence) == expected:
            return refused.error
        del self._refused[sent.producer_partition]
        return ErrorCode.NONE

    def note(self, sent: SentBatch, error: ErrorCode) -> None:
        """Remember the refusal of a batch; `shared` has seen the batch before."""
        header = sent.batch.header
        if error not in PASSING or header.producer_id == NO_PRODUCER_ID:
            return
        ahead = self._refused.pop(sent.producer_partition, None)
        self._refused[sent.producer_partition] = _Refused(
            error=error,
            producer_epoch=header.producer_epoch,
            next_sequence=(header.last_sequence + 1) & SEQUENCE_MASK,
            # `shared` keeps an entry only if this batch shares its refusal.
            shares_left=BATCHES_BEHIND_MAX if ahead is None else ahead.shares_left - 1,
        )
        if len(self._refused) > self._producers_max:
            del self._refused[next(iter(self._refused))]

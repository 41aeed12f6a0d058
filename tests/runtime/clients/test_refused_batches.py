"""Bounds and arithmetic of shared refusals; `test_broker_api` shows what clients get."""

from __future__ import annotations

import pytest

from strandline.errors import ErrorCode
from strandline.log.record_batch import NO_PRODUCER_ID, SEQUENCE_MASK, read_client_batch
from strandline.runtime.clients.refused_batches import RefusedBatches, SentBatch
from tests.log.support.batches import batch

NONE = ErrorCode.NONE
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def sent(sequence: int, *, partition: int = 0, producer: int = 9) -> SentBatch:
    data = batch([b"v"], producer_id=producer, producer_epoch=0, base_sequence=sequence)
    return SentBatch("orders", partition, read_client_batch(data))


def test_sequences_go_on_from_zero_after_the_greatest() -> None:
    refused = RefusedBatches()
    refused.note(sent(SEQUENCE_MASK), NOT_LEADER)
    assert refused.shared(sent(0)) is NOT_LEADER


def test_partitions_of_a_producer_share_nothing() -> None:
    refused = RefusedBatches()
    refused.note(sent(0), NOT_LEADER)
    assert refused.shared(sent(1, partition=1)) is NONE
    assert refused.shared(sent(1)) is NOT_LEADER


@pytest.mark.parametrize(
    "final",
    [
        NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    ],
)
def test_a_refusal_that_is_final_is_not_shared(final: ErrorCode) -> None:
    refused = RefusedBatches()
    refused.note(sent(0), final)
    assert len(refused) == 0


def test_a_batch_without_a_producer_is_not_remembered() -> None:
    refused = RefusedBatches()
    refused.note(sent(-1, producer=NO_PRODUCER_ID), NOT_LEADER)
    assert len(refused) == 0


def test_the_oldest_refusal_is_forgotten_over_the_bound() -> None:
    refused = RefusedBatches(producers_max=2)
    for producer in (1, 2, 3):
        refused.note(sent(0, producer=producer), NOT_LEADER)
    assert [refused.shared(sent(1, producer=each)) for each in (1, 2, 3)] == [
        NONE,
        NOT_LEADER,
        NOT_LEADER,
    ]


def test_a_refused_batch_that_comes_again_ends_the_sharing() -> None:
    refused = RefusedBatches()
    refused.note(sent(0), NOT_LEADER)
    assert refused.shared(sent(0)) is NONE
    assert len(refused) == 0

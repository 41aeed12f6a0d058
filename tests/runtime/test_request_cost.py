"""What a whole leader calls for one small produce request with acks=all, whatever else it leads."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from strandline.kafka_listener import schemas
from tests.kafka.hostile_shapes import request, topics
from tests.kafka.support import make_batch
from tests.runtime.whole_leader import WholeLeader

CALLS_MAX = 1_140
"""Of Python and C functions, without those of the event loop and of gRPC."""
FEW, MANY = 12, 400
TOLERANCE = 0.05
BEFORE = 20
"""Requests that are not counted: the first one begins an epoch; the others' batches lie between the
counted ones and the last entry of the index on disk."""
REQUESTS = 5


def produce_to(partition: int) -> bytes:
    sent = [{"index": partition, "records": [make_batch([bytes(100)])]}]
    head = {"transactional_id": None, "acks": -1, "timeout_ms": 1_000}
    return request(schemas.PRODUCE, 10, {**head, "topics": topics(sent)})


async def calls_of_a_request(folder: Path, partitions: int) -> int:
    """Return the least calls of some requests: a background task may step beside one of them."""
    leader = WholeLeader(folder)
    await leader.lead(partitions)
    for _ in range(BEFORE):
        await leader.produce(produce_to(0))
    counts = []
    for _ in range(REQUESTS):
        leader.calls.count = 0
        await leader.produce(produce_to(0))
        counts.append(leader.calls.count)
    await leader.stop()
    return min(counts)


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, int]:
    return {
        count: asyncio.run(calls_of_a_request(tmp_path_factory.mktemp(f"of-{count}"), count))
        for count in (FEW, MANY)
    }


def test_a_small_request_costs_a_leader_no_more_calls_than_are_named_here(
    counts: dict[int, int],
) -> None:
    assert 0 < counts[FEW] <= CALLS_MAX, counts


def test_a_request_costs_the_same_calls_whatever_the_number_of_partitions(
    counts: dict[int, int],
) -> None:
    assert abs(counts[MANY] - counts[FEW]) <= TOLERANCE * counts[FEW], counts

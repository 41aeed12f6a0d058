"""What a whole leader calls for a small produce request with acks=all, and when nothing happens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from strandline.kafka_listener import schemas
from tests.kafka.hostile_shapes import request, topics
from tests.kafka.support import make_batch
from tests.runtime.whole_leader import SETTINGS, WholeLeader

CALLS_MAX = 1_140
"""Of Python and C functions, without those of the event loop and of gRPC."""
FEW, MANY = 12, 400
TOLERANCE = 0.05
BEFORE = 20
"""Requests that are not counted: the first one begins an epoch; the others' batches lie between the
counted ones and the last entry of the index on disk."""
REQUESTS = 5
WAITS_OF_A_SECOND = 1_000 // SETTINGS.fetch_wait_max_ms
WAITS_UNTIL_A_CHECK = SETTINGS.replica_lag_time_max_ms // 2 // SETTINGS.fetch_wait_max_ms


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of a request, of an idle second, and of the time from one check of ISRs to the next.

    In that time high watermarks are collected, too.
    """

    request: int
    second: int
    until_a_check: int


def produce_to(partition: int) -> bytes:
    sent = [{"index": partition, "records": [make_batch([bytes(100)])]}]
    head = {"transactional_id": None, "acks": -1, "timeout_ms": 1_000}
    return request(schemas.PRODUCE, 10, {**head, "topics": topics(sent)})


async def calls_of(folder: Path, partitions: int) -> Calls:
    """Return what a leader calls; of some requests the least, for a task may step beside one."""
    leader = WholeLeader(folder)
    await leader.lead(partitions)
    for _ in range(BEFORE):
        await leader.produce(produce_to(0))
    requests = []
    for _ in range(REQUESTS):
        leader.calls.count = 0
        await leader.produce(produce_to(0))
        requests.append(leader.calls.count)
    waits = []
    for count in (*[WAITS_OF_A_SECOND] * 2, *[WAITS_UNTIL_A_CHECK] * 2):
        leader.calls.count = 0
        await leader.idle(count)
        waits.append(leader.calls.count)
    await leader.stop()
    # The first second ends what the requests began, and the first check looks at every leader.
    return Calls(min(requests), *waits[1::2])


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Calls]:
    return {
        count: asyncio.run(calls_of(tmp_path_factory.mktemp(f"of-{count}"), count))
        for count in (FEW, MANY)
    }


def test_a_small_request_costs_a_leader_no_more_calls_than_are_named_here(
    counts: dict[int, Calls],
) -> None:
    assert 0 < counts[FEW].request <= CALLS_MAX, counts


@pytest.mark.parametrize("what", ["request", "second", "until_a_check"])
def test_a_request_and_idle_time_cost_the_same_calls_whatever_the_number_of_partitions(
    counts: dict[int, Calls], what: str
) -> None:
    few, many = (getattr(counts[count], what) for count in (FEW, MANY))
    assert few > 0
    assert abs(many - few) <= TOLERANCE * few, counts

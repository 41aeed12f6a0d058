"""A request of many elements is handled in turns, and others are served between two of them.

Steps are counted, in calls and in callbacks of the event loop: no clock is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

import pytest

from strandline.errors import ErrorCode
from strandline.kafka_listener import schemas
from strandline.kafka_listener.apis.produce import PARTITIONS_AT_ONCE
from strandline.kafka_listener.connection import ListenerState
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.turns import TURN_ELEMENTS, TurnQueue, Turns, at_once, spend
from strandline.kafka_listener.wire import Message
from strandline.model import Endpoint
from tests.kafka.hostile_shapes import request
from tests.kafka.support import CountingObserver, MemoryBroker, make_batch
from tests.kafka.unconnected import Client, counted_steps, listener_over
from tests.kafka.wire_client import response_message

PARTITIONS = 4 * TURN_ELEMENTS
STEPS_MAX = 1_000
"""Steps of the event loop within which any request of these tests is served."""
CALLS_MAX = 36 * TURN_ELEMENTS
"""Calls of one step, however many partitions a granted request names."""


def with_listener(
    scenario: Callable[[MemoryBroker, ListenerState], Awaitable[None]],
) -> None:
    async def run() -> None:
        broker = MemoryBroker({"orders": PARTITIONS})
        broker.endpoints["INTERNAL"] = Endpoint(listener="INTERNAL", host="127.0.0.1", port=1)
        shared = listener_over(broker, ListenerSettings())
        # Views of the metadata are made once per change, and not by the request that is counted.
        shared.context.metadata()
        await scenario(broker, shared)

    asyncio.run(run())


async def steps_until(is_done: Callable[[], object]) -> None:
    for _ in range(STEPS_MAX):
        if is_done():
            return
        await asyncio.sleep(0)
    pytest.fail("not served")


def orders(partitions: list[Message]) -> list[Message]:
    return [{"name": "orders", "partitions": partitions}]


def list_offsets(count: int) -> bytes:
    asked: list[Message] = [{"index": each, "timestamp": -1} for each in range(count)]
    head = {"replica_id": -1, "isolation_level": 0}
    return request(schemas.LIST_OFFSETS, 6, {**head, "topics": orders(asked)})


def produce(count: int, *, acks: int = -1) -> bytes:
    batch = make_batch([b"value"])
    sent: list[Message] = [{"index": each, "records": [batch]} for each in range(count)]
    head = {"transactional_id": None, "acks": acks, "timeout_ms": 1_000}
    return request(schemas.PRODUCE, 9, {**head, "topics": orders(sent)})


def fetch(count: int) -> bytes:
    first: Message = {"fetch_offset": 0, "partition_max_bytes": 1_000}
    asked: list[Message] = [{**first, "index": each} for each in range(count)]
    head: Message = {"max_wait_ms": 0, "min_bytes": 1, "forgotten_topics": []}
    return request(schemas.FETCH, 11, {**head, "topics": orders(asked)})


def delete_records(count: int) -> bytes:
    asked: list[Message] = [{"index": each, "offset": 0} for each in range(count)]
    return request(schemas.DELETE_RECORDS, 2, {"topics": orders(asked), "timeout_ms": 1_000})


def epochs(count: int) -> bytes:
    asked: list[Message] = [{"index": each, "leader_epoch": 1} for each in range(count)]
    return request(schemas.OFFSET_FOR_LEADER_EPOCH, 4, {"topics": orders(asked)})


LARGE = pytest.mark.parametrize(
    ("api_key", "version", "large"),
    [
        pytest.param(schemas.PRODUCE, 9, produce, id="produce"),
        pytest.param(schemas.FETCH, 11, fetch, id="fetch"),
        pytest.param(schemas.LIST_OFFSETS, 6, list_offsets, id="offsets"),
        pytest.param(schemas.OFFSET_FOR_LEADER_EPOCH, 4, epochs, id="epochs"),
        pytest.param(schemas.DELETE_RECORDS, 2, delete_records, id="deletions"),
    ],
)
SMALL = request(schemas.API_VERSIONS, 0, {})


def received(written: list[bytes], api_key: int, version: int) -> Message:
    """Decode the only response that was written, behind its length and its correlation id."""
    return response_message(api_key, version, b"".join(written)[8:])


@LARGE
def test_a_granted_request_is_served_in_short_steps_and_others_between_them(
    api_key: int, version: int, large: Callable[[int], bytes]
) -> None:
    async def scenario(_: MemoryBroker, shared: ListenerState) -> None:
        answer: list[bytes] = []
        with counted_steps() as steps:
            longest = Client(shared, answer).send(large(PARTITIONS))
            assert not answer
            other: list[bytes] = []
            Client(shared, other).send(SMALL)
            assert other
            assert not answer
            await steps_until(lambda: answer)
        assert max(longest, *steps) < CALLS_MAX
        (topic,) = received(answer, api_key, version)["topics"]
        assert [each["index"] for each in topic["partitions"]] == list(range(PARTITIONS))
        assert {each["error_code"] for each in topic["partitions"]} == {ErrorCode.NONE}

    with_listener(scenario)


def test_all_metadata_is_encoded_in_turns() -> None:
    async def scenario(_: MemoryBroker, shared: ListenerState) -> None:
        answer: list[bytes] = []
        with counted_steps() as steps:
            longest = Client(shared, answer).send(request(schemas.METADATA, 9, {"topics": None}))
            assert not answer
            await steps_until(lambda: answer)
        assert max(longest, *steps) < 2 * CALLS_MAX
        (topic,) = received(answer, schemas.METADATA, 9)["topics"]
        assert len(topic["partitions"]) == PARTITIONS

    with_listener(scenario)


def test_the_next_request_of_the_connection_waits_for_the_turns_of_the_one_before() -> None:
    async def scenario(broker: MemoryBroker, shared: ListenerState) -> None:
        client = Client(shared, [])
        client.send(produce(PARTITIONS))
        # Requests that came with the first one are kept, and later ones are not read.
        assert not client.reads()
        first_part = len(broker.produce_calls)
        assert first_part < PARTITIONS // PARTITIONS_AT_ONCE
        observer = cast("CountingObserver", shared.observer)
        await steps_until(lambda: observer.responses)
        assert len(broker.produce_calls) == PARTITIONS // PARTITIONS_AT_ONCE
        assert client.reads()
        client.send(produce(1))
        await steps_until(lambda: len(observer.responses) == 2)
        assert broker.logs["orders", 0].end == 2
        assert broker.logs["orders", PARTITIONS - 1].end == 1

    with_listener(scenario)


def test_requests_that_came_at_once_are_appended_in_their_order() -> None:
    """The second one lies in the buffer already when the first one takes its turns."""

    async def scenario(broker: MemoryBroker, shared: ListenerState) -> None:
        count = TURN_ELEMENTS
        client = Client(shared, [])
        client.send(produce(count) + produce(1))
        observer = cast("CountingObserver", shared.observer)
        await steps_until(lambda: len(observer.responses) == 2)
        assert broker.logs["orders", 0].end == 2
        # The second request was one call, and it came last.
        assert len(broker.produce_calls) == count // PARTITIONS_AT_ONCE + 1

    with_listener(scenario)


@pytest.mark.parametrize("steps", [0, 3, 8, 12])
@LARGE
def test_a_client_that_leaves_between_two_turns_holds_nothing(
    api_key: int,
    version: int,
    large: Callable[[int], bytes],
    steps: int,
) -> None:
    async def scenario(_: MemoryBroker, shared: ListenerState) -> None:
        client = Client(shared, [])
        client.send(large(PARTITIONS))
        for _step in range(steps):
            await asyncio.sleep(0)
        client.connection.connection_lost(None)
        await steps_until(lambda: not shared.bounds.turns)
        # What the broker had begun ends by itself.
        for _step in range(STEPS_MAX // 10):
            await asyncio.sleep(0)
        bounds = shared.bounds
        budgets = (bounds.request_memory, bounds.waiting_acks, bounds.response_memory)
        assert [budget.used for budget in budgets] == [0, 0, 0]
        assert client.transport.written == []

    with_listener(scenario)


def test_a_step_has_one_turn_however_many_requests_have_begun() -> None:
    async def run() -> None:
        queue = TurnQueue(asyncio.get_running_loop())
        seen: list[int] = []
        ended: list[int] = []

        def work(number: int) -> Turns[None]:
            for _ in range(2 * TURN_ELEMENTS):
                seen.append(number)
                yield

        for number in range(10):
            queue.begin(work(number), partial(ended.append, number))
        assert len(queue) == 10
        begun = len(seen)
        await asyncio.sleep(0)
        assert len(seen) - begun == TURN_ELEMENTS
        await steps_until(lambda: not queue)
        assert ended == list(range(10))

    asyncio.run(run())


def test_small_work_is_over_at_once_and_nothing_follows_it_later() -> None:
    async def run() -> None:
        queue = TurnQueue(asyncio.get_running_loop())
        followed: list[bool] = []
        assert queue.begin(spend(TURN_ELEMENTS - 1), lambda: followed.append(True)) == 249
        assert not len(queue)
        assert not followed
        queue.begin(spend(TURN_ELEMENTS), lambda: followed.append(True))
        await steps_until(lambda: followed)

    asyncio.run(run())


def test_work_that_fails_keeps_no_other_work_waiting() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        failures: list[object] = []
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        queue = TurnQueue(loop)

        def fails() -> Turns[None]:
            yield from spend(TURN_ELEMENTS)
            raise ZeroDivisionError

        followed: list[bool] = []
        queue.begin(fails(), lambda: None)
        queue.begin(spend(3 * TURN_ELEMENTS), lambda: followed.append(True))
        await steps_until(lambda: followed)
        assert [type(each) for each in failures] == [ZeroDivisionError]

    asyncio.run(run())


def test_work_done_at_once_gives_its_result() -> None:
    def work() -> Turns[str]:
        yield from spend(1_000)
        return "done"

    assert at_once(work()) == "done"

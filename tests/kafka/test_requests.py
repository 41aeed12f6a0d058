"""Every API serves valid requests and refuses bad ones, over a real socket."""

from __future__ import annotations

from functools import partial

import pytest

from strandline.errors import ErrorCode, ProtocolError
from strandline.kafka_listener import schemas
from strandline.kafka_listener.schemas import APIS
from strandline.kafka_listener.wire import Message
from strandline.model import Acks
from tests.kafka import requests
from tests.kafka.requests import only
from tests.kafka.support import LEADER_EPOCH, ListenerThread, MemoryBroker, MemoryLog, make_batch
from tests.kafka.wire_client import WireClient
from tests.support.eventually import eventually

ZSTD = 4
LIMIT_MS = 5_000


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_every_api_with_its_range(running: ListenerThread, version: int) -> None:
    with WireClient(running.port) as client:
        request = {"client_software_name": "test", "client_software_version": "1"}
        response = client.ask(schemas.API_VERSIONS, version, request)
    assert response["error_code"] == ErrorCode.NONE
    ranges = {key["api_key"]: (key["min_version"], key["max_version"])
              for key in response["api_keys"]}  # fmt: skip
    assert ranges == {
        0: (0, 11), 1: (4, 12), 2: (1, 6), 3: (0, 12), 10: (0, 4), 18: (0, 4), 21: (0, 2),
        22: (0, 4), 23: (2, 4),
    }  # fmt: skip


@pytest.mark.parametrize("version", range(3, 12))
def test_produce_appends_and_returns_the_offset(
    running: ListenerThread, broker: MemoryBroker, version: int
) -> None:
    batch = make_batch([b"one", b"two"])
    with WireClient(running.port) as client:
        for expected in (0, 2):
            partition = only(client.ask(schemas.PRODUCE, version, requests.produce(batch)))
            assert (partition["error_code"], partition["base_offset"]) == (ErrorCode.NONE, expected)
    stored = broker.logs["orders", 0].batches[1]
    assert stored[16:] == batch[16:]
    assert stored[:8] == (2).to_bytes(8, "big")
    assert broker.produce_calls == [(Acks.ALL, 1000)] * 2


REFUSED_BATCHES = [
    pytest.param(None, 7, ErrorCode.INVALID_RECORD, id="null"),
    pytest.param(b"", 7, ErrorCode.INVALID_RECORD, id="empty"),
    pytest.param(make_batch([b"a"]) * 2, 7, ErrorCode.INVALID_RECORD, id="two batches"),
    pytest.param(make_batch([b"a"])[:-1], 7, ErrorCode.CORRUPT_MESSAGE, id="cut"),
    pytest.param(make_batch([b"a"])[:40], 7, ErrorCode.INVALID_RECORD, id="cut header"),
    pytest.param(bytes(16) + b"\x01" + bytes(50), 7, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                 id="old format"),
    pytest.param(bytes(16) + b"\x03" + bytes(50), 7, ErrorCode.INVALID_RECORD, id="magic 3"),
    pytest.param(make_batch([b"a"], attributes=0x10), 7, ErrorCode.INVALID_RECORD,
                 id="transactional"),
    pytest.param(make_batch([b"a"], attributes=0x20), 7, ErrorCode.INVALID_RECORD, id="control"),
    pytest.param(make_batch([b"a"], attributes=ZSTD), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                 id="zstd before version 7"),
]  # fmt: skip


@pytest.mark.parametrize("batch,version,error", REFUSED_BATCHES)
def test_produce_refuses_what_is_not_exactly_one_batch(
    running: ListenerThread,
    broker: MemoryBroker,
    batch: bytes | None,
    version: int,
    error: ErrorCode,
) -> None:
    with WireClient(running.port) as client:
        partition = only(client.ask(schemas.PRODUCE, version, requests.produce(batch)))
        assert (partition["error_code"], partition["base_offset"]) == (error, -1)
        assert (
            only(client.ask(schemas.PRODUCE, 7, requests.produce(make_batch([b"a"]))))["error_code"]
            == ErrorCode.NONE
        )
    assert broker.logs["orders", 0].end == 1


def test_produce_of_zstd_is_taken_from_version_7(running: ListenerThread) -> None:
    batch = make_batch([b"a"], attributes=ZSTD)
    with WireClient(running.port) as client:
        partition = only(client.ask(schemas.PRODUCE, 7, requests.produce(batch)))
    assert partition["error_code"] == ErrorCode.NONE


def test_produce_with_impossible_acks_or_transaction_reaches_no_log(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    batch = make_batch([b"a"])
    with WireClient(running.port) as client:
        acks = client.ask(schemas.PRODUCE, 9, requests.produce(batch, acks=2))
        transaction = client.ask(schemas.PRODUCE, 9, requests.produce(batch, transactional_id="t"))
    assert only(acks)["error_code"] == ErrorCode.INVALID_REQUIRED_ACKS
    assert only(transaction)["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert broker.produce_calls == []


def test_produce_joins_refusals_and_outcomes_in_the_order_of_the_request(
    running: ListenerThread,
) -> None:
    good = [make_batch([b"a"])]
    request = requests.produce(b"")
    request["topics"] = [
        {"name": "orders", "partitions": [
            {"index": 1, "records": good}, {"index": 7, "records": good},
            {"index": 0, "records": [b"x"]}]},
        {"name": "audit", "partitions": [{"index": 0, "records": good}]},
    ]  # fmt: skip
    with WireClient(running.port) as client:
        response = client.ask(schemas.PRODUCE, 8, request)
    outcomes = [(topic["name"], partition["index"], partition["error_code"])
               for topic in response["topics"] for partition in topic["partitions"]]  # fmt: skip
    assert outcomes == [
        ("orders", 1, ErrorCode.NONE),
        ("orders", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 0, ErrorCode.INVALID_RECORD),
        ("audit", 0, ErrorCode.NONE),
    ]


TWICE = pytest.mark.parametrize(
    ("api_key", "version", "entry"),
    [
        (schemas.PRODUCE, 9, {"records": [make_batch([b"a"])]}),
        (schemas.FETCH, 12, {"fetch_offset": 0, "partition_max_bytes": 1_000}),
        (schemas.LIST_OFFSETS, 6, {"timestamp": -1}),
        (schemas.OFFSET_FOR_LEADER_EPOCH, 4, {"leader_epoch": 1}),
        (schemas.DELETE_RECORDS, 2, {"offset": 0}),
    ],
    ids=["Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords"],
)
HEAD = {"acks": -1, "timeout_ms": 1000, "max_wait_ms": 0, "min_bytes": 1, "isolation_level": 0,
        "forgotten_topics": [], "replica_id": -1}  # fmt: skip


@TWICE
@pytest.mark.parametrize("is_split", [False, True], ids=["one topic entry", "two topic entries"])
def test_a_request_that_names_a_partition_twice_is_refused_whole(
    running: ListenerThread,
    broker: MemoryBroker,
    api_key: int,
    version: int,
    entry: Message,
    is_split: bool,
) -> None:
    once, again, other = ({"index": index, **entry} for index in (0, 0, 1))
    topics = [{"name": "orders", "partitions": [once, other, again]}]
    if is_split:
        topics = [{"name": "orders", "partitions": each} for each in ([once, other], [again])]
    with WireClient(running.port) as client:
        refused = client.ask(api_key, version, {**HEAD, "topics": topics})
        served = client.ask(
            api_key, version, {**HEAD, "topics": [{"name": "orders", "partitions": [once, other]}]}
        )
    errors = [each["error_code"] for topic in refused["topics"] for each in topic["partitions"]]
    # A Produce response has one entry for a topic, however often the request names it.
    assert errors == [ErrorCode.INVALID_REQUEST] * 3
    assert [each["error_code"] for each in served["topics"][0]["partitions"]] == [0, 0]
    assert len(broker.produce_calls) == (api_key == schemas.PRODUCE)


def test_moved_leader_is_named_in_the_same_response(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    broker.moved.add(("orders", 0))
    with WireClient(running.port) as client:
        produced = client.ask(schemas.PRODUCE, 10, requests.produce(make_batch([b"a"])))
        old = client.ask(schemas.PRODUCE, 9, requests.produce(make_batch([b"a"])))
        fetched = client.ask(schemas.FETCH, 12, requests.fetch(0))
    hint = {"leader_id": 0, "leader_epoch": LEADER_EPOCH}
    assert only(produced)["current_leader"] == hint
    assert produced["node_endpoints"][0]["port"] == running.port
    assert only(old)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert only(fetched)["current_leader"] == hint


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_returns_the_whole_batch_that_holds_the_offset(
    running: ListenerThread, broker: MemoryBroker, version: int
) -> None:
    running.call(lambda: broker.logs["orders", 0].append(make_batch([b"a", b"b", b"c"])))
    with WireClient(running.port) as client:
        response = client.ask(
            schemas.FETCH, version, requests.fetch(1, partition_max_bytes=1, isolation_level=1)
        )
    partition = only(response)
    assert bytes(partition["records"]) == bytes(broker.logs["orders", 0].batches[0])
    assert (partition["high_watermark"], partition["last_stable_offset"]) == (3, 3)
    assert partition["aborted_transactions"] == []
    assert response["session_id"] == 0


def test_fetch_of_large_records_arrives_byte_for_byte(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    for size in (1_300_000, 10, 500_000):
        batch = make_batch([bytes([size % 251]) * size])
        running.call(partial(broker.logs["orders", 0].append, batch))
    with WireClient(running.port) as client:
        partition = only(
            client.ask(schemas.FETCH, 12, requests.fetch(0, partition_max_bytes=50_000_000))
        )
    assert bytes(partition["records"]) == b"".join(broker.logs["orders", 0].batches)


def test_fetch_passes_bounded_values_on(running: ListenerThread, broker: MemoryBroker) -> None:
    running.call(lambda: broker.logs["orders", 0].append(make_batch([b"a"])))
    with WireClient(running.port) as client:
        client.ask(
            schemas.FETCH, 12,
            requests.fetch(0, max_wait_ms=2**31 - 1, max_bytes=2**31 - 1, min_bytes=-5),
        )  # fmt: skip
    (call,) = broker.fetch_calls
    assert (call["max_wait_ms"], call["max_bytes"], call["min_bytes"]) == (300_000, 8_388_608, 0)
    assert call["partitions"][0].leader_epoch is None


def test_fetch_returns_where_histories_diverge(running: ListenerThread) -> None:
    with WireClient(running.port) as client:
        partition = only(client.ask(schemas.FETCH, 12, requests.fetch(0, last_fetched_epoch=9)))
    assert partition["diverging_epoch"] == {"epoch": LEADER_EPOCH, "end_offset": 0}


def test_fetch_refuses_followers_and_unknown_sessions(running: ListenerThread) -> None:
    with WireClient(running.port) as client:
        follower = client.ask(schemas.FETCH, 12, requests.fetch(0, replica_id=1))
        session = client.ask(schemas.FETCH, 12, requests.fetch(0, session_id=77, session_epoch=1))
        unknown = client.ask(schemas.FETCH, 12, requests.fetch(0, topic="nowhere"))
        beyond = client.ask(schemas.FETCH, 12, requests.fetch(99))
    assert follower["error_code"] == ErrorCode.INVALID_REQUEST
    assert session["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert only(unknown)["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert only(beyond)["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", range(3))
def test_delete_records_hands_each_partition_to_the_broker(
    running: ListenerThread, broker: MemoryBroker, version: int
) -> None:
    running.call(lambda: broker.logs["orders", 0].append(make_batch([b"a", b"b"])))
    asked = (1, -1, 3, -2)
    with WireClient(running.port) as client:
        found = [
            only(client.ask(schemas.DELETE_RECORDS, version, requests.delete_records(offset)))
            for offset in asked
        ]
        unknown = requests.delete_records(0, topic="nowhere", timeout_ms=-5)
        refused = only(client.ask(schemas.DELETE_RECORDS, version, unknown))
    out_of_range = (-1, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert [(each["low_watermark"], each["error_code"]) for each in found] == [
        (1, 0), (2, 0), out_of_range, out_of_range,
    ]  # fmt: skip
    assert refused["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(offset, timeout_ms) for _, _, offset, timeout_ms in broker.deletions] == [
        *((offset, 1000) for offset in asked), (0, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("version", range(1, 7))
def test_list_offsets_knows_both_ends_and_finds_times(
    running: ListenerThread, broker: MemoryBroker, version: int
) -> None:
    """The greatest timestamp, -3, came with version 7."""
    running.call(lambda: broker.logs["orders", 0].append(make_batch([b"a", b"b"])))
    with WireClient(running.port) as client:
        partitions = [
            only(client.ask(schemas.LIST_OFFSETS, version, requests.list_offsets(timestamp)))
            for timestamp in (-1, -2, 0, 1, 2, -3)
        ]
    unsupported = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert [
        (partition["error_code"], partition["offset"], partition["timestamp"])
        for partition in partitions
    ] == [(0, 2, -1), (0, 0, -1), (0, 0, 0), (0, 1, 1), (0, -1, -1), (unsupported, -1, -1)]


def test_list_offsets_answers_times_and_ends_in_the_order_of_the_request(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    running.call(lambda: broker.logs["orders", 0].append(make_batch([b"a", b"b"])))
    asked = [
        {"index": index, "timestamp": timestamp, "current_leader_epoch": epoch}
        for index, timestamp, epoch in [(99, 7, -1), (0, 1, 0), (1, -1, -1)]
    ]
    message: Message = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": "orders", "partitions": asked}],
    }
    with WireClient(running.port) as client:
        response = client.ask(schemas.LIST_OFFSETS, 5, message)
    (topic,) = response["topics"]
    listed = [(each["index"], each["error_code"], each["offset"]) for each in topic["partitions"]]
    assert listed == [
        (99, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (0, ErrorCode.FENCED_LEADER_EPOCH, -1),
        (1, ErrorCode.NONE, 0),
    ]


@pytest.mark.parametrize("timestamp", [-1, -2, 1])
def test_list_offsets_of_a_partition_without_news_waits_for_them(
    running: ListenerThread, broker: MemoryBroker, timestamp: int
) -> None:
    running.call(broker.news.clear)
    with WireClient(running.port) as client, WireClient(running.port) as other:
        client.send(schemas.LIST_OFFSETS, 6, requests.list_offsets(timestamp, topic="fresh"))
        known = only(other.ask(schemas.LIST_OFFSETS, 6, requests.list_offsets(timestamp)))
        assert known["error_code"] == ErrorCode.NONE
        eventually(lambda: bool(broker.awaited), LIMIT_MS, "a wait for news")
        running.call(lambda: broker.logs.update({("fresh", 0): MemoryLog()}))
        running.call(broker.news.set)
        _, response = client.receive()
    assert only(response)["error_code"] == ErrorCode.NONE
    assert broker.awaited == [[("fresh", 0)]]


def test_list_offsets_of_a_partition_that_nobody_knows_is_refused_after_the_wait(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    with WireClient(running.port) as client:
        response = client.ask(schemas.LIST_OFFSETS, 6, requests.list_offsets(-2, topic="nowhere"))
    assert only(response)["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.awaited == [[("nowhere", 0)]]


def test_a_request_for_times_waits_for_one_search_at_a_time(
    running: ListenerThread, broker: MemoryBroker
) -> None:
    """So that a client that names many partitions lets others in after each of them."""
    partitions = [{"index": each, "timestamp": 5} for each in range(2)]
    message: Message = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": name, "partitions": partitions} for name in ("orders", "audit")],
    }
    with WireClient(running.port) as client:
        client.ask(schemas.LIST_OFFSETS, 6, message)
    assert broker.searches == [1, 1, 1, 1]


def test_list_offsets_passes_the_leader_epoch_on(running: ListenerThread) -> None:
    with WireClient(running.port) as client:
        stale = only(client.ask(schemas.LIST_OFFSETS, 4, requests.list_offsets(-1, leader_epoch=1)))
        old = only(client.ask(schemas.LIST_OFFSETS, 3, requests.list_offsets(-1, leader_epoch=1)))
    assert stale["error_code"] == ErrorCode.FENCED_LEADER_EPOCH
    assert old["error_code"] == ErrorCode.NONE


@pytest.mark.parametrize("version", range(1, 7))
def test_list_offsets_tells_of_an_unknown_end_by_an_error_that_the_version_knows(
    running: ListenerThread, broker: MemoryBroker, version: int
) -> None:
    broker.end_unknown.add(("orders", 0))
    with WireClient(running.port) as client:
        end = only(client.ask(schemas.LIST_OFFSETS, version, requests.list_offsets(-1)))
        start = only(client.ask(schemas.LIST_OFFSETS, version, requests.list_offsets(-2)))
    newest = ErrorCode.OFFSET_NOT_AVAILABLE
    assert end["error_code"] == (newest if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE)
    assert (start["error_code"], start["offset"]) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("version", range(2, 5))
def test_offset_for_leader_epoch(running: ListenerThread, version: int) -> None:
    def requested(epoch: int, current: int) -> dict[str, object]:
        partition = {"index": 0, "leader_epoch": epoch, "current_leader_epoch": current}
        return {"topics": [{"name": "orders", "partitions": [partition]}]}

    with WireClient(running.port) as client:
        known = only(client.ask(schemas.OFFSET_FOR_LEADER_EPOCH, version, requested(3, -1)))
        older = only(client.ask(schemas.OFFSET_FOR_LEADER_EPOCH, version, requested(1, 3)))
        newer = only(client.ask(schemas.OFFSET_FOR_LEADER_EPOCH, version, requested(3, 9)))
    assert (known["leader_epoch"], known["end_offset"]) == (3, 0)
    assert (older["leader_epoch"], older["end_offset"]) == (-1, -1)
    assert newer["error_code"] == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("version", range(5))
def test_init_producer_id_gives_new_ids_and_refuses_transactions(
    running: ListenerThread, version: int
) -> None:
    def requested(transactional_id: str | None) -> dict[str, object]:
        return {"transactional_id": transactional_id, "transaction_timeout_ms": 1000}

    with WireClient(running.port) as client:
        first = client.ask(schemas.INIT_PRODUCER_ID, version, requested(None))
        second = client.ask(schemas.INIT_PRODUCER_ID, version, requested(None))
        refused = client.ask(schemas.INIT_PRODUCER_ID, version, requested("payments"))
        nameless = client.ask(schemas.INIT_PRODUCER_ID, version, requested(""))
    assert (first["error_code"], first["producer_epoch"]) == (ErrorCode.NONE, 0)
    assert second["producer_id"] != first["producer_id"]
    assert refused["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refused["producer_id"] == -1
    assert nameless["error_code"] == ErrorCode.INVALID_REQUEST


def test_init_producer_id_returns_the_brokers_refusal(
    running: ListenerThread, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise ProtocolError(ErrorCode.STALE_BROKER_EPOCH)

    monkeypatch.setattr(broker, "allocate_producer_id", refuse)
    with WireClient(running.port) as client:
        request = {"transactional_id": None, "transaction_timeout_ms": 1000}
        response = client.ask(schemas.INIT_PRODUCER_ID, 4, request)
    assert response["error_code"] == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("version", range(5))
def test_find_coordinator_knows_none(running: ListenerThread, version: int) -> None:
    with WireClient(running.port) as client:
        response = client.ask(
            schemas.FIND_COORDINATOR, version, {"key": "group", "coordinator_keys": ["group"]}
        )
        transactions = client.ask(
            schemas.FIND_COORDINATOR, version,
            {"key": "payments", "key_type": 1, "coordinator_keys": ["payments"]},
        )  # fmt: skip
    group = response["coordinators"][0] if version >= 4 else response
    refusal = transactions["coordinators"][0] if version >= 4 else transactions
    assert group["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group["node_id"] == -1
    if version >= 1:
        assert refusal["error_code"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_every_api_advertised_has_a_handler() -> None:
    from strandline.kafka_listener.apis import HANDLERS

    assert set(HANDLERS) == set(APIS)

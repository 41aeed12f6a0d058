"""A response with an error is logged in one line, or not at all."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from strandline.errors import ErrorCode
from strandline.kafka_listener import schemas
from strandline.kafka_listener.error_logging import (
    TOPIC_LOGGED_MAX_CHARACTERS,
    LoggedError,
    error_to_log,
)
from strandline.kafka_listener.response import Response
from strandline.kafka_listener.turns import at_once
from strandline.kafka_listener.wire import Message
from strandline.log_fields import fields_of
from tests.kafka import requests
from tests.kafka.support import ListenerThread, make_batch
from tests.kafka.wire_client import WireClient

LOGGER = "strandline.kafka_listener"


def logged_errors(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [
        {**vars(r), **fields_of(r)} for r in caplog.records if r.getMessage() == "request refused"
    ]


@pytest.mark.parametrize(
    ("requested", "error", "level", "place"),
    [
        pytest.param(
            (schemas.PRODUCE, 9, requests.produce(b"\0" * 30)),
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            logging.WARNING,
            ("orders", 0),
            id="a batch of an old format",
        ),
        pytest.param(
            (schemas.PRODUCE, 9, requests.produce(make_batch([b"a"]), partition=7)),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            logging.INFO,
            ("orders", 7),
            id="an unknown partition",
        ),
        pytest.param(
            (schemas.FETCH, 12, requests.fetch(-1)),
            ErrorCode.OFFSET_OUT_OF_RANGE,
            logging.INFO,
            ("orders", 0),
            id="a negative offset",
        ),
        pytest.param(
            (schemas.METADATA, 4, {"topics": [{"name": "../x"}, {"name": "a/b"}]}),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            logging.WARNING,
            ("../x", -1),
            id="names that escape a folder",
        ),
        pytest.param(
            (schemas.INIT_PRODUCER_ID, 4, {"transactional_id": "t", "transaction_timeout_ms": 1}),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            logging.WARNING,
            ("", -1),
            id="transactions, which have no topic",
        ),
    ],
)
def test_an_error_is_logged_once_with_its_peer_and_place(
    running: ListenerThread,
    caplog: pytest.LogCaptureFixture,
    requested: tuple[int, int, Message],
    error: ErrorCode,
    level: int,
    place: tuple[str, int],
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with WireClient(running.port) as client:
        client.ask(*requested)
        host, port = client.socket.getsockname()
    (line,) = logged_errors(caplog)
    assert (line["error"], line["levelno"]) == (error.name, level)
    assert (line["topic"], line["partition"]) == place
    assert (line["peer"], line["client"]) == (f"{host}:{port}", "test")
    assert line["api_key"] == requested[0]


def test_an_error_of_acks_0_is_logged_as_well(
    running: ListenerThread, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with WireClient(running.port) as client:
        client.send(schemas.PRODUCE, 9, requests.produce(b"junk", acks=0))
        assert client.is_closed_by_server()
    (line,) = logged_errors(caplog)
    assert line["error"] == ErrorCode.INVALID_RECORD.name


def partition(index: int, error: ErrorCode) -> Message:
    return {"index": index, "error_code": error, "error_message": f"cause {index}"}


def response(*errors: ErrorCode, name: str = "orders") -> Response:
    partitions = [partition(index, error) for index, error in enumerate(errors)]
    first = next((error for error in errors if error), ErrorCode.NONE)
    return Response(body={"topics": [{"name": name, "partitions": partitions}]}, error=first)


def logged_of(response: Response) -> LoggedError | None:
    return at_once(error_to_log(response))


def test_bad_input_behind_a_normal_error_is_found_and_counted() -> None:
    logged = logged_of(
        response(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NONE,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.MESSAGE_TOO_LARGE,
        )
    )
    assert logged is not None
    assert logged.fields() == {
        "error": "CORRUPT_MESSAGE",
        "topic": "orders",
        "partition": 2,
        "cause": "cause 2",
        "refused_count": 2,
    }


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
def test_an_error_that_every_correct_client_meets_is_not_logged(error: ErrorCode) -> None:
    assert logged_of(response(error)) is None
    assert logged_of(Response(body=None, error=error)) is None


def test_a_name_is_cut_before_it_fills_the_log() -> None:
    logged = logged_of(response(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="x" * 30_000))
    assert logged is not None
    assert logged.fields()["topic"] == "x" * TOPIC_LOGGED_MAX_CHARACTERS


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b"\0\0", 1, id="half a length"),
        pytest.param(b"\0\0\x20\0" + b"junk", 1, id="a frame cut short"),
    ],
)
def test_a_frame_that_never_ends_is_logged_when_its_connection_does(
    running: ListenerThread, caplog: pytest.LogCaptureFixture, sent: bytes, lines: int
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with WireClient(running.port) as client:
        client.socket.sendall(sent)
        client.socket.shutdown(1)
        assert client.is_closed_by_server()
    assert caplog.messages == ["connection lost within a request"] * lines

"""The outcome of a delivery in the load's history: acknowledged, failed or unknown."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message, Producer

from strandline_checker.history import SendOutcome, read_history
from strandline_cli.__main__ import main
from strandline_cli.load_consumer import TAKEN_MAX
from strandline_cli.load_figures import Figures
from strandline_cli.load_generator import OUTSTANDING_MAX, Load, count_last_retries

PARTITION = 3
OFFSET = 17
CLOSED_PORT = "127.0.0.1:1"

Done = Callable[[KafkaError | None, Message | None], None]


class HeldProducer:
    """A producer whose deliveries a test ends, each with an outcome of its choice."""

    def __init__(self) -> None:
        self.done: list[Done] = []

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: Done) -> None:
        del topic, value, partition
        self.done.append(on_delivery)


class AckedMessage:
    """The library's message of an acknowledged record."""

    def offset(self) -> int:
        return OFFSET


class CountingProducer:
    """A producer that tells at its third poll how many records it has sent again."""

    def __init__(self, figures: Figures) -> None:
        self.polls = 0
        self._figures = figures

    def poll(self, seconds: float) -> None:
        del seconds
        self.polls += 1
        if self.polls == 3:
            self._figures.on_retries(5)


def load_to(producer: HeldProducer, history: io.StringIO | None = None) -> Load:
    return Load(
        producer=cast(Producer, producer),
        topic="orders",
        history=history or io.StringIO(),
        name="load",
    )


def outcome_of(error: KafkaError | None) -> tuple[Load, list[Any]]:
    """Return the load after one delivery, and its line in the history."""
    producer, history = HeldProducer(), io.StringIO()
    load = load_to(producer, history)
    load.send(PARTITION, 0)
    (done,) = producer.done
    done(error, cast(Message, AckedMessage()))
    _, line = history.getvalue().splitlines()
    return load, json.loads(line)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._MSG_TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._PURGE_INFLIGHT,
    ],
)
def test_a_delivery_that_may_have_happened_is_unknown(code: int) -> None:
    load, line = outcome_of(KafkaError(code))
    assert line[0] == SendOutcome.UNKNOWN.value
    assert (load.unknown, load.failed, load.acked) == (1, 0, {})


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError._PURGE_QUEUE,
    ],
)
def test_a_delivery_that_was_refused_has_failed(code: int) -> None:
    load, line = outcome_of(KafkaError(code))
    assert line[0] == SendOutcome.FAILED.value
    assert (load.unknown, load.failed, load.acked) == (0, 1, {})


def test_a_delivery_that_was_acknowledged_has_its_offset() -> None:
    load, line = outcome_of(None)
    assert (line[0], line[-1]) == (SendOutcome.ACKED.value, OFFSET)
    assert (load.unknown, load.failed, load.acked) == (0, 0, {PARTITION: 1})


def test_a_record_that_the_library_gives_up_is_unknown_and_never_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library itself decides: it finds no broker until its delivery timeout."""
    history = tmp_path / "history"
    status = main(
        [
            *("load", f"--bootstrap={CLOSED_PORT}", "--topic=orders", "--partitions=1"),
            *("--rate=20", "--seconds=0.2", "--delivery-timeout-ms=300", f"--history={history}"),
        ]
    )
    capsys.readouterr()
    assert status == 0
    outcomes = [json.loads(line)[0] for line in history.read_text().splitlines()]
    assert SendOutcome.UNKNOWN.value in outcomes
    assert SendOutcome.FAILED.value not in outcomes
    assert SendOutcome.ACKED.value not in outcomes
    assert read_history(history.read_text().splitlines(keepends=True)).sends


def test_retries_that_records_in_the_queue_hid_are_counted_at_the_end() -> None:
    figures = Figures(started_ms=0, started_wall_ms=0)
    figures.on_retries(5 - 7)
    producer = CountingProducer(figures)
    count_last_retries(cast(Producer, producer), figures, 60)
    assert (figures.retried, producer.polls) == (5, 3)


def test_a_library_that_tells_no_count_keeps_no_load_from_its_end() -> None:
    figures = Figures(started_ms=0, started_wall_ms=0)
    producer = CountingProducer(figures)
    producer.polls = 3
    count_last_retries(cast(Producer, producer), figures, 0.001)
    assert figures.retried == 0


def test_a_load_that_is_behind_lets_its_consumer_read_as_many_as_it_sends() -> None:
    producer, sent = HeldProducer(), [3, 0, 7, 0]
    load_to(producer).send_due(sent, 1_000_000)
    assert len(producer.done) == TAKEN_MAX
    assert sent == [each + TAKEN_MAX // 4 for each in (3, 0, 7, 0)]


def test_a_load_sends_on_to_the_others_while_too_many_records_of_a_partition_wait() -> None:
    producer, sent = HeldProducer(), [0, 0, 0, 0]
    load = load_to(producer)
    load.outstanding[1] = OUTSTANDING_MAX // 4 - 2
    load.send_due(sent, 10)
    assert sent == [10, 2, 10, 10]
    for done in producer.done:
        done(None, cast(Message, AckedMessage()))
    load.send_due(sent, 12)
    assert sent == [12, 4, 12, 12]

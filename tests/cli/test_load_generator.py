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


class FillingProducer:
    """A producer that keeps the partitions of what it was given; `waiting` were there before."""

    def __init__(self, waiting: int) -> None:
        self.partitions: list[int] = []
        self._waiting = waiting

    def __len__(self) -> int:
        return self._waiting + len(self.partitions)

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: Done) -> None:
        del topic, value, on_delivery
        self.partitions.append(partition)


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


def outcome_of(error: KafkaError | None) -> tuple[Load, list[Any]]:
    """Return the load after one delivery, and its line in the history."""
    producer, history = HeldProducer(), io.StringIO()
    load = Load(producer=cast(Producer, producer), topic="orders", history=history, name="load")
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


def sent_in_a_turn(producer: FillingProducer, *, sent: int, due: int) -> int:
    load = Load(
        producer=cast(Producer, producer), topic="orders", history=io.StringIO(), name="load"
    )
    return load.send_due(sent, due, partitions=4)


def test_a_load_that_is_behind_lets_its_consumer_read_as_many_as_it_sends() -> None:
    producer = FillingProducer(0)
    sent = sent_in_a_turn(producer, sent=6, due=1_000_000)
    assert sent - 6 == len(producer.partitions) == TAKEN_MAX
    assert producer.partitions[:5] == [2, 3, 0, 1, 2]


def test_a_load_goes_on_with_other_work_while_too_many_records_wait() -> None:
    producer = FillingProducer(OUTSTANDING_MAX - 3)
    assert sent_in_a_turn(producer, sent=0, due=1_000) == 3
    assert sent_in_a_turn(producer, sent=3, due=1_000) == 3

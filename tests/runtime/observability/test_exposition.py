"""A scrape is the text that prometheus_client makes, in steps of bounded work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from math import inf, nan

import pytest
from prometheus_client import generate_latest

from strandline import names
from strandline.runtime.observability.exposition import SAMPLES_PER_STEP, in_steps, sample
from strandline.runtime.observability.metrics import Metrics
from tests.support.counted_calls import calls_of


def filled(topics: int) -> Metrics:
    metrics = Metrics()
    metrics.show_from_the_start(names.ALL_METRICS)
    for number in range(topics):
        metrics.counter(names.PRODUCED_BYTES_TOTAL).labels(f"topic-{number}").inc(number * 1.5)
    metrics.histogram(names.EVENT_LOOP_LAG_SECONDS).observe(0.003)
    metrics.gauge(names.BROKER_EPOCH).set(10**17)
    metrics.gauge(names.WATCH_LAST_EVENT_TIMESTAMP_SECONDS).labels('a"b\\c\nd').set(1.5e9)
    return metrics


def test_the_text_equals_that_of_prometheus_client() -> None:
    metrics = filled(1_200)
    assert asyncio.run(metrics.exposition()) == generate_latest(metrics.registry)


@pytest.mark.parametrize(
    "value", [0, 1, -2.5, 1e-9, 999_999.5, 1e6, 123_456_789.0, 1e300, inf, nan]
)
def test_each_scrape_equals_that_of_prometheus_client_whatever_changed(value: float) -> None:
    """The lines up to their values are kept from the first scrape."""
    metrics = filled(3)
    asyncio.run(metrics.exposition())
    metrics.gauge(names.BROKER_EPOCH).set(value)
    metrics.histogram(names.EVENT_LOOP_LAG_SECONDS).observe(abs(value))
    metrics.counter(names.PRODUCED_BYTES_TOTAL).labels("topic-1").inc(7)
    metrics.counter(names.PRODUCED_BYTES_TOTAL).labels("topic-new").inc(abs(value))
    metrics.watch_ended('a"b\\c\nd')
    metrics.gauge(names.WATCH_LAST_EVENT_TIMESTAMP_SECONDS).labels("pods").set(value)
    assert asyncio.run(metrics.exposition()) == generate_latest(metrics.registry)


def test_sections_follow_in_their_order() -> None:
    metrics = Metrics()
    metrics.add_section(lambda: iter(["a", "1\n"]))
    metrics.add_section(lambda: iter(["b", "1\n"]))
    assert asyncio.run(metrics.exposition()) == b"a1\nb1\n"


def test_others_are_served_between_the_pieces_of_a_scrape() -> None:
    order: list[str] = []

    def pieces() -> Iterator[str]:
        for number in range(3):
            order.append(f"piece {number}")
            yield ""

    async def others() -> None:
        for number in range(3):
            order.append(f"other {number}")
            await asyncio.sleep(0)

    async def scenario() -> None:
        metrics = Metrics()
        metrics.add_section(pieces)
        await asyncio.gather(metrics.exposition(), others())

    asyncio.run(scenario())
    assert order == ["piece 0", "other 0", "piece 1", "other 1", "piece 2", "other 2"]


def test_no_step_formats_more_samples_than_its_bound() -> None:
    metrics = filled(3 * SAMPLES_PER_STEP)
    longest, total = 0, 0
    pieces = metrics._instrument_text()

    def step() -> None:
        made.append(next(pieces, None))

    made: list[str | None] = []
    while not made or made[-1] is not None:
        calls = calls_of(step)
        total += calls
        longest = max(longest, calls)
    assert all(piece.count("\n") <= SAMPLES_PER_STEP for piece in made if piece)
    assert longest < total / 2


def test_in_steps_loses_no_sample() -> None:
    lines = [sample("x", [("n", str(number))], number) for number in range(1_001)]
    pieces = list(in_steps(lines))
    assert [piece.count("\n") for piece in pieces] == [500, 500, 1]
    assert "".join(pieces) == "".join(lines)

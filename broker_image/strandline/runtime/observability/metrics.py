"""The metrics of a process: instruments made from the rows of `strandline.names`.

`names` alone spells a metric's name. The reporters create counters whose label values are few
and known at once, so that these counters exist at 0 from the start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.samples import Sample

from strandline import names
from strandline.kube.api import RequestDone
from strandline.names import Metric, MetricKind

from .exposition import SAMPLES_PER_STEP, beginning, header, number

# prometheus_client does not annotate this function; typed as Any it may be called.
_disable_created_metrics: Any = prometheus_client.disable_created_metrics

BUCKETS_SECONDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""From one iteration of the event loop to the loss of a node."""
CONFLICT: Final = "409"


class Metrics:
    """Instruments by row, made on first use, and their exposition."""

    def __init__(self) -> None:
        _disable_created_metrics()
        self.registry: Final = CollectorRegistry()
        self._instruments: dict[str, Any] = {}
        self._beginnings: dict[tuple[str, ...], str] = {}
        """Lines up to their value, by the sample's name and the values of its labels."""
        self._sections: list[Callable[[], Iterator[str]]] = []
        self._one_at_a_time = asyncio.Lock()

    def add_section(self, pieces: Callable[[], Iterator[str]]) -> None:
        """Show more text at each scrape; each piece is made in a step of its own."""
        self._sections.append(pieces)

    def show_from_the_start(self, rows: Iterable[Metric], but: Collection[Metric] = ()) -> None:
        """Make the counters and histograms of rows, so that Prometheus sees them before any use.

        Shape:   but names rows that a section shows
        """
        for row in rows:
            if row in but:
                continue
            if row.kind is MetricKind.COUNTER:
                self.counter(row)
            elif row.kind is MetricKind.HISTOGRAM:
                self.histogram(row)

    def counter(self, row: Metric) -> Counter:
        """Return the counter of a row."""
        counter: Counter = self._instrument(row, Counter)
        return counter

    def gauge(self, row: Metric) -> Gauge:
        """Return the gauge of a row."""
        gauge: Gauge = self._instrument(row, Gauge)
        return gauge

    def histogram(self, row: Metric) -> Histogram:
        """Return the histogram of a row."""
        histogram: Histogram = self._instrument(row, Histogram, buckets=BUCKETS_SECONDS)
        return histogram

    def _instrument(self, row: Metric, kind: type, **options: object) -> Any:
        """Return the instrument of a row, made on first use; TypeError if it is of another kind."""
        if row.kind.value != kind.__name__.lower():
            raise TypeError(f"{row.name} is a {row.kind.value}, not a {kind.__name__.lower()}")
        if row.name not in self._instruments:
            self._instruments[row.name] = kind(
                row.name, row.documentation, row.labels, registry=self.registry, **options
            )
        return self._instruments[row.name]

    async def exposition(self) -> bytes:
        """Return everything in Prometheus's text format; others are served between the pieces.

        One scrape is made at a time: a second one waits for the first.
        """
        made: list[str] = []
        async with self._one_at_a_time:
            for pieces in (self._instrument_text, *self._sections):
                for piece in pieces():
                    made.append(piece)
                    await asyncio.sleep(0)
        return "".join(made).encode()

    def _instrument_text(self) -> Iterator[str]:
        for family in self.registry.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            yield header(name, family.documentation, family.type)
            for start in range(0, len(family.samples), SAMPLES_PER_STEP):
                shown = family.samples[start : start + SAMPLES_PER_STEP]
                yield "".join([self._line(each) for each in shown])

    def _line(self, sample: Sample) -> str:
        """Return a sample's line; all but its value is kept from one scrape to the next."""
        key = (sample.name, *sample.labels.values())
        begin = self._beginnings.get(key)
        if begin is None:
            begin = self._beginnings[key] = beginning(sample.name, sorted(sample.labels.items()))
        return f"{begin}{number(sample.value)}\n"

    def kubernetes_request_done(self, request: RequestDone) -> None:
        """Count one finished request to the API server."""
        labels = (request.verb, request.resource)
        with_code = (*labels, request.code)
        self.counter(names.KUBERNETES_REQUESTS_TOTAL).labels(*with_code).inc()
        self.histogram(names.KUBERNETES_REQUEST_SECONDS).labels(*with_code).observe(request.seconds)
        if request.code == CONFLICT:
            self.counter(names.KUBERNETES_CONFLICTS_TOTAL).labels(*labels).inc()

    def watch_ended(self, resource: str) -> None:
        """Forget a watch that nobody needs any more: its time would look like a broken one's.

        Another watch of the same resource shows itself again when it is next opened.
        """
        self.gauge(names.WATCH_LAST_EVENT_TIMESTAMP_SECONDS).remove_by_labels(
            {"resource": resource}
        )

    def watch_alive(self, resource: str) -> None:
        """Note that a watch was opened, or delivered an event or bookmark."""
        self.gauge(names.WATCH_LAST_EVENT_TIMESTAMP_SECONDS).labels(resource=resource).set(
            time.time()
        )

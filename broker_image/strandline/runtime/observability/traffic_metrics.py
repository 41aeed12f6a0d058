"""Clients' requests, and the records and bytes that a broker moves, as metrics."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import Counter, Histogram

from strandline import names
from strandline.errors import ErrorCode

from .metrics import Metrics


class _RequestMetrics(NamedTuple):
    """The instruments of one API and error: to find them by label costs more than to count."""

    requests: Counter
    local: Histogram
    remote: Histogram
    send: Histogram


class ListenerMetrics:
    """The listener's observer: counts requests and their times; it bounds the labels."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter(names.REQUESTS_TOTAL)
        self._seconds = metrics.histogram(names.REQUEST_SECONDS)
        self._unsupported = metrics.counter(names.UNSUPPORTED_REQUESTS_TOTAL)
        self._bound: dict[tuple[str, ErrorCode], _RequestMetrics] = {}

    def response_sent(
        self,
        api: str,
        error: ErrorCode,
        *,
        local_seconds: float,
        remote_seconds: float,
        send_seconds: float,
    ) -> None:
        """Count a request whose response was sent, and observe its times."""
        bound = self._bound.get((api, error)) or self._bind(api, error)
        bound.requests.inc()
        bound.local.observe(local_seconds)
        bound.remote.observe(remote_seconds)
        bound.send.observe(send_seconds)

    def _bind(self, api: str, error: ErrorCode) -> _RequestMetrics:
        bound = self._bound[api, error] = _RequestMetrics(
            self._requests.labels(api, error.name),
            self._seconds.labels(api, "local"),
            self._seconds.labels(api, "remote"),
            self._seconds.labels(api, "send"),
        )
        return bound

    def request_unsupported(self, api: str, client: str) -> None:
        """Count a request for an API or version that is not served."""
        self._unsupported.labels(api, client).inc()


class ThroughputMetrics:
    """Counters fed by the parts that move record bytes."""

    def __init__(self, metrics: Metrics) -> None:
        self._records = metrics.counter(names.PRODUCED_RECORDS_TOTAL)
        self._bytes = metrics.counter(names.PRODUCED_BYTES_TOTAL)
        self._produced: dict[str, tuple[Counter, Counter]] = {}
        """The counters of records and bytes by topic."""
        self._fetched = metrics.counter(names.FETCHED_BYTES_TOTAL)
        replicated = metrics.counter(names.REPLICATION_BYTES_TOTAL)
        self._replicated = {way: replicated.labels(way) for way in ("in", "out")}
        self._copied = metrics.counter(names.COPIED_BYTES_TOTAL)
        self._copies_held_back = metrics.counter(names.COPIES_HELD_BACK_TOTAL)

    def produced(self, topic: str, records: int, size_bytes: int) -> None:
        """Count a batch that was appended for a client."""
        bound = self._produced.get(topic)
        if bound is None:
            bound = self._records.labels(topic), self._bytes.labels(topic)
            self._produced[topic] = bound
        count, size = bound
        count.inc(records)
        size.inc(size_bytes)

    def fetched(self, topic: str, size_bytes: int) -> None:
        """Count the record bytes of a consumer's fetch."""
        self._fetched.labels(topic, "consumer").inc(size_bytes)

    def replicated(self, direction: str, size_bytes: int) -> None:
        """Count record bytes of replication streams; direction is in or out."""
        self._replicated[direction].inc(size_bytes)

    def copied(self, size_bytes: int) -> None:
        """Count record bytes that went to a replica that is being added."""
        self._copied.inc(size_bytes)

    def copy_held_back(self) -> None:
        """Count a response that left a copy out."""
        self._copies_held_back.inc()

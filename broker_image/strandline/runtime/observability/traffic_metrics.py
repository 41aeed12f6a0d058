"""Clients' requests, and the records and bytes that a broker moves, as metrics."""

from __future__ import annotations

from strandline import names
from strandline.errors import ErrorCode

from .metrics import Metrics


class ListenerMetrics:
    """The listener's observer: counts requests and their times; it bounds the labels."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter(names.REQUESTS_TOTAL)
        self._seconds = metrics.histogram(names.REQUEST_SECONDS)
        self._unsupported = metrics.counter(names.UNSUPPORTED_REQUESTS_TOTAL)

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
        self._requests.labels(api, error.name).inc()
        parts = {"local": local_seconds, "remote": remote_seconds, "send": send_seconds}
        for part, seconds in parts.items():
            self._seconds.labels(api, part).observe(seconds)

    def request_unsupported(self, api: str, client: str) -> None:
        """Count a request for an API or version that is not served."""
        self._unsupported.labels(api, client).inc()


class ThroughputMetrics:
    """Counters fed by the parts that move record bytes."""

    def __init__(self, metrics: Metrics) -> None:
        self._records = metrics.counter(names.PRODUCED_RECORDS_TOTAL)
        self._bytes = metrics.counter(names.PRODUCED_BYTES_TOTAL)
        self._fetched = metrics.counter(names.FETCHED_BYTES_TOTAL)
        replicated = metrics.counter(names.REPLICATION_BYTES_TOTAL)
        self._replicated = {way: replicated.labels(way) for way in ("in", "out")}
        self._copied = metrics.counter(names.COPIED_BYTES_TOTAL)
        self._copies_held_back = metrics.counter(names.COPIES_HELD_BACK_TOTAL)

    def produced(self, topic: str, records: int, size_bytes: int) -> None:
        """Count a batch that was appended for a client."""
        self._records.labels(topic).inc(records)
        self._bytes.labels(topic).inc(size_bytes)

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

"""Counters of what flows through a broker: produced, fetched, replicated."""

from __future__ import annotations

from strandline import names

from .metrics import Metrics


class ThroughputMetrics:
    """Counters fed by the parts that move record bytes."""

    def __init__(self, metrics: Metrics) -> None:
        self._records = metrics.counter(names.PRODUCED_RECORDS_TOTAL)
        self._bytes = metrics.counter(names.PRODUCED_BYTES_TOTAL)
        self._fetched = metrics.counter(names.FETCHED_BYTES_TOTAL)
        replicated = metrics.counter(names.REPLICATION_BYTES_TOTAL)
        self._replicated = {way: replicated.labels(way) for way in ("in", "out")}

    def produced(self, topic: str, records: int, size_bytes: int) -> None:
        """Count a batch that was appended for a client."""
        self._records.labels(topic).inc(records)
        self._bytes.labels(topic).inc(size_bytes)

    def fetched(self, topic: str, size_bytes: int) -> None:
        """Count what a consumer was given."""
        self._fetched.labels(topic, "consumer").inc(size_bytes)

    def replicated(self, direction: str, size_bytes: int) -> None:
        """Count record bytes of replication streams; direction is in or out."""
        self._replicated[direction].inc(size_bytes)

"""The Kafka listener's facts as metrics: `kafka_listener.observer` on top of the registry."""

from __future__ import annotations

from strandline import names
from strandline.errors import ErrorCode

from .metrics import Metrics


class ListenerMetrics:
    """Counts requests and their times; labels are bounded by the listener."""

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
        self._seconds.labels(api, "local").observe(local_seconds)
        self._seconds.labels(api, "remote").observe(remote_seconds)
        self._seconds.labels(api, "send").observe(send_seconds)

    def request_unsupported(self, api: str, client: str) -> None:
        """Count a request for an API or version that is not served."""
        self._unsupported.labels(api, client).inc()

"""What the operator measures of itself, and the port that it is read from.

`main` hands it out; `reconcile` and the API client report to it. Gauges are taken when they are
read. The requests of kopf's own watches are not counted: it has a client of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import prometheus_client
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from strandline import names
from strandline.errors import ConfigError
from strandline.kube.api import RequestDone
from strandline.names import Metric

from . import kinds
from .analysis import AnalysisSample
from .observed import ConditionSample

# The library gives this function no types.
_disable_created_metrics: Any = prometheus_client.disable_created_metrics
DONE: Final = "done"
FAILED: Final = "failed"
_STATES: Final = {"True": 1, "False": 0}
_UNKNOWN: Final = -1
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Bounds of the histograms: a pass is a few requests, or minutes of creating Partitions."""
_COUNTED: Final = {
    names.ANALYSIS_INCIDENTS: "incidents",
    names.ANALYSIS_ELECTIONS: "elections",
    names.ANALYSIS_ISR_SHRINKS: "isrShrinks",
    names.ANALYSIS_RECORDS_AT_RISK: "recordsAtRisk",
    names.ANALYSIS_RECORDS_LOST: "recordsLost",
}
"""Counts of the last run of the analysis to fields of the status."""


class OperatorMetrics:
    """Counters of passes and requests; gauges of queue, conditions and definitions."""

    def __init__(self) -> None:
        # A second series for each counter would tell when its process began, which nobody asks.
        _disable_created_metrics()
        self._registry = CollectorRegistry()
        self._passes = self._counter(names.OPERATOR_RECONCILES_TOTAL)
        self._pass_seconds = self._histogram(names.OPERATOR_RECONCILE_SECONDS)
        self._queue_length = self._gauge(names.OPERATOR_QUEUE_LENGTH)
        self._queue_seconds = self._histogram(names.OPERATOR_QUEUE_SECONDS)
        self._is_ready = self._gauge(names.OPERATOR_READY)
        self._conditions = self._gauge(names.OPERATOR_CONDITION)
        self._lacking = self._gauge(names.OPERATOR_DEFINITIONS_LACKING)
        self._requests = self._counter(names.KUBERNETES_REQUESTS_TOTAL)
        self._request_seconds = self._histogram(names.KUBERNETES_REQUEST_SECONDS)
        self._run_ended = self._gauge(names.ANALYSIS_RUN_TIMESTAMP_SECONDS)
        self._window = self._gauge(names.ANALYSIS_WINDOW_SECONDS)
        self._coverage = self._gauge(names.ANALYSIS_COVERAGE_RATIO)
        self._leaderless = self._gauge(names.ANALYSIS_LEADERLESS_SECONDS)
        self._counted = {field: self._gauge(row) for row, field in _COUNTED.items()}
        for kind in (kinds.CLUSTER.kind, kinds.TOPIC.kind):
            self._pass_seconds.labels(kind)
            for result in (DONE, FAILED):
                self._passes.labels(kind, result)

    def _counter(self, row: Metric) -> Counter:
        return Counter(row.name, row.documentation, row.labels, registry=self._registry)

    def _gauge(self, row: Metric) -> Gauge:
        return Gauge(row.name, row.documentation, row.labels, registry=self._registry)

    def _histogram(self, row: Metric) -> Histogram:
        return Histogram(
            row.name, row.documentation, row.labels, registry=self._registry, buckets=_SECONDS
        )

    def pass_ended(self, kind: str, *, is_done: bool, seconds: float) -> None:
        """Count a pass of a kind, and its time."""
        self._passes.labels(kind, DONE if is_done else FAILED).inc()
        self._pass_seconds.labels(kind).observe(seconds)

    def waited(self, seconds: float) -> None:
        """Take the time that a key waited for a worker after it was due."""
        self._queue_seconds.observe(seconds)

    def definitions_looked_at(self, lacking: int) -> None:
        """Take how many kinds and fields the served definitions lack."""
        self._lacking.set(lacking)

    def request_done(self, done: RequestDone) -> None:
        """Count a request to the API server."""
        labels = (done.verb, done.resource, done.code)
        self._requests.labels(*labels).inc()
        self._request_seconds.labels(*labels).observe(done.seconds)

    def text(
        self,
        *,
        is_ready: bool,
        queue_length: int,
        conditions: Iterable[ConditionSample],
        analyses: Iterable[AnalysisSample] = (),
    ) -> bytes:
        """Return all metrics in Prometheus's text format, with these gauges."""
        self._is_ready.set(is_ready)
        self._queue_length.set(queue_length)
        # An object that is gone must not leave its conditions behind.
        self._conditions.clear()
        for each in conditions:
            gauge = self._conditions.labels(each.kind, each.name, each.condition, each.reason)
            gauge.set(_STATES.get(each.status, _UNKNOWN))
        self._set_analyses(analyses)
        return generate_latest(self._registry)

    def _set_analyses(self, analyses: Iterable[AnalysisSample]) -> None:
        """Set what the last runs told; a cluster without one leaves nothing behind."""
        ranges = (self._run_ended, self._window, self._coverage, self._leaderless)
        for gauge in (*ranges, *self._counted.values()):
            gauge.clear()
        for each in analyses:
            self._run_ended.labels(each.cluster).set(each.ended_seconds)
            self._window.labels(each.cluster).set(each.window_seconds)
            self._coverage.labels(each.cluster).set(each.told["coveragePercent"] / 100)
            for bound, field in (("low", "leaderlessLowMs"), ("high", "leaderlessHighMs")):
                self._leaderless.labels(each.cluster, bound).set(each.told[field] / 1000)
            for field, gauge in self._counted.items():
                gauge.labels(each.cluster).set(each.told[field])


class MetricsServer:
    """/metrics over HTTP on a port of its own; 0 means none."""

    def __init__(self, port: int, text: Callable[[], bytes]) -> None:
        self._port = port
        self._text = text
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> None:
        """Listen.

        Raises:  ConfigError if the port is taken
        """
        if not self._port:
            return
        app = web.Application()
        app.router.add_get("/metrics", self._respond)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, port=self._port).start()
        except OSError as error:
            await self._stop()
            raise ConfigError(f"METRICS_PORT {self._port}: {error}") from error

    async def __aexit__(self, *_: object) -> None:
        """Listen no more."""
        await self._stop()

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _respond(self, _: web.Request) -> web.Response:
        return web.Response(body=self._text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

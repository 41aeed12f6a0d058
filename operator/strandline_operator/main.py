"""Entry of the operator process: configuration, logs, kopf's watches, the work queue.

Passes begin only while this process holds the operator's Lease. On SIGTERM the process ends after
its running passes: a topic whose new Partitions are being created must get them all. It also ends
when the store went back to a backup: kopf's watches would show nothing until the store has reached
their versions again, and the next process lists everything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from typing import Final

import kopf

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import ConfigError, CoordinationError, StoreNotFound
from strandline.kube.api import ApiClient
from strandline.kube.waiting import Pauses, WaitingReport
from strandline.log_fields import fields, fields_of

from . import kinds
from .operator_config import FIELD_MANAGER, OperatorConfig, load_operator_config
from .operator_lease import OperatorLease
from .operator_metrics import MetricsServer, OperatorMetrics
from .reconcile import Reconciler
from .registry import make_kopf_settings, make_registry

_log = logging.getLogger(__name__)

REFUSED: Final = 2
"""Exit code of a configuration that cannot work."""
DRAIN_SECONDS: Final = 15
"""Time for the running passes at the end; below the pod's grace period of 30 s."""


RELEASE_SECONDS: Final = 5
"""Time to give the Lease up; an operator that cannot is waited for as if it had died."""


class OperatorLogFormatter(logging.Formatter):
    """One JSON object a line: time, level, message, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= fields_of(record)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def main() -> int:
    """Run the operator until it is stopped; return its exit code."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OperatorLogFormatter())
    logging.basicConfig(level=os.environ.get("LOG_LEVEL") or "INFO", handlers=[handler])
    try:
        config = load_operator_config()
        asyncio.run(run(config))
    except ConfigError as error:
        _log.error("refusing to start", extra=fields(cause=str(error)))
        return REFUSED
    return 0


async def run(config: OperatorConfig) -> None:
    """Reconcile one namespace until SIGTERM or SIGINT, an old store, or a bug of the work queue.

    Raises:  ConfigError if nothing says where the API server is, or a port is taken
    """
    metrics = OperatorMetrics()
    async with await ApiClient.open(
        KubernetesConfig(), field_manager=FIELD_MANAGER, on_request=metrics.request_done
    ) as api:
        await _wait_for_definitions(api, config.namespace)
        reconciler = Reconciler(api, config, metrics)
        server = MetricsServer(config.metrics_port, reconciler.metrics_text)
        await server.start()
        reconciler.queue.pause()
        ended = asyncio.Event()

        def end_at_old_store() -> None:
            _log.error("ending: the store went back to an earlier state; the next start lists it")
            ended.set()

        lease = OperatorLease(
            api,
            namespace=config.namespace,
            identity=config.identity,
            on_held=reconciler.queue.resume,
            on_lost=reconciler.queue.pause,
            on_store_went_back=end_at_old_store,
        )
        candidate = asyncio.create_task(lease.run())
        work = asyncio.create_task(reconciler.queue.run())
        for task in (work, candidate):
            task.add_done_callback(lambda _: ended.set())
        besides = [
            asyncio.create_task(reconciler.resync()),
            asyncio.create_task(reconciler.tell_news()),
        ]
        port = config.http_port
        try:
            await kopf.operator(
                registry=make_registry(reconciler),
                settings=make_kopf_settings(),
                standalone=True,
                namespaces=[config.namespace],
                liveness_endpoint=f"http://0.0.0.0:{port}/live" if port else None,
                stop_flag=ended,
            )
        finally:
            for task in besides:
                task.cancel()
            await server.stop()
            reconciler.queue.stop()
            try:
                await asyncio.wait_for(work, DRAIN_SECONDS)
            except TimeoutError:
                _log.error("passes under way were cut off", extra=fields(seconds=DRAIN_SECONDS))
            finally:
                await _leave(lease, candidate)


async def _wait_for_definitions(api: ApiClient, namespace: str) -> None:
    """Wait while the API server lacks a definition: kopf looks for them once, at its start."""
    pauses, report = Pauses(KubernetesConfig()), WaitingReport(KubernetesConfig())
    for kind in kinds.WATCHED:
        while True:
            try:
                await api.list(kind.resource, namespace)
            except StoreNotFound as error:
                report.waiting_for(f"definition of {kind.resource.plural}", error)
                await pauses.pause()
                continue
            except CoordinationError as error:
                _log.debug("a kind was not listed", extra=fields(cause=str(error)))
            break


async def _leave(lease: OperatorLease, candidate: asyncio.Task[None]) -> None:
    """Release the Lease after the last pass, so that the next operator need not wait."""
    lease.release()
    try:
        await asyncio.wait_for(candidate, RELEASE_SECONDS)
    except TimeoutError:
        _log.warning("lease not released", extra=fields(seconds=RELEASE_SECONDS))

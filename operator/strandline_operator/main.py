"""Entry of the operator process: configuration, logs, probes, kopf's watches, the namespaces' work.

Nothing is watched before the definitions are new enough, and no pass begins while they have become
older. Passes begin only while this process holds the operator's Lease of the namespace. On SIGTERM
the process ends after its running passes: a topic whose new Partitions are being created must get
them all. It also ends when the store went back to a backup: kopf's watches would show nothing until
the store has reached their versions again, and the next process lists everything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

import kopf

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import ConfigError, CoordinationError, StoreNotFound
from strandline.kube.api import ApiClient
from strandline.kube.waiting import Pauses, WaitingReport
from strandline.log_fields import fields, fields_of

from . import kinds
from .definitions import keep_looking, wait_until_served
from .namespaces import NamespaceWork
from .operator_config import FIELD_MANAGER, OperatorConfig, load_operator_config
from .operator_metrics import MetricsServer, OperatorMetrics
from .probes import Health, serve
from .reconcile import Reconciler
from .registry import make_kopf_settings, make_registry
from .watches import Watches, monotonic_ms
from .work_queue import Pause

_log = logging.getLogger(__name__)

REFUSED: Final = 2
"""Exit code of a configuration that cannot work."""


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
    """Reconcile until SIGTERM or SIGINT, an old store, or a bug of a work queue.

    Raises:  ConfigError if nothing says where the API server is, or a port is taken
    """
    configs = config.for_namespaces()
    health, metrics = Health(), OperatorMetrics()
    reconcilers: dict[str, Reconciler] = {}
    async with (
        await ApiClient.open(
            KubernetesConfig(), field_manager=FIELD_MANAGER, on_request=metrics.request_done
        ) as api,
        serve(health, config.http_port),
        # From the start: an operator that waits for definitions runs, and is not ready.
        MetricsServer(config.metrics_port, lambda: _metrics_text(metrics, health, reconcilers)),
    ):
        await _wait_for_definitions(api, configs, health)
        await _work(api, configs, health, metrics, reconcilers)


async def _work(
    api: ApiClient,
    configs: Mapping[str, OperatorConfig],
    health: Health,
    metrics: OperatorMetrics,
    reconcilers: dict[str, Reconciler],
) -> None:
    """Watch and reconcile every namespace until one of them cannot go on; fill in reconcilers."""
    ended = asyncio.Event()
    works = {
        name: NamespaceWork(api, each, metrics, on_ended=ended.set)
        for name, each in configs.items()
    }
    reconcilers |= {name: work.reconciler for name, work in works.items()}

    def resync_all() -> None:
        for reconciler in reconcilers.values():
            reconciler.resync_now()

    watched = (kind.resource.path(name) for name in configs for kind in kinds.WATCHED)
    watches = Watches(watched, now_ms=monotonic_ms(), on_listed_again=resync_all)
    health.started(watches)
    for work in works.values():
        work.start()
    every_seconds = next(iter(configs.values())).definitions_look_seconds
    looking = asyncio.create_task(
        _look_at_definitions(api, every_seconds, health, metrics, list(reconcilers.values()))
    )
    looking.add_done_callback(lambda _: ended.set())
    try:
        await kopf.operator(
            registry=make_registry(reconcilers, watches),
            settings=make_kopf_settings(),
            standalone=True,
            namespaces=list(configs),
            stop_flag=ended,
        )
    finally:
        looking.cancel()
        ends = (work.end() for work in works.values())
        for outcome in await asyncio.gather(looking, *ends, return_exceptions=True):
            # kopf cancels tasks that began beside it; that is an end, too, and no failure.
            if isinstance(outcome, Exception):
                raise outcome


def _metrics_text(
    metrics: OperatorMetrics, health: Health, reconcilers: Mapping[str, Reconciler]
) -> bytes:
    """Return the metrics of all namespaces; of several, an object's name has its namespace, too.

    An operator that waits for the Lease of a namespace tells nothing of its objects: the one that
    works does, and a sum over both would count them twice.
    """
    is_one = len(reconcilers) == 1
    working = {name: each for name, each in reconcilers.items() if each.queue.has_lease}
    return metrics.text(
        is_ready=not health.not_ready(),
        queue_length=sum(each.queue.length for each in working.values()),
        conditions=[
            sample if is_one else replace(sample, name=f"{namespace}/{sample.name}")
            for namespace, each in working.items()
            for sample in each.cache.conditions()
        ],
        analyses=[
            sample if is_one else replace(sample, cluster=f"{namespace}/{sample.cluster}")
            for namespace, each in working.items()
            for sample in each.cache.analyses()
        ],
    )


async def _look_at_definitions(
    api: ApiClient,
    every_seconds: int,
    health: Health,
    metrics: OperatorMetrics,
    reconcilers: Sequence[Reconciler],
) -> None:
    """Keep every queue from beginning work while definitions are too old; never returns."""

    def pause() -> None:
        for reconciler in reconcilers:
            reconciler.queue.pause(Pause.OLD_DEFINITIONS)

    def resume() -> None:
        health.waits_for("")
        for reconciler in reconcilers:
            reconciler.queue.resume(Pause.OLD_DEFINITIONS)
            # Meanwhile watches may have shown objects without the fields that were lacking.
            reconciler.resync_now()

    await keep_looking(
        api,
        every_seconds=every_seconds,
        pause=pause,
        tell=health.waits_for,
        count=metrics.definitions_looked_at,
        resume=resume,
    )


async def _wait_for_definitions(
    api: ApiClient, configs: Mapping[str, OperatorConfig], health: Health
) -> None:
    """Wait while a definition is missing or too old: kopf looks for them once, at its start."""
    await wait_until_served(api, health.waits_for)
    pauses, report = Pauses(KubernetesConfig()), WaitingReport(KubernetesConfig())
    for kind, namespace in product(kinds.WATCHED, configs):
        while True:
            try:
                await api.list(kind.resource, namespace)
            except StoreNotFound as error:
                what = f"definition of {kind.resource.plural}"
                health.waits_for(what)
                report.waiting_for(what, error)
                await pauses.pause()
                continue
            except CoordinationError as error:
                _log.debug("a kind was not listed", extra=fields(cause=str(error)))
            break

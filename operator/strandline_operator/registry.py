"""Connects kopf's watches to the reconciler: handlers of two lines, no global decorators.

kopf is only the watch engine. An index handler sees every object of the initial lists; kopf holds
back all event handlers until every list is whole, so no plan is made from half of the objects.
kopf writes no finalizer, annotation or patch of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import kopf

from strandline.errors import ConfigError

from . import kinds, operator_config
from .kinds import namespace_of
from .reconcile import Reconciler
from .watches import Watches, tracing

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def make_registry(reconcilers: Mapping[str, Reconciler], watches: Watches) -> kopf.OperatorRegistry:
    """Return handlers for every watched kind; each namespace has a reconciler."""
    registry = kopf.OperatorRegistry()

    # A coroutine, because a session belongs to the event loop that made it.
    async def on_login(**parts: Any) -> kopf.AiohttpSession | None:
        found = login(**parts)
        return None if found is None else _session(found, watches)

    kopf.on.login(registry=registry, errors=kopf.ErrorsMode.TEMPORARY)(on_login)
    for kind in kinds.WATCHED:
        _register(registry, kind, reconcilers)
    return registry


def make_kopf_settings() -> kopf.OperatorSettings:
    """Return settings with our timeouts and without kopf's own writes."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.scanning.disabled = True
    chosen.persistence.finalizer = "strandline.dev/operator"
    chosen.networking.request_timeout = operator_config.REQUEST_TIMEOUT_SECONDS
    chosen.networking.connect_timeout = operator_config.CONNECT_TIMEOUT_SECONDS
    chosen.networking.error_backoffs = (0.1, 0.3, 1, 2, 5)
    chosen.watching.server_timeout = operator_config.WATCH_SERVER_TIMEOUT_SECONDS
    chosen.watching.client_timeout = operator_config.WATCH_CLIENT_TIMEOUT_SECONDS
    chosen.watching.inactivity_timeout = operator_config.WATCH_SILENT_MAX_SECONDS
    chosen.process.ultimate_exiting_timeout = operator_config.REQUEST_TIMEOUT_SECONDS
    return chosen


def login(**parts: Any) -> kopf.ConnectionInfo | None:
    """Return the API server's connection: KUBECONFIG if set, else the pod's ServiceAccount."""
    if os.environ.get("KUBECONFIG"):
        return kopf.login_with_kubeconfig(**parts)
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
    if not host or not port:
        raise ConfigError("KUBECONFIG: neither it nor KUBERNETES_SERVICE_HOST is set")
    return kopf.ConnectionInfo(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_path=str(_ACCOUNT / "ca.crt"),
        scheme="Bearer",
        token=(_ACCOUNT / "token").read_text().strip(),
    )


def _session(found: kopf.ConnectionInfo, watches: Watches) -> kopf.AiohttpSession:
    """Return kopf's HTTP session for a connection, with a trace that tells of watches."""
    return kopf.AiohttpSession(
        server=found.server,
        default_namespace=found.default_namespace,
        aiohttp_session=aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=found.as_ssl_context()),
            headers=found.as_http_headers(),
            proxy=found.proxy_url,
            trust_env=bool(found.trust_env),
            trace_configs=[tracing(watches)],
        ),
    )


def _register(
    registry: kopf.OperatorRegistry, kind: kinds.Kind, reconcilers: Mapping[str, Reconciler]
) -> None:
    resource = kind.resource
    where = (resource.group, resource.version, resource.plural)

    # Coroutines, because kopf would run a plain function in another thread.
    async def on_listed(body: kopf.Body, **_: Any) -> None:
        value = dict(body)
        reconcilers[namespace_of(value)].remember(kind, value)

    async def on_change(event: kopf.RawEvent, **_: Any) -> None:
        value = dict(event["object"])
        reconcilers[namespace_of(value)].on_change(kind, event["type"] or "", value)

    kopf.index(*where, registry=registry, id=f"listed-{resource.plural}")(on_listed)
    kopf.on.event(*where, registry=registry, id=f"changed-{resource.plural}")(on_change)

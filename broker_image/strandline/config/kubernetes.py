"""Timeouts, pauses and bounds of calls to the API server."""

from __future__ import annotations

from dataclasses import dataclass

from .declaration import integer


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesConfig:
    """Timeouts and bounds of every call; no call relies on the client library's defaults."""

    connect_timeout_ms: int = integer("kubernetes.connect.timeout.ms", 2_000, (50, 60_000))
    """Time to connect, TLS included."""

    request_timeout_ms: int = integer("kubernetes.request.timeout.ms", 5_000, (50, 600_000))
    """Time for one request that reads or writes one object."""

    list_timeout_ms: int = integer("kubernetes.list.timeout.ms", 30_000, (100, 600_000))
    """Time for one page of a list."""

    list_page_size: int = integer("kubernetes.list.page.size", 500, (1, 10_000))
    """Objects per page: 500 as in kubectl, so that no page keeps the API server busy for long."""

    list_attempts: int = integer("kubernetes.list.attempts", 3, (1, 100))
    """Attempts at one list; the next one starts when the pages of the last one expired."""

    watch_timeout_seconds: int = integer("kubernetes.watch.timeout.seconds", 20, (1, 3_600))
    """The API server ends a watch after this time; the next watch continues where it ended. Short,
    because a broken network reports no error: a watch that does not end in time has failed. The
    watch of the controller Lease lasts controller.lease.duration.seconds."""

    watch_grace_ms: int = integer("kubernetes.watch.grace.ms", 1_000, (100, 600_000))
    """So much longer than it may last a watch may be silent; then its connection is broken."""

    backoff_ms: int = integer("kubernetes.backoff.ms", 100, (1, 60_000))
    """First pause before a failed call is repeated; doubles up to kubernetes.backoff.max.ms."""

    backoff_max_ms: int = integer("kubernetes.backoff.max.ms", 2_000, (1, 600_000))
    """Largest pause between repeated calls."""

    connections_max: int = integer("kubernetes.connections.max", 50, (1, 1_000))
    """Connections to the API server, watches included."""

    forbidden_grace_ms: int = integer("kubernetes.forbidden.grace.ms", 5_000, (0, 600_000))
    """A starting broker gives up only when 401 or 403 lasts this long: a RoleBinding reaches
    the authorizer a moment after it was created."""

    waiting_report_interval_ms: int = integer("waiting.report.interval.ms", 10_000, (100, 600_000))
    """A broker that waits for Kubernetes logs the reason at this interval."""

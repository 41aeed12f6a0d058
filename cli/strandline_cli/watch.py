"""A live view of a cluster for as long as a person wants it, also while parts of it are away.

Partitions come by a watch, so that no change is missed; the controller and pods are read from time
to time, and each broker's metrics through the API server, as `strandline status` does.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.live import Live

from strandline.errors import ConfigError

from . import watch_page
from .cluster_view import API_LIMIT_SECONDS, HTTP_PORT, METRICS_LIMIT_SECONDS, pod_of
from .commands import CommandFailed
from .end_asked import EndAsked
from .kubectl import ApiProxy, Kubernetes, Object
from .watch_state import PARTITIONS_MAX, WatchState, replicas_of

LOOK_SECONDS = 0.5
"""Between two looks at the controller, the pods and the brokers."""
MEASURE_SECONDS = 0.5
"""Between two looks at the brokers' metrics; a shorter silence of a broker may be missed."""
WATCH_SECONDS = 30
"""After this time a watch is made anew, so that one that died unseen does no harm."""
WATCH_LIMIT_SECONDS = WATCH_SECONDS + 5.0
RETRY_SECONDS = 0.5
DRAW_SECONDS = 0.25
READERS_MAX = 8
"""Brokers whose metrics are read at the same time."""
EXPECTED = (OSError, CommandFailed, ValueError, KeyError)


Shown = TypeVar("Shown")


ReadMetrics = Callable[[ApiProxy, str], str]
"""Returns the page of metrics of the broker with this pod; raises one of EXPECTED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchWishes:
    """What is watched, and for how many seconds; inf until a person ends it, 0 for one look."""

    cluster: str
    topic: str
    seconds: float


class ClusterWatch:
    """Keeps a WatchState up to date with its threads, until closed.

    Raises:  CommandFailed or OSError if the API server does not respond at the beginning
    """

    def __init__(
        self,
        kubernetes: Kubernetes,
        *,
        cluster: str,
        topic: str = "",
        read_metrics: ReadMetrics | None = None,
    ) -> None:
        namespace = kubernetes.namespace
        self.cluster = cluster
        self._ours = f"/apis/strandline.dev/v1alpha1/namespaces/{namespace}"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._labelled = f"labelSelector=strandline.dev%2Fcluster%3D{cluster}"
        self._read_metrics = read_metrics or self._page
        self._state = WatchState(topic)
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._closed = threading.Event()
        self._proxy = ApiProxy(kubernetes)
        self._readers = ThreadPoolExecutor(READERS_MAX)
        self._threads = [
            threading.Thread(target=self._follow, daemon=True),
            threading.Thread(target=self._repeat, args=(self._look, LOOK_SECONDS), daemon=True),
            threading.Thread(
                target=self._repeat, args=(self._measure, MEASURE_SECONDS), daemon=True
            ),
        ]
        try:
            self._look_once()
            self._take_list()
            self._measure()
        except BaseException:
            self._proxy.close()
            raise
        for thread in self._threads:
            thread.start()

    def show(self, make: Callable[[WatchState, float], Shown]) -> Shown:
        """Return what is made of the newest picture and the seconds since the beginning."""
        with self._lock:
            return make(self._state, self._now())

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()
        # This ends the watch, too, which waits for a line.
        self._proxy.close()
        for thread in self._threads:
            thread.join()
        self._readers.shutdown()

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _repeat(self, look: Callable[[], None], seconds: float) -> None:
        while not self._closed.wait(seconds):
            with suppress(*EXPECTED):
                look()

    def _get(self, path: str) -> Object:
        found: Object = json.loads(self._proxy.get(path, limit_seconds=API_LIMIT_SECONDS))
        return found

    # --- Partitions ------------------------------------------------------------------------

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                self._take_changes(self._take_list())
            except EXPECTED:
                self._closed.wait(RETRY_SECONDS)

    def _take_list(self) -> str:
        """Take the present list of Partitions; return the version to watch from."""
        # More than are followed, so that those left out can be counted.
        path = f"{self._ours}/partitions?{self._labelled}&limit={PARTITIONS_MAX * 2}"
        listed = self._get(path)
        with self._lock:
            self._state.partitions_listed(listed["items"], self._now())
        return str(listed["metadata"]["resourceVersion"])

    def _take_changes(self, version: str) -> None:
        """Take changes until the watch ends or its version is too old."""
        watch = f"watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
        path = f"{self._ours}/partitions?{self._labelled}&{watch}"
        for line in self._proxy.lines(path, limit_seconds=WATCH_LIMIT_SECONDS):
            event = json.loads(line)
            with self._lock:
                match event["type"]:
                    case "ADDED" | "MODIFIED":
                        self._state.partition_changed(event["object"], self._now())
                    case "DELETED":
                        self._state.partition_deleted(event["object"], self._now())
                    case _:
                        return

    # --- the rest --------------------------------------------------------------------------

    def _look(self) -> None:
        try:
            self._look_once()
        except EXPECTED as error:
            if not self._closed.is_set():
                with self._lock:
                    self._state.api_away(str(error), self._now())

    def _look_once(self) -> None:
        cluster = self._get(f"{self._ours}/brokerclusters/{self.cluster}")
        brokers = self._get(f"{self._ours}/brokers?{self._labelled}")
        pods = self._get(f"{self._pods}?{self._labelled}")
        controller = cluster.get("status", {}).get("controller", {})
        with self._lock:
            state, now = self._state, self._now()
            state.api_responds(now)
            state.brokers_listed(each["spec"]["brokerId"] for each in brokers["items"])
            state.pods_seen({each["metadata"]["name"]: pod_of(each) for each in pods["items"]}, now)
            state.controller_seen(controller.get("brokerId", -1), controller.get("epoch", -1), now)

    def _measure(self) -> None:
        """Read the metrics of all brokers at the same time."""
        list(self._readers.map(self._measure_broker, self.show(lambda state, _: state.brokers)))

    def _measure_broker(self, broker: int) -> None:
        asked = self._now()
        try:
            replicas = replicas_of(self._read_metrics(self._proxy, f"{self.cluster}-{broker}"))
        except EXPECTED as error:
            # Without an API server no broker can be reached, which says nothing of the broker.
            with suppress(*EXPECTED):
                self._proxy.get("/version", limit_seconds=API_LIMIT_SECONDS)
                with self._lock:
                    self._state.broker_silent(broker, _short(error), asked, self._now())
            return
        with self._lock:
            self._state.broker_responds(broker, replicas, self._now())

    def _page(self, proxy: ApiProxy, pod: str) -> str:
        path = f"{self._pods}/{pod}:{HTTP_PORT}/proxy/metrics"
        return proxy.get(path, limit_seconds=METRICS_LIMIT_SECONDS)


def cluster_of(kubernetes: Kubernetes, name: str) -> str:
    """Return the cluster's name, which may be left out where a namespace has one cluster alone.

    Raises:  ConfigError if there is none of this name, or more than one to choose from
    """
    found = kubernetes.get("brokerclusters")["items"]
    there = sorted(each["metadata"]["name"] for each in found)
    if name in there:
        return name
    if not name and len(there) == 1:
        return str(there[0])
    shown = f"has {', '.join(there)}" if there else "has no BrokerCluster"
    wanted = f"--cluster {name}: " if name else "--cluster must name one: " if there else ""
    raise ConfigError(f"{wanted}namespace {kubernetes.namespace} {shown}")


def watch(
    kubernetes: Kubernetes,
    wishes: WatchWishes,
    end: EndAsked,
    *,
    read_metrics: ReadMetrics | None = None,
) -> None:
    """Show a cluster until the time is over or somebody ends it, then print a summary."""
    cluster = cluster_of(kubernetes, wishes.cluster)
    view = ClusterWatch(kubernetes, cluster=cluster, topic=wishes.topic, read_metrics=read_metrics)
    with closing(view):
        if wishes.seconds == 0:
            _print(view.show(watch_page.lines))
            return
        deadline = time.monotonic() + wishes.seconds
        if sys.stdout.isatty():
            _draw(view, end, deadline)
        else:
            _print(view.show(watch_page.lines))
            _print_events(view, end, deadline)
            _print(view.show(watch_page.lines))
        _print(view.show(watch_page.summary))


def _draw(view: ClusterWatch, end: EndAsked, deadline: float) -> None:
    console = Console()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            # Once more at the end, so that what stays on the screen is the newest picture.
            page = view.show(lambda state, now: watch_page.drawing(state, now, console.height))
            live.update(page, refresh=True)
            if end.wait(DRAW_SECONDS) or time.monotonic() >= deadline:
                return


def _print_events(view: ClusterWatch, end: EndAsked, deadline: float) -> None:
    printed = 0
    while True:
        is_over = end.wait(DRAW_SECONDS) or time.monotonic() >= deadline
        total, events = view.show(lambda state, _: (state.events_total, list(state.events)))
        if lost := max(0, total - printed - len(events)):
            print(f"          {lost} more events", flush=True)
        new = total - printed - lost
        _print([watch_page.event_line(each) for each in (events[-new:] if new else [])])
        printed = total
        if is_over:
            return


def _print(said: Sequence[str]) -> None:
    for line in said:
        print(line, flush=True)


def _short(error: Exception) -> str:
    """Return the last part of an error; what stands before it is the same for every broker."""
    return str(error).rpartition(": ")[2] or type(error).__name__

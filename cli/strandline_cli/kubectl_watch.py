"""A watch of kubectl, line by line, that times changes by this machine's monotonic clock.

A watch gets every change in order and costs nothing in between, so no poll disturbs a figure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from .commands import NotRecovered, start
from .kubectl import Kubernetes

Seen = TypeVar("Seen")
SHOWN = (
    ".type",
    ".object.metadata.name",
    ".object.metadata.uid",
    ".object.metadata.deletionTimestamp",
    '.object.status.conditions[?(@.type=="Ready")].status',
)
# Not a tab: kubectl prints tabs as aligned columns, so that an empty field would be lost.
BETWEEN = "|"
TEMPLATE = BETWEEN.join(f"{{{path}}}" for path in SHOWN) + r'{"\n"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedWatchEvent:
    """An object as it was at a moment; event is ADDED, MODIFIED or DELETED."""

    at: float
    event: str
    name: str
    uid: str
    deleting: bool
    ready: bool


def timed_event_of(line: str, at: float) -> TimedWatchEvent | None:
    """Return the event of a line of the watch, None if the line is no event."""
    parts = line.rstrip("\n").split(BETWEEN)
    if len(parts) != len(SHOWN):
        return None
    event, name, uid, deleted_at, ready = parts
    return TimedWatchEvent(
        at=at, event=event, name=name, uid=uid, deleting=bool(deleted_at), ready=ready == "True"
    )


class LinesWatched(Generic[Seen]):
    """What a watch of kubectl printed, read line by line from now until the end of the block."""

    def __init__(
        self, kubernetes: Kubernetes, *arguments: str, parsed: Callable[[str], Seen | None]
    ) -> None:
        """Begin `kubectl get` with these arguments; keep the lines that `parsed` can read."""
        self._parsed = parsed
        self._seen: list[Seen] = []
        self._news = threading.Condition()
        self._process = start(kubernetes.command("kubectl", "get", *arguments))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._thread.join()

    def seen(self) -> list[Seen]:
        """Return everything so far, in order."""
        with self._news:
            return list(self._seen)

    def is_running(self) -> bool:
        """Tell whether the watch still goes on: one that ended would miss what follows."""
        return self._process.poll() is None

    def _read(self) -> None:
        with self._process:
            for line in self._process.stdout or ():
                found = self._parsed(line)
                if found is not None:
                    with self._news:
                        self._seen.append(found)
                        self._news.notify_all()


class KubectlWatch(LinesWatched[TimedWatchEvent]):
    """All events of a kind, or of one object."""

    def __init__(self, kubernetes: Kubernetes, kind: str, name: str = "") -> None:
        self._what = f"{kind} {name}".strip()
        # The watch is of a list, even for one object: kubectl watches on from the version that it
        # has listed. After it reads a single object, it may miss changes until its watch begins.
        selected = (f"--field-selector=metadata.name={name}",) if name else ()
        watch = ("--watch", "--output-watch-events", "-o", f"jsonpath={TEMPLATE}")
        super().__init__(
            kubernetes,
            kind,
            *selected,
            *watch,
            parsed=lambda line: timed_event_of(line, time.monotonic()),
        )

    def until(
        self, holds: Callable[[TimedWatchEvent], bool], seconds: float, *, after: float = 0.0
    ) -> TimedWatchEvent:
        """Return the first event not before `after` for which this holds, else NotRecovered."""

        def first() -> TimedWatchEvent | None:
            return next((each for each in self._seen if each.at >= after and holds(each)), None)

        with self._news:
            found = self._news.wait_for(first, seconds)
        if found is None:
            raise NotRecovered(f"{self._what}: what was waited for did not come in time")
        return found

"""When objects change, by this machine's monotonic clock: a watch of kubectl, line by line.

A watch gets every change in order and costs nothing in between, so nothing is polled
while a figure is taken.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from .faults import NotRecovered
from .kubectl import Kubernetes

SHOWN = (
    ".type",
    ".object.metadata.name",
    ".object.metadata.uid",
    ".object.metadata.deletionTimestamp",
    '.object.status.conditions[?(@.type=="Ready")].status',
)
# Not a tab: kubectl sets what it prints in columns, and an empty field would be lost.
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
    """Return what a line of the watch tells, None if it is none."""
    parts = line.rstrip("\n").split(BETWEEN)
    if len(parts) != len(SHOWN):
        return None
    event, name, uid, deleted_at, ready = parts
    return TimedWatchEvent(
        at=at, event=event, name=name, uid=uid, deleting=bool(deleted_at), ready=ready == "True"
    )


class KubectlWatch:
    """Everything seen of a kind, or of one object, from now until the end of the block."""

    def __init__(self, kubernetes: Kubernetes, kind: str, name: str = "") -> None:
        self._what = f"{kind} {name}".strip()
        # A list even of one: kubectl watches on from the very version it has listed, while
        # after reading a single object it may miss what happens before its watch begins.
        selected = (f"--field-selector=metadata.name={name}",) if name else ()
        self._seen: list[TimedWatchEvent] = []
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            kubernetes.command(
                *("kubectl", "get", kind, *selected, "--watch", "--output-watch-events"),
                *("-o", f"jsonpath={TEMPLATE}"),
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()
        self._thread.join()

    def until(
        self, holds: Callable[[TimedWatchEvent], bool], seconds: float, *, after: float = 0.0
    ) -> TimedWatchEvent:
        """Return the first event not before `after` for which this holds.

        Raises:  NotRecovered if there is none in time
        """
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                for each in self._seen:
                    if each.at >= after and holds(each):
                        return each
                left = deadline - time.monotonic()
                if left <= 0 or not self._news.wait(left):
                    raise NotRecovered(f"{self._what}: what was waited for did not come in time")

    def seen(self) -> list[TimedWatchEvent]:
        """Return all events so far."""
        with self._news:
            return list(self._seen)

    def _read(self) -> None:
        if self._process.stdout is None:
            return
        with self._process.stdout as lines:
            for line in lines:
                found = timed_event_of(line, time.monotonic())
                if found is not None:
                    with self._news:
                        self._seen.append(found)
                        self._news.notify_all()

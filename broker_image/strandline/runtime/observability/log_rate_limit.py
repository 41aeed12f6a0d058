"""A rate limit on log lines that others can cause: input from outside must not fill a disk.

Attached to the log handler by `logs`. A line is limited if it names a `peer` or a `fence`, or
if a library wrote it; lines about our own doing always pass. Lines of one kind (one message and
one error about one host) share a token bucket: a burst passes, then one line per interval. The
next line that passes says in `left_out` how many were dropped. A single bad request therefore
always has its line.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from strandline.log_fields import fields_of

BURST_LINES_MAX: Final = 20
"""Lines alike that pass without a pause: each of a handful of mistakes can be read."""
INTERVAL_SECONDS: Final = 10.0
"""Afterwards one passes per interval, as a broker that waits repeats itself: 9,000 a day."""
KINDS_MAX: Final = 256
"""Kinds of lines counted apart; any further kind shares one count with all others."""

OURS: Final = "strandline"
"""How the names of our own loggers begin."""

_PARTS: Final = ("error", "fence", "detail")
_OTHERS: Final = ("others",)


@dataclass(slots=True, kw_only=True)
class _TokenBucket:
    """How many lines of one kind may still pass; refilled by time, up to BURST_LINES_MAX."""

    tokens: float
    refilled_at: float
    left_out: int = 0

    def refill(self, now: float) -> None:
        """Add the tokens of the time since the last refill."""
        refilled = self.tokens + (now - self.refilled_at) / INTERVAL_SECONDS
        self.tokens = min(float(BURST_LINES_MAX), refilled)
        self.refilled_at = now


class PeerLogRateLimit(logging.Filter):
    """Lets a line pass or counts it; called once per line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._buckets: dict[tuple[str, ...], _TokenBucket] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the line may be written; the first after a pause says what it hides."""
        values = {**vars(record), **fields_of(record)}
        if record.name.startswith(OURS) and "peer" not in values and "fence" not in values:
            return True
        now = self._clock()
        host = _host(str(values.get("peer", "")))
        parts = (str(values.get(part, "")) for part in _PARTS)
        bucket = self._bucket((record.name, str(record.msg), host, *parts), now)
        bucket.refill(now)
        if bucket.tokens < 1:
            bucket.left_out += 1
            return False
        bucket.tokens -= 1
        if bucket.left_out:
            vars(record)["left_out"] = bucket.left_out
            bucket.left_out = 0
        return True

    def _bucket(self, kind: tuple[str, ...], now: float) -> _TokenBucket:
        if kind not in self._buckets and len(self._buckets) >= KINDS_MAX:
            self._drop_full_buckets(now)
            if len(self._buckets) >= KINDS_MAX:
                kind = _OTHERS
        return self._buckets.setdefault(
            kind, _TokenBucket(tokens=float(BURST_LINES_MAX), refilled_at=now)
        )

    def _drop_full_buckets(self, now: float) -> None:
        """Drop buckets that are full again and hide nothing."""
        for bucket in self._buckets.values():
            bucket.refill(now)
        self._buckets = {
            kind: bucket
            for kind, bucket in self._buckets.items()
            if bucket.tokens < BURST_LINES_MAX or bucket.left_out
        }


def _host(peer: str) -> str:
    """Return a peer's address without its port, which is another for each connection."""
    host, _, port = peer.rpartition(":")
    return host if host and port.isdigit() else peer

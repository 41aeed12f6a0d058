"""A bound on log lines that others can cause: rubbish from outside must not fill a disk here.

Attached to the log handler by `logs`. A line is bounded if it names a `peer` or a `fence`, or
if a library wrote it; lines about our own doing always pass. Lines alike, which is one message
and one error about one host, may come a few at once and then now and then; what was left out
is counted and told by the next such line in `left_out`. A single bad request therefore always
has its line.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

AT_ONCE: Final = 20
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
class _Allowance:
    """What one kind of line may still say; `lines` grows with time up to AT_ONCE."""

    lines: float
    counted_at: float
    left_out: int = 0

    def grow(self, now: float) -> None:
        """Add what the time since the last look is worth."""
        grown = self.lines + (now - self.counted_at) / INTERVAL_SECONDS
        self.lines = min(float(AT_ONCE), grown)
        self.counted_at = now


class PeerLineBound(logging.Filter):
    """Lets a line pass or counts it; called once per line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._allowances: dict[tuple[str, ...], _Allowance] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the line may be written; the first after a pause says what it hides."""
        values = {**vars(record), **getattr(record, "fields", {})}
        if record.name.startswith(OURS) and "peer" not in values and "fence" not in values:
            return True
        now = self._clock()
        host = _host(str(values.get("peer", "")))
        told = (str(values.get(part, "")) for part in _PARTS)
        allowance = self._allowance((record.name, str(record.msg), host, *told), now)
        allowance.grow(now)
        if allowance.lines < 1:
            allowance.left_out += 1
            return False
        allowance.lines -= 1
        if allowance.left_out:
            vars(record)["left_out"] = allowance.left_out
            allowance.left_out = 0
        return True

    def _allowance(self, kind: tuple[str, ...], now: float) -> _Allowance:
        if kind not in self._allowances and len(self._allowances) >= KINDS_MAX:
            self._forget_the_rested(now)
            if len(self._allowances) >= KINDS_MAX:
                kind = _OTHERS
        return self._allowances.setdefault(kind, _Allowance(lines=float(AT_ONCE), counted_at=now))

    def _forget_the_rested(self, now: float) -> None:
        """Drop kinds whose allowance is whole again and that hide nothing."""
        for allowance in self._allowances.values():
            allowance.grow(now)
        self._allowances = {
            kind: allowance
            for kind, allowance in self._allowances.items()
            if allowance.lines < AT_ONCE or allowance.left_out
        }


def _host(peer: str) -> str:
    """Return a peer's address without its port, which is another for each connection."""
    host, _, port = peer.rpartition(":")
    return host if host and port.isdigit() else peer

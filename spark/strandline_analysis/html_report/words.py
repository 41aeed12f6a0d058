"""How the page writes times, spans and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from strandline_analysis.catalogue import LAG_TIME_MAX_MS

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The range of time that was analysed, and what is known of it."""

    start_ms: int
    end_ms: int
    interval_ms: int
    """Of the scrapes."""
    lag_time_max_ms: int = LAG_TIME_MAX_MS
    """replica.lag.time.max.ms of the brokers."""
    cluster: str = ""
    """Its name; empty if no label tells it."""
    known: float | None = None
    """Share of the partitions' time of which samples tell, 0 to 1; None if it was not counted."""
    findings: tuple[str, ...] = ()
    """Sentences on what the samples lack."""

    @property
    def length_ms(self) -> int:
        """Return its length, at least 1."""
        return max(self.end_ms - self.start_ms, 1)


def moment(time_ms: int) -> str:
    """Return a time in UTC, to the ms."""
    return f"{_utc(time_ms):%Y-%m-%d} {clock(time_ms)}"


def clock(time_ms: int) -> str:
    """Return a time of day in UTC, to the ms."""
    return _utc(time_ms).time().isoformat("milliseconds")


def span(time_ms: float) -> str:
    """Return a time span as people read it."""
    if abs(time_ms) < 1000:
        return f"{time_ms:g} ms"
    if abs(time_ms) < 120_000:
        return f"{time_ms / 1000:.1f} s"
    if abs(time_ms) < 7_200_000:
        return f"{time_ms / 60_000:.1f} min"
    return f"{time_ms / 3_600_000:.1f} h"


def grouped(value: float) -> str:
    """Return a number with thin spaces between groups of three digits."""
    return f"{value:,}".replace(",", "\u202f")


def partition_of(row: Row) -> str:
    """Return the name of the row's partition."""
    return f"{row['topic']}-{row['partition']}"


def broker(broker_id: int | None) -> str:
    """Return the name of a broker."""
    return "unknown" if broker_id is None else f"broker {broker_id}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it needs one."""
    return f"{grouped(count)} {noun}" if count == 1 else f"{grouped(count)} {noun}s"


def sentence(text: str) -> str:
    """Return a text as a whole sentence; a URL or a path at its begin stays as it is."""
    is_word = text.partition(" ")[0].isalpha()
    begin = text[:1].upper() if is_word else text[:1]
    return f"{begin}{text[1:].removesuffix('.')}."


def about(window: Range) -> str:
    """Return what a report is about: cluster, range, scrapes, and how much of it is known."""
    whose = f"Cluster {window.cluster}, " if window.cluster else ""
    times = f"{moment(window.start_ms)} to {moment(window.end_ms)} UTC, {span(window.length_ms)}"
    scrapes = f", scraped every {span(window.interval_ms)}" if window.interval_ms else ""
    share = "" if window.known is None else f"; {window.known:.1%} of the partitions' time is known"
    return f"{whose}{times}{scrapes}{share}"


def _utc(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC)

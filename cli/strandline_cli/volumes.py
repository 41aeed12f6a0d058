"""The volumes of brokers: how full they are, and when each will be, from the brokers' metrics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client.parser import text_string_to_metric_families

from strandline import names

from .tables import Row

VOLUME_COLUMNS: Row = ("BROKER", "VOLUME", "USED", "FULL")
GIB = 1 << 30
FORECAST_MAX = timedelta(days=366)
"""A volume that fills up later than this is not said to fill up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSeen:
    """The volume of one broker; fills_in_seconds is inf while it does not fill up."""

    total_bytes: int
    free_bytes: int
    is_full: bool
    fills_in_seconds: float


def volume_of(metrics: str) -> VolumeSeen:
    """Return the picture of a broker's volume from its metrics; KeyError if they lack it."""
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if not sample.labels
    }
    return VolumeSeen(
        total_bytes=int(found[names.LOG_DIRECTORY_TOTAL_BYTES.name]),
        free_bytes=int(found[names.LOG_DIRECTORY_FREE_BYTES.name]),
        is_full=found[names.LOG_DIRECTORY_FULL.name] > 0,
        fills_in_seconds=found[names.LOG_DIRECTORY_FILL_SECONDS.name],
    )


def volume_row(broker: str, volume: VolumeSeen | None, now: datetime) -> Row:
    """Return a broker's line; None is a broker whose metrics could not be read."""
    if volume is None:
        return (broker, "not reached", "", "")
    used = 1 - volume.free_bytes / volume.total_bytes
    size = f"{volume.total_bytes / GIB:.1f} GiB"
    return (broker, size, f"{used:.0%}", _full_at(volume, now))


def _full_at(volume: VolumeSeen, now: datetime) -> str:
    if volume.is_full:
        return "now: clients are refused"
    if volume.fills_in_seconds > FORECAST_MAX.total_seconds():
        return "not at the present rate"
    left = timedelta(seconds=volume.fills_in_seconds)
    return f"{now + left:%Y-%m-%d %H:%M} UTC, in {_spoken(left)}"


def _spoken(span: timedelta) -> str:
    minutes = int(span.total_seconds()) // 60
    days, hours = minutes // 1440, minutes // 60 % 24
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"

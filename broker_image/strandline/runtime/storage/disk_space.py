"""Whether the volume of the data directory has room for more records (ADR 0023).

The edges ask before the core sees a record: the core's log end moves before the disk is written, so
a refusal after that ends the process. Clients are refused first, above `log.dir.fill.max`.
Followers go on up to the middle between that bound and a full volume (ADR 0050); what is left is
for state, checkpoints and indexes. The figures are the file system's: brokers that share one see
one figure.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from strandline.log_fields import fields

from .fill_forecast import FillForecast

_log = logging.getLogger(__name__)

LOOK_INTERVAL_MS: Final = 100
"""How old the figures of the volume may be when a record is let in."""
WATCH_INTERVAL_SECONDS: Final = 0.5
"""How soon a change is noticed without any record."""
REOPEN_FRACTION: Final = 0.02
"""Clients are let in again once this part of the volume is free beyond the bound."""
REFUSED_FRACTION_MAX: Final = 0.5
"""... or what was refused last, up to this part: one huge batch must not lock out all others."""

REMEDY: Final = "delete topics or records, shorten retention, or enlarge the volume"


class DiskSpace:
    """The room of one volume; on_change gets whether clients are refused, at each change.

    Shape:   0 < fill_max <= 1
    Raises:  OSError from the constructor alone: later, figures that cannot be read stay
    """

    def __init__(
        self,
        root: Path,
        *,
        fill_max: float,
        now_ms: Callable[[], int],
        on_change: Callable[[bool], None],
    ) -> None:
        self._root = root
        self._unused_fraction = 1 - fill_max
        self._now_ms = now_ms
        self._on_change = on_change
        self._look_due_ms = 0
        self._admitted_bytes = 0
        """Since the last look; some of it was never written."""
        self._refused_bytes = 0
        """The client's batch that the volume is full for, 0 if it is full without one."""
        self._refused_from_leader_bytes = 0
        """What a leader sent last, if it did not fit."""
        self._forecast = FillForecast()
        self.total_bytes = 0
        self.free_bytes = 0
        self.is_full = False
        """Whether clients are refused."""
        self._read()
        self.is_full = self.free_bytes < self._kept_from_clients

    def change_fill_max(self, fill_max: float) -> None:
        """Judge the volume by another bound from now on."""
        self._unused_fraction = 1 - fill_max
        self._look()

    @property
    def fills_in_seconds(self) -> float:
        """When clients will be refused at the present rate; inf if nothing says that they will."""
        return self._forecast.seconds_until(self.total_bytes - self._kept_from_clients)

    @property
    def _kept_from_clients(self) -> float:
        return self.total_bytes * self._unused_fraction

    @property
    def _kept_from_followers(self) -> float:
        return self._kept_from_clients / 2

    @property
    def _reopen_bytes(self) -> float:
        refused_bytes = min(self._refused_bytes, self.total_bytes * REFUSED_FRACTION_MAX)
        return max(refused_bytes, self.total_bytes * REOPEN_FRACTION)

    def admit_from_client(self, size_bytes: int) -> bool:
        """Tell whether a client's records may be appended."""
        self._look_if_due()
        if self.is_full:
            return False
        has_room = self._has_room(size_bytes, kept_bytes=self._kept_from_clients)
        if not has_room:
            self._refused_bytes = size_bytes
            self._set_full(is_full=True)
        return has_room

    def admit_from_leader(self, size_bytes: int) -> bool:
        """Tell whether records of a leader may be appended."""
        self._look_if_due()
        has_room = self._has_room(size_bytes, kept_bytes=self._kept_from_followers)
        self._refused_from_leader_bytes = 0 if has_room else size_bytes
        return has_room

    def has_room_for_leader(self) -> bool:
        """Tell whether it is worthwhile to fetch records; what was refused last must fit."""
        self._look_if_due()
        return self.free_bytes - self._refused_from_leader_bytes >= self._kept_from_followers

    async def watch(self) -> None:
        """Notice changes also while no record comes."""
        while True:
            await asyncio.sleep(WATCH_INTERVAL_SECONDS)
            self._look_if_due()

    def _has_room(self, size_bytes: int, *, kept_bytes: float) -> bool:
        """Look again before a refusal: some of what was admitted may never have been written."""
        if self.free_bytes - self._admitted_bytes - size_bytes < kept_bytes:
            self._look()
        has_room = self.free_bytes - size_bytes >= kept_bytes
        if has_room:
            self._admitted_bytes += size_bytes
        return has_room

    def _look_if_due(self) -> None:
        if self._now_ms() >= self._look_due_ms:
            self._look()

    def _look(self) -> None:
        """Read the figures and judge them."""
        with suppress(OSError):
            self._read()
        if self.is_full:
            if self.free_bytes >= self._kept_from_clients + self._reopen_bytes:
                self._refused_bytes = 0
                self._set_full(is_full=False)
        elif self.free_bytes < self._kept_from_clients:
            self._set_full(is_full=True)

    def _read(self) -> None:
        volume = os.statvfs(self._root)
        self._look_due_ms = self._now_ms() + LOOK_INTERVAL_MS
        self._admitted_bytes = 0
        self.free_bytes = volume.f_bavail * volume.f_frsize
        # As df counts: blocks that only root may use are not part of the volume.
        unusable = volume.f_bfree - volume.f_bavail
        self.total_bytes = (volume.f_blocks - unusable) * volume.f_frsize
        self._forecast.note(self._now_ms(), self.total_bytes - self.free_bytes)

    def _set_full(self, *, is_full: bool) -> None:
        self.is_full = is_full
        figures = {"free_bytes": self.free_bytes, "total_bytes": self.total_bytes}
        if is_full:
            _log.warning("volume full, clients refused", extra=fields(what_helps=REMEDY, **figures))
        else:
            _log.info("volume has space, clients served", extra=fields(**figures))
        self._on_change(is_full)

"""Which range of time a lake holds, told by a small file that needs no Spark.

Called by `lake`, and by `task` before Spark starts. A lake is a folder:

    lake.json      its metrics, the length of its slices, and the range that is complete
    samples/       plain samples in the shape of schema.SAMPLES, a folder by metric and slice
    checkpoint/    Spark's own, how far the ingest has come
    ingest.lock    empty, locked by the ingest that runs

Invariant: samples of the complete range never change; it grows at its end and shrinks at its
begin, by whole slices.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from .read_options import told

FACTS: Final = "lake.json"
LOCK: Final = "ingest.lock"
LOCK_SECONDS: Final = 600.0
"""Longer than an ingest of a few slices, which others wait for."""
LOCK_POLL_SECONDS: Final = 0.5
SLICE: Final = "slice_ms"
"""Column of the folders: the begin of the slice of a sample."""
METRIC: Final = "metric"
"""Column of the folders: the name of a sample's metric."""


class LakeRefused(ValueError):
    """A lake is not there, was made for something else, or lacks what is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A folder, and what its lake.json says."""

    folder: Path
    metrics: tuple[str, ...]
    """Sorted."""
    slice_ms: int
    start_ms: int
    """Begin of the first slice, a multiple of slice_ms."""
    end_ms: int
    """End of the last complete slice, exclusive; start_ms if there is none."""

    @property
    def samples(self) -> Path:
        """Return the folder of the Parquet files."""
        return self.folder / "samples"

    @property
    def checkpoint(self) -> Path:
        """Return Spark's folder."""
        return self.folder / "checkpoint"

    def files(self, *, metrics: Iterable[str], start_ms: int, end_ms: int) -> list[Path]:
        """Return the files that may hold samples of metrics within [start_ms, end_ms)."""
        wanted, found = set(metrics), list[Path]()
        for slices in self.samples.glob(f"{METRIC}=*/{SLICE}=*"):
            begin_ms = int(slices.name.partition("=")[2])
            if start_ms - self.slice_ms < begin_ms < end_ms:
                found += (path for path in slices.glob("*.parquet") if metric_of(path) in wanted)
        return sorted(found)

    def check_landed(self, *, metrics: Iterable[str], start_ms: int, end_ms: int) -> None:
        """Refuse metrics that the lake has not, and a range that is not complete.

        Raises:  LakeRefused
        """
        for metric in sorted(set(metrics) - set(self.metrics)):
            raise LakeRefused(f"{self.folder} has no metric {metric}")
        if start_ms < self.start_ms or self.end_ms < end_ms:
            wanted = f"{told(start_ms)} to {told(end_ms)}"
            held = f"{told(self.start_ms)} to {told(self.end_ms)}"
            raise LakeRefused(f"{self.folder} lacks a part of {wanted}; it holds {held}")

    def completed(self, end_ms: int) -> Lake:
        """Note that all slices until end_ms are complete, and return the lake as it is then."""
        end_ms = max(self.end_ms, end_ms - end_ms % self.slice_ms)
        lake = replace(self, end_ms=end_ms)
        lake.write()
        return lake

    def trimmed(self, keep_ms: int) -> Lake:
        """Forget whole slices, so that at least the newest keep_ms stay; return the lake then.

        The note goes first: what a killed run leaves behind is read by nobody, and the next one
        removes it.
        """
        begin = max(self.start_ms, (self.end_ms - keep_ms) // self.slice_ms * self.slice_ms)
        lake = replace(self, start_ms=begin)
        if begin > self.start_ms:
            lake.write()
        for slices in self.samples.glob(f"*/{SLICE}=*"):
            if int(slices.name.partition("=")[2]) < begin:
                shutil.rmtree(slices)
        return lake

    @contextmanager
    def locked(self, *, seconds: float = LOCK_SECONDS) -> Iterator[Lake]:
        """Let nobody else of this machine land here meanwhile; yield the lake as it is then.

        Raises:  LakeRefused if somebody else does so for all of these seconds
        """
        deadline = time.monotonic() + seconds
        with (self.folder / LOCK).open("w") as held:
            while True:
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise LakeRefused(
                            f"{self.folder}: another ingest lands there; wait for its end"
                        ) from None
                time.sleep(LOCK_POLL_SECONDS)
            yield opened(self.folder)

    def write(self) -> None:
        """Replace lake.json."""
        facts = {name: value for name, value in asdict(self).items() if name != "folder"}
        part = self.folder / f"{FACTS}.part"
        part.write_text(json.dumps(facts, indent=2) + "\n")
        part.replace(self.folder / FACTS)


def metric_of(path: Path) -> str:
    """Return the metric of a file, which its folder's folder names as Spark writes names."""
    return unquote(path.parent.parent.name.partition("=")[2])


def opened(folder: Path) -> Lake:
    """Return the lake in a folder.

    Raises:  LakeRefused if there is none
    """
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text())
        return Lake(folder=folder, **{**facts, "metrics": tuple(facts["metrics"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LakeRefused(f"{folder} is no lake: its {FACTS} cannot be read ({error!r})") from error


def founded(folder: Path, *, metrics: Iterable[str], start_ms: int, slice_ms: int) -> Lake:
    """Return the lake in a folder, which is made if there is none.

    A new lake begins with the slice in which start_ms lies; one that is there keeps its begin.

    Raises:  LakeRefused if the lake that is there has other metrics or slices
    """
    names, begin_ms = tuple(sorted(set(metrics))), start_ms - start_ms % slice_ms
    if (folder / FACTS).exists():
        found = opened(folder)
        if (found.metrics, found.slice_ms) != (names, slice_ms):
            holds = f"{', '.join(found.metrics)} in slices of {found.slice_ms} ms"
            raise LakeRefused(f"{folder} holds {holds}; other ones need a folder of their own")
        return found
    lake = Lake(folder=folder, metrics=names, slice_ms=slice_ms, start_ms=begin_ms, end_ms=begin_ms)
    lake.samples.mkdir(parents=True, exist_ok=True)
    lake.write()
    return lake

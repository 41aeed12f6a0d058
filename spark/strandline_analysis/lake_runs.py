"""Runs of the samples in a file of a lake, made before they reach the JVM.

Called by `lake_source` in Spark's workers; needs no Spark. A file is read a batch at a time, so a
run ends with its batch at the latest. Labels are read from the first sample of a series alone.

Invariant: a file holds series after series, each in the order of time, as the ingest writes it.
Runs of another order could overlap, so such a file is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from . import columns
from .lake_slices import LakeRefused, metric_of
from .xor_chunk import STALE_BITS

MEASURED: Final = ("series_id", "first_ms", "value", "stale")
"""Columns of which runs are made."""
METRIC: Final = "metric"
"""Column that the path tells."""


def read_runs(
    path: Path, shape: pa.Schema, *, start_ms: int, end_ms: int, gap_ms: float
) -> Iterator[pa.RecordBatch]:
    """Yield the runs of a file within [start_ms, end_ms) as Arrow batches of a schema.

    Raises:  LakeRefused for a file whose series are not one after the other
    """
    file = pyarrow.parquet.ParquetFile(path)
    stored = {*file.schema_arrow.names}
    # The columns that say how long a run is are made here, not read.
    named = [name for name in shape.names if name in columns.LABEL_COLUMNS and name in stored]
    order = _Order(path)
    wanted = [*dict.fromkeys((*MEASURED, *named))]
    for batch in file.iter_batches(columns.BATCH_SAMPLES, columns=wanted):
        ids, at = (batch[name].to_numpy() for name in MEASURED[:2])
        begins = order.checked(ids, at)
        kept = np.flatnonzero((at >= start_ms) & (at < end_ms))
        if not len(kept):
            continue
        series = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(ids)))
        samples = columns.Samples(
            labels=(), series=series[kept], timestamps=at[kept], bits=_bits(batch)[kept]
        )
        rows = columns.runs(samples, gap_ms=gap_ms)
        firsts, of_series = pa.array(begins), pa.array(rows.series)
        told = {name: batch[name].take(firsts).take(of_series) for name in named}
        if METRIC in shape.names:
            told[METRIC] = pa.array([metric_of(path)] * len(rows.series), pa.string())
        made = {**rows.columns, **told}
        arrays = [made[field.name].cast(field.type) for field in shape]
        yield pa.RecordBatch.from_arrays(arrays, schema=shape)


def _bits(batch: pa.RecordBatch) -> np.ndarray:
    """Return the bits of each value; those of a stale marker say so."""
    values = batch["value"].fill_null(0.0).to_numpy(zero_copy_only=False)
    stale = batch["stale"].to_numpy(zero_copy_only=False)
    return np.where(stale, np.uint64(STALE_BITS), values.view(np.uint64))


class _Order:
    """Looks whether the series of one file are one after the other, over all of its batches."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ended: set[int] = set()
        self._last: tuple[int, int] | None = None

    def checked(self, ids: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return the index of the first sample of each series of a batch.

        Raises:  LakeRefused
        """
        changes = ids[1:] != ids[:-1]
        begins = np.flatnonzero(np.concatenate([[True], changes]))
        found: list[Any] = ids[begins].tolist()
        goes_on = self._last is not None and self._last[0] == found[0]
        falls = bool(np.any(~changes & (at[1:] <= at[:-1])))
        late = goes_on and self._last is not None and int(at[0]) <= self._last[1]
        new = found[1:] if goes_on else found
        if falls or late or len({*new}) < len(new) or not self._ended.isdisjoint(new):
            raise LakeRefused(f"{self._path} is not sorted by series and time: land a new lake")
        self._ended.update(found)
        self._last = (found[-1], int(at[-1]))
        return begins

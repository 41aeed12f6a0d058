"""Rows of many series at once, as columns: samples in order, runs, minutes, Arrow batches.

Called by `read`. The arithmetic is numpy's, whatever the transport was. `run_lengths` says for one
series what `runs` does for many, and is its reference in tests. Needs no Spark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from .read_options import MINUTE_MS
from .remote_read import NAME_LABEL, Series
from .xor_chunk import HEADER_BYTES, STALE_BITS
from .xor_chunks import ChunkSamples, decode_chunks

BATCH_SAMPLES: Final = 200_000
"""Samples that are decoded together, unless a single series has more: some 20 MB with labels."""
WHOLE_DIGITS_MAX: Final = 9
"""Digits of a label that is a number: they fit into 32 bits."""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Samples of several series: ordered by series, then strictly by time."""

    labels: Sequence[Labels]
    series: np.ndarray
    """int64, the index of each sample's labels."""
    timestamps: np.ndarray
    """int64, ms since 1970."""
    bits: np.ndarray
    """uint64, the bits of IEEE doubles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What becomes of samples: for each row its series, and the columns beside the labels."""

    labels: Sequence[Labels]
    series: np.ndarray
    columns: Mapping[str, pa.Array]


def grouped(series: Iterable[Series], *, samples_max: int) -> Iterator[list[Series]]:
    """Yield the series in groups of at most this many samples, or of a single series."""
    group: list[Series] = []
    held = 0
    for each in series:
        size = sum(int.from_bytes(chunk[:HEADER_BYTES], "big") for chunk in each.chunks)
        if group and held + size > samples_max:
            yield group
            group, held = [], 0
        group.append(each)
        held += size
    if group:
        yield group


def decoded(group: Sequence[Series], *, start_ms: int, end_ms: int) -> Samples:
    """Return the samples of series within [start_ms, end_ms) that were not deleted.

    Chunks of the head and of a block may overlap; the first sample of a timestamp counts.

    Raises:  ChunkMalformed
    """
    found = decode_chunks([chunk for each in group for chunk in each.chunks])
    chunk_counts = np.array([len(each.chunks) for each in group], np.int64)
    of_chunk = np.repeat(np.arange(len(group)), chunk_counts)
    left = _left(group, found)
    return ordered(
        [each.labels for each in group],
        np.repeat(of_chunk, found.counts)[left],
        found.timestamps[left],
        found.bits[left],
        start_ms=start_ms,
        end_ms=end_ms,
    )


def _left(group: Sequence[Series], found: ChunkSamples) -> slice | np.ndarray:
    """Return which samples were not deleted, as an index."""
    if not any(each.deleted for each in group):
        return slice(None)
    left = np.ones(len(found.timestamps), bool)
    ends = np.cumsum(found.counts)
    before = 0
    for each in group:
        for index, spans in each.deleted.items():
            end = ends[before + index]
            chunk = slice(end - found.counts[before + index], end)
            at = found.timestamps[chunk]
            for first, last in spans:
                left[chunk] &= (at < first) | (at > last)
        before += len(each.chunks)
    return left


def ordered(
    labels: Sequence[Labels],
    series: np.ndarray,
    timestamps: np.ndarray,
    bits: np.ndarray,
    *,
    start_ms: int,
    end_ms: int,
) -> Samples:
    """Return the samples within [start_ms, end_ms) in order, each timestamp once.

    Shape:   series, timestamps and bits have one element for each sample, in order of arrival
    """
    kept = (timestamps >= start_ms) & (timestamps < end_ms)
    series, timestamps, bits = series[kept], timestamps[kept], bits[kept]
    place = series * (end_ms - start_ms) + (timestamps - start_ms)
    if np.any(place[1:] <= place[:-1]):
        order = np.argsort(place, kind="stable")
        place = place[order]
        order = order[np.concatenate([[True], place[1:] != place[:-1]])]
        series, timestamps, bits = series[order], timestamps[order], bits[order]
    return Samples(labels=labels, series=series, timestamps=timestamps, bits=bits)


def runs(samples: Samples, *, gap_ms: float) -> Rows:
    """Return the runs of equal samples without a gap; with gap_ms 0 every sample by itself.

    Returns: the columns of schema.SAMPLES beside the labels
    """
    at, bits = samples.timestamps, samples.bits
    begins = _new_series(samples) | (bits == STALE_BITS)
    begins[1:] |= (bits[1:] != bits[:-1]) | (at[1:] - at[:-1] > gap_ms)
    first = np.flatnonzero(begins)
    count = _lengths(first, len(at))
    stale = bits[first] == STALE_BITS
    columns = {
        "first_ms": pa.array(at[first]),
        "last_ms": pa.array(at[first + count - 1]),
        "sample_count": pa.array(count),
        "value": pa.array(bits[first].view(np.float64), mask=stale),
        "stale": pa.array(stale),
    }
    return Rows(labels=samples.labels, series=samples.series[first], columns=columns)


def minutes(samples: Samples) -> Rows:
    """Return one row for each series and minute, cut where the series was stale.

    Returns: the columns of schema.MINUTES beside the labels
    """
    # Stale markers are signalling NaNs, and offsets of other exporters may be infinite.
    with np.errstate(invalid="ignore", over="ignore"):
        return _minutes(samples)


def _minutes(samples: Samples) -> Rows:
    at = samples.timestamps
    stale_sample = samples.bits == STALE_BITS
    begins = _new_series(samples) | stale_sample
    begins[1:] |= stale_sample[:-1] | (at[1:] // MINUTE_MS != at[:-1] // MINUTE_MS)
    first = np.flatnonzero(begins)
    count = _lengths(first, len(at))
    value, stale = samples.bits.view(np.float64), stale_sample[first]
    # The step to a sample counts within its row alone; between rows a reader has both ends.
    step = np.zeros(len(at))
    if len(at):
        step[1:] = value[1:] - value[:-1]
    step[first] = 0.0
    falls = step < 0

    def over(function: Any, what: np.ndarray) -> pa.Array:
        found = function.reduceat(what, first) if len(first) else what[:0]
        return pa.array(found, mask=stale)

    columns = {
        "minute_ms": pa.array(at[first] // MINUTE_MS * MINUTE_MS),
        "first_ms": pa.array(at[first]),
        "last_ms": pa.array(at[first + count - 1]),
        "sample_count": pa.array(count),
        "first_value": pa.array(value[first], mask=stale),
        "last_value": pa.array(value[first + count - 1], mask=stale),
        "min_value": over(np.minimum, value),
        "max_value": over(np.maximum, value),
        # A counter that fell began again at 0.
        "increase": over(np.add, np.where(falls, value, step)),
        "fall": over(np.add, np.where(falls, -step, 0.0)),
        "fall_count": over(np.add, falls.astype(np.int64)),
        "stale": pa.array(stale),
    }
    return Rows(labels=samples.labels, series=samples.series[first], columns=columns)


def record_batch(rows: Rows, shape: pa.Schema) -> pa.RecordBatch:
    """Return the rows as an Arrow batch with the columns of a schema, and make no other column."""
    arrays = []
    for column in shape:
        made = rows.columns.get(column.name)
        if made is None:
            of_labels = LABEL_COLUMNS[column.name]
            each = pa.array([of_labels(labels) for labels in rows.labels], column.type)
            made = each.take(pa.array(rows.series))
        arrays.append(made)
    return pa.RecordBatch.from_arrays(arrays, schema=shape)


def series_id(labels: Labels) -> int:
    """Return a number that is the same for these labels in every process."""
    text = json.dumps(sorted(labels.items()), separators=(",", ":"))
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def whole(label: str | None) -> int | None:
    """Return the number that a label spells as exporters do, or None."""
    if not label or len(label) > WHOLE_DIGITS_MAX or not (label.isascii() and label.isdigit()):
        return None
    return int(label) if label == str(int(label)) else None


LABEL_COLUMNS: Final[Mapping[str, Callable[[Labels], Any]]] = {
    "series_id": series_id,
    "metric": lambda labels: labels[NAME_LABEL],
    "pod": lambda labels: labels.get("pod"),
    "instance": lambda labels: labels.get("instance"),
    "topic": lambda labels: labels.get("topic"),
    "partition": lambda labels: whole(labels.get("partition")),
    "replica": lambda labels: whole(labels.get("replica")),
    "labels": lambda labels: list(labels.items()),
}
"""By column: its value for the labels of a series."""


def _new_series(samples: Samples) -> np.ndarray:
    begins = np.ones(len(samples.series), bool)
    begins[1:] = samples.series[1:] != samples.series[:-1]
    return begins


def _lengths(first: np.ndarray, total: int) -> np.ndarray:
    return np.diff(first, append=total)

"""Samples as the text from which promtool makes blocks."""

from __future__ import annotations

from strandline_analysis.remote_read import Series
from strandline_analysis.xor_chunk import STALE_BITS, number

Labelled = tuple[dict[str, str], list[tuple[int, float]]]
"""The labels of a series, and its samples as (ms since 1970, value)."""


def openmetrics(series: list[Labelled]) -> str:
    """Return samples as text for promtool, sorted by metric."""
    lines = []
    for labels, samples in sorted(series, key=lambda each: each[0]["__name__"]):
        given = ",".join(f'{k}="{v}"' for k, v in sorted(labels.items()) if k != "__name__")
        for at_ms, value in samples:
            lines.append(f"{labels['__name__']}{{{given}}} {value!r} {at_ms / 1000:.3f}")
    return "\n".join([*lines, "# EOF", ""])


def labelled(series: Series, *, start_ms: int, end_ms: int) -> Labelled:
    """Return a series within [start_ms, end_ms) without stale markers, which no text can tell."""
    pairs = series.samples(start_ms=start_ms, end_ms=end_ms)
    return series.labels, [(at, number(bits)) for at, bits in pairs if bits != STALE_BITS]

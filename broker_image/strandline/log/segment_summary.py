"""The summary of a segment: what a load needs to know of its fsynced batches without reading them.

`<20-digit base offset>.summary` lies beside the segment: a line with a version and the CRC-32 of
the rest, a line of JSON, and the bytes of the producer state at its end. It covers the segment up
to a position: all of it once it is sealed, a part while it is written.

A flush writes a summary after the fsync of what it covers, and before the recovery point passes
its end. A load trusts it if it is unchanged, the recovery point has reached its end, the segment
holds at least the bytes that it covers, and the index file is the one that it was written with.
Otherwise the load walks the segment (ADR 0025). A cut of the segment removes it.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from strandline.model import EpochStart, LeaderEpoch

from .files import replace_file
from .producer_state import ProducerState

SUMMARY_SUFFIX = ".summary"
_HEADER = "strandline-segment 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary:
    """What is known of a segment's first size_bytes bytes, which hold whole batches.

    Shape:   epochs has an entry for each leader epoch in these batches, with its first offset in
             them; both ascend
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int
    index_crc: int
    """CRC-32 of the index file."""
    epochs: tuple[EpochStart, ...]
    producers: ProducerState
    """At end_offset; a reader that changes it copies it."""

    @property
    def epoch_range(self) -> tuple[int, int]:
        """The lowest and the highest leader epoch of these batches."""
        return self.epochs[0].leader_epoch, self.epochs[-1].leader_epoch


def write_summary(path: Path, summary: SegmentSummary) -> None:
    """Replace a summary durably."""
    body = json.dumps(
        {
            "baseOffset": summary.base_offset,
            "endOffset": summary.end_offset,
            "sizeBytes": summary.size_bytes,
            "maxTimestampMs": summary.max_timestamp_ms,
            "indexCrc": summary.index_crc,
            "epochs": [[each.leader_epoch, each.start_offset] for each in summary.epochs],
        }
    ).encode()
    content = body + b"\n" + summary.producers.to_bytes()
    replace_file(path, f"{_HEADER} {zlib.crc32(content):08x}\n".encode() + content)


def read_summary(path: Path) -> SegmentSummary | None:
    """Read a summary; None if there is none, or if it is not what `write_summary` wrote."""
    try:
        header, _, content = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    if header != f"{_HEADER} {zlib.crc32(content):08x}".encode():
        return None
    body, _, producers = content.partition(b"\n")
    value = json.loads(body)
    return SegmentSummary(
        base_offset=value["baseOffset"],
        end_offset=value["endOffset"],
        size_bytes=value["sizeBytes"],
        max_timestamp_ms=value["maxTimestampMs"],
        index_crc=value["indexCrc"],
        epochs=tuple(
            EpochStart(leader_epoch=LeaderEpoch(epoch), start_offset=offset)
            for epoch, offset in value["epochs"]
        ),
        producers=ProducerState.from_bytes(producers),
    )

"""Which segments of a log its topic's retention no longer keeps.

Called by `partition_log`. Segments go whole, the oldest first, up to the first one that must stay;
none that reaches above the high watermark, so only committed records go (KAFKA-5634).

The age of a segment is that of its greatest timestamp, which clients write. A timestamp that is
negative or ahead of this broker's clock says nothing of the age: then the file's last change does.
So no record keeps its segment for ever, and none lets it go early.

Source: Kafka 3.9 UnifiedLog.deleteOldSegments, LogSegment.largestTimestamp; ADR 0035
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from strandline.model import UNLIMITED, TopicSettings

from .segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSegment:
    """What retention asks of a segment; times are ms since 1970."""

    end_offset: int
    size_bytes: int
    max_timestamp_ms: int
    modified_ms: int


def trusted_ms(timestamp_ms: int, *, otherwise_ms: int, now_ms: int) -> int:
    """Return a client's timestamp if it is from the past, else what the broker knows itself."""
    return timestamp_ms if 0 <= timestamp_ms <= now_ms else otherwise_ms


def choose_log_start(
    segments: Iterable[SealedSegment],
    *,
    log_start_offset: int,
    high_watermark: int,
    log_size_bytes: int,
    now_ms: int,
    settings: TopicSettings,
) -> int:
    """Return where retention lets a log begin: its present start, or the end of a sealed segment.

    Shape:   segments ascend from the first; log_size_bytes counts the active one too
    """
    start = log_start_offset
    spare_bytes = log_size_bytes - settings.retention_bytes
    for segment in segments:
        if segment.end_offset > high_watermark:
            break
        spare_bytes -= segment.size_bytes
        if segment.end_offset <= log_start_offset:
            continue
        too_large = settings.retention_bytes != UNLIMITED and spare_bytes >= 0
        if not too_large and not is_past_retention(
            max_timestamp_ms=segment.max_timestamp_ms,
            modified_ms=segment.modified_ms,
            now_ms=now_ms,
            settings=settings,
        ):
            break
        start = segment.end_offset
    return start


def is_past_retention(
    *, max_timestamp_ms: int, modified_ms: int, now_ms: int, settings: TopicSettings
) -> bool:
    """Tell whether the newest record of a segment is older than the topic keeps records."""
    newest_ms = trusted_ms(max_timestamp_ms, otherwise_ms=modified_ms, now_ms=now_ms)
    return settings.retention_ms != UNLIMITED and now_ms - newest_ms > settings.retention_ms


def is_roll_due(
    active: Segment,
    *,
    log_start_offset: int,
    high_watermark: int,
    active_since_ms: int,
    now_ms: int,
    settings: TopicSettings,
) -> bool:
    """Tell whether the time of an active segment is over; see `PartitionLog.roll_if_due`."""
    if active.end_offset <= log_start_offset:
        return True
    first_ms = trusted_ms(active.first_timestamp_ms, otherwise_ms=active_since_ms, now_ms=now_ms)
    if now_ms - first_ms > settings.segment_ms:
        return True
    return active.end_offset <= high_watermark and is_past_retention(
        max_timestamp_ms=active.max_timestamp_ms,
        modified_ms=active.modified_ms,
        now_ms=now_ms,
        settings=settings,
    )

"""Reference of analysis 8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.analysis.reference.elections import elections
from tests.analysis.reference.holding import History, Range, exactly, label, series_of
from tests.analysis.reference.isr_sizes import isr_size_intervals
from tests.analysis.reference.leader_states import broker_of
from tests.analysis.reference.watermarks import LEO, Scrape, scrapes

KNOWN = "strandline_replica_log_end_offset"
SIZE, BEGIN = "strandline_partition_log_size_bytes", "strandline_partition_log_start_offset"


def data_at_risk(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield the times in which one broker alone committed records."""
    listed = scrapes(history, of)
    for size in isr_size_intervals(history, of):
        if size["isr_size"] != 1 or (size["replicas"] or 0) <= 1:
            continue
        start, end = size["start_ms"], size["end_ms"]
        inside = [each for each in listed if start <= each.at < end]
        if not inside:
            continue
        before = [each for each in listed if each.at <= start]
        last = inside[-1]
        # After an unclean election the high watermark begins below that of the leader before.
        hw_start = min(each.hw for each in [*before[-1:], inside[0]])
        offsets = int(last.hw - hw_start)
        if offsets <= 0:
            continue
        safe = min(
            (
                each.at
                for each in listed
                if each.at >= last.at
                and each.epoch == last.epoch
                and _best_follower(history, each) >= last.hw
            ),
            default=None,
        )
        unsafe = max(
            (
                each.at
                for each in listed
                if each.at >= last.at
                and each.epoch == last.epoch
                and (safe is None or each.at < safe)
            ),
            default=start,
        )
        mean = _record_bytes(history, last)
        yield {
            "topic": size["topic"],
            "partition": size["partition"],
            "leader": broker_of(last.pod),
            "start_ms": start,
            "end_ms": end,
            **{edge: size[edge] for edge in ("start_err_ms", "end_err_ms")},
            **{bound: size[bound] for bound in ("duration_low_ms", "duration_high_ms")},
            "hw_start": int(hw_start),
            "hw_end": int(last.hw),
            "offsets": offsets,
            "bytes": None if mean is None else offsets * mean,
            "exposed_low_ms": max(unsafe - start, 0),
            "exposed_high_ms": (safe or of.end_ms) - start + size["start_err_ms"],
            "recovered": safe is not None,
            "lost": 0 if safe is not None else _lost(history, of, last, offsets),
        }


def _record_bytes(history: History, scrape: Scrape) -> float | None:
    """Return the mean bytes of a record in the leader's log."""
    sizes = exactly(history, SIZE, scrape.labels)
    records = scrape.leo - exactly(history, BEGIN, scrape.labels).get(scrape.at, scrape.leo)
    return sizes[scrape.at] / records if records else None


def _best_follower(history: History, scrape: Scrape) -> float:
    """Return the largest log end offset that the leader knew of another replica."""
    return max(
        dict(samples).get(scrape.at) or 0.0
        for labels, samples in series_of(history, KNOWN).items()
        if label(labels, "pod") == scrape.pod
        and label(labels, "replica") != str(broker_of(scrape.pod))
    )


def _lost(history: History, of: Range, last: Scrape, offsets: int) -> int:
    unclean = [
        row
        for row in elections(history, of)
        if row["kind"] == "unclean" and row["epoch"] > last.epoch
    ]
    if not unclean:
        return 0
    following = min(unclean, key=lambda row: int(row["epoch"]))
    for labels, samples in series_of(history, LEO).items():
        if broker_of(label(labels, "pod")) == following["new_leader"]:
            until = following["t_first_new_ms"]
            known = [value for at, value in samples if at < until and value is not None]
            if known:
                return min(max(int(last.hw - known[-1]), 0), offsets)
    return 0

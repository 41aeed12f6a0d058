"""How far records are committed: the rule that every acknowledgement rests on.

A record is committed when every broker that could become leader has it: the members of the maximal
ISR, and every follower that is about to join. The functions are pure; the leader calls them when a
log end, the ISR, the live brokers or the time changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from strandline.model import BrokerEpoch, BrokerId, IsrEntry

from .progress import UNKNOWN_END, FollowerProgress


def counted_end_offsets(
    maximal_entries: Iterable[IsrEntry],
    followers: Mapping[BrokerId, FollowerProgress],
    *,
    is_eligible: Callable[[BrokerId, BrokerEpoch], bool],
    leader_end: int,
    now_ms: int,
    lag_time_max_ms: int,
) -> list[int]:
    """Return the log end of every follower that counts for the high watermark.

    A member whose present process may lack what its entry stands for counts with UNKNOWN_END
    (ADR 0002). Followers outside the ISR count while caught up and eligible. Otherwise the high
    watermark would stay one fetch ahead of them, and they could never rejoin. A fenced follower
    does not count, however recently it was caught up (KAFKA-15021).

    Shape:   followers maps every remote assigned broker
    """
    entries = {entry.broker_id: entry for entry in maximal_entries}
    ends: list[int] = []
    for broker_id, progress in followers.items():
        entry = entries.get(broker_id)
        if entry is not None:
            ends.append(progress.log_end_offset if progress.covers(entry) else UNKNOWN_END)
        elif is_eligible(broker_id, progress.broker_epoch) and progress.is_caught_up(
            leader_end=leader_end, now_ms=now_ms, lag_time_max_ms=lag_time_max_ms
        ):
            ends.append(progress.log_end_offset)
    return ends


def next_high_watermark(
    ends: Iterable[int],
    *,
    high_watermark: int,
    leader_end: int,
    in_sync_count: Callable[[], int],
    min_insync_replicas: int,
) -> int:
    """Return the high watermark that holds now; it never falls.

    Under min ISR it is frozen for every kind of acknowledgement: records that fewer members hold
    may still be lost (KAFKA-15583).

    Units:   in_sync_count counts the leader, and leaves out stale incarnations; it is asked only
             if there is something to commit. leader_end is the end of what the leader counts as
             written, which followers may have passed
    Source:  Kafka 3.9 Partition.maybeIncrementLeaderHW
    """
    reached = min((leader_end, *ends))
    if reached <= high_watermark or in_sync_count() < min_insync_replicas:
        return high_watermark
    return reached

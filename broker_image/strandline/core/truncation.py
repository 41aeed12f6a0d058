"""Where two histories part: the leader compares, the follower truncates.

The leader compares the epoch of the follower's last batch with its own epochs; the follower
cuts its log to where both may agree, and fetches again. Each round agrees or removes an epoch, so
the rounds end (KIP-101, KIP-279, KIP-595).
"""

from __future__ import annotations

from strandline.model import UNKNOWN_EPOCH_END, EpochEndOffset, LeaderEpoch

from .epochs import EpochCache


def diverging_epoch(
    epochs: EpochCache, *, log_end_offset: int, fetch_offset: int, last_fetched_epoch: LeaderEpoch
) -> EpochEndOffset | None:
    """Return where a follower's history parts from the leader's, None while they are one.

    Returns: UNKNOWN_EPOCH_END when the leader does not know the follower's epoch
    Source:  Kafka 3.9 Partition.readRecords
    """
    end = epochs.end_offset_for(last_fetched_epoch, log_end_offset)
    if end == UNKNOWN_EPOCH_END:
        return end
    if end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset:
        return end
    return None


def choose_truncation(diverging: EpochEndOffset, epochs: EpochCache, *, log_end_offset: int) -> int:
    """Return the offset below which a follower keeps its log.

    A follower that does not have the leader's epoch steps back to its own greatest epoch below it:
    cutting at the leader's end alone would keep records of a shorter history (KIP-279).

    Source:  Kafka 3.9 AbstractFetcherThread.getOffsetTruncationState
    """
    mine = epochs.end_offset_for(diverging.leader_epoch, log_end_offset)
    if mine == UNKNOWN_EPOCH_END:
        return min(diverging.end_offset, log_end_offset)
    if mine.leader_epoch != diverging.leader_epoch:
        return min(mine.end_offset, log_end_offset)
    return min(mine.end_offset, diverging.end_offset, log_end_offset)

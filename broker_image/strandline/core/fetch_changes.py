"""What a follower asks of a leader: where each partition is, and what changed since last time.

Fetches go out as `SendFetch` of `effects` and come in as `FollowerFetchReceived` of `events`. Both
hold the whole fetch, so that a peer which remembers nothing understands it, and its changes, so
that one which does looks at nothing else (ADR 0067).
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.model import LeaderEpoch, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPartition:
    """One partition of a follower's fetch; fetch_offset is the follower's log end offset.

    last_fetched_epoch is the epoch of the follower's last batch or epoch entry,
    NO_EPOCH for an empty log. high_watermark is the one the follower knows, so that a leader
    need not remember which one it sent, nor guess whether it arrived (KIP-1166). log_start_offset
    is the follower's log start that is on its disk.
    """

    tp: TopicPartition
    fetch_offset: int
    leader_epoch: LeaderEpoch
    last_fetched_epoch: LeaderEpoch
    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchChanges:
    """How a fetch differs from the one before it, of the same session and the epoch before.

    changed holds new partitions and those with another position, forgotten those that are fetched
    no more. Who does not remember that fetch takes the whole one.
    """

    session_id: int
    session_epoch: int
    changed: tuple[FetchPartition, ...]
    forgotten: tuple[TopicPartition, ...]

    def follows(self, before: FetchChanges) -> bool:
        """Tell whether these are the changes since the fetch that those led to."""
        return (
            self.session_id == before.session_id and self.session_epoch == before.session_epoch + 1
        )

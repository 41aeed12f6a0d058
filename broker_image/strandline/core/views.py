"""Views of the replicas, for metrics, hellos and tests.

`Replicas` makes a view on request and keeps none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from strandline.model import (
    NO_EPOCH,
    NO_LEADER,
    BrokerId,
    EpochStart,
    IsrEntry,
    LeaderEpoch,
    LeaderTerm,
    PartitionEpoch,
    PartitionState,
    TopicPartition,
)

from .follower import FollowerReplica
from .isr import maximal_isr
from .leader import LeaderReplica
from .partition import Failed, Idle, Partition, Role
from .progress import FollowerProgress


class RoleName(Enum):
    """Roles by name; values are for display."""

    LEADER = "leader"
    FOLLOWER = "follower"
    IDLE = "idle"
    FAILED = "failed"


_NAMES: dict[type[Role], RoleName] = {
    LeaderReplica: RoleName.LEADER,
    FollowerReplica: RoleName.FOLLOWER,
    Idle: RoleName.IDLE,
    Failed: RoleName.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerView:
    """One follower as its leader knows it; log_end_offset -1 before its first fetch."""

    broker_id: BrokerId
    log_end_offset: int
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One replica. Fields about ISR and followers are of use on a leader only.

    Before the first state leader is NO_LEADER, and the epochs are -1 but for those accepted by an
    earlier process.
    """

    tp: TopicPartition
    topic_name: str
    role: RoleName
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    accepted_leader_epoch: LeaderEpoch
    accepted_partition_epoch: PartitionEpoch
    term: LeaderTerm
    replicas: tuple[BrokerId, ...]
    original_replicas: tuple[BrokerId, ...]
    isr: tuple[IsrEntry, ...]
    eligible_leaders: tuple[IsrEntry, ...]
    maximal_isr: frozenset[BrokerId]
    min_insync_replicas: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    epochs: tuple[EpochStart, ...]
    followers: tuple[FollowerView, ...]

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The leader epoch of the last record, NO_EPOCH if there was none.

        An epoch that begins at the log end has no record yet. If all records are deleted, the
        one entry stands for the last of them, or for a leadership since.
        """
        written = [each for each in self.epochs if each.start_offset < self.log_end_offset]
        if not written and self.log_end_offset > 0:
            written = list(self.epochs)
        return written[-1].leader_epoch if written else NO_EPOCH


class ReplicaGauges(NamedTuple):
    """What a scrape reads of one replica, at a small part of the cost of a `PartitionView`.

    state is one object from one committed state to the next. followers, empty but on a leader, are
    the leader's own: to be read at once.
    """

    topic_name: str
    role: RoleName
    state: PartitionState | None
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    followers: Mapping[BrokerId, FollowerProgress]


_NO_FOLLOWERS: Mapping[BrokerId, FollowerProgress] = {}


def gauges_of(partition: Partition) -> ReplicaGauges:
    """Return the present gauges of a replica."""
    log, role = partition.log, partition.role
    leads = role if isinstance(role, LeaderReplica) else None
    shown = (
        log.topic_name,
        _NAMES[type(role)],
        partition.applied if leads is None else leads.state,
        log.log_start_offset,
        log.high_watermark,
        log.log_end_offset,
        _NO_FOLLOWERS if leads is None else leads.followers,
    )
    # By name it would cost as much again as all the rest.
    return ReplicaGauges._make(shown)


def view_of(partition: Partition) -> PartitionView:
    """Return the present view of a replica."""
    log, role, state = partition.log, partition.role, partition.state
    leads = role if isinstance(role, LeaderReplica) else None
    return PartitionView(
        tp=log.tp,
        topic_name=log.topic_name,
        role=_NAMES[type(role)],
        leader=NO_LEADER if state is None else state.leader,
        leader_epoch=NO_EPOCH if state is None else state.leader_epoch,
        partition_epoch=PartitionEpoch(-1) if state is None else state.partition_epoch,
        accepted_leader_epoch=partition.accepted_leader_epoch,
        accepted_partition_epoch=partition.accepted_partition_epoch,
        term=partition.term,
        replicas=() if state is None else state.replicas,
        original_replicas=() if state is None else state.original_replicas,
        isr=() if state is None else state.isr,
        eligible_leaders=() if state is None else state.eligible_leaders,
        maximal_isr=frozenset() if leads is None else maximal_isr(leads.proposer.isr),
        min_insync_replicas=0 if leads is None else leads.min_insync_replicas,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        epochs=log.epochs.entries,
        followers=tuple(
            FollowerView(
                broker_id=broker_id,
                log_end_offset=progress.log_end_offset,
                last_caught_up_ms=progress.caught_up_ms,
            )
            for broker_id, progress in (sorted(leads.followers.items()) if leads else ())
        ),
    )

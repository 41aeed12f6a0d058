"""Turns a committed write of this controller into notices: compares its states before and after."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.model import NO_LEADER, BrokerId, ElectionKind, PartitionState, StoredPartition

from .notices import (
    ControllerNotice,
    IsrAccepted,
    IsrRefused,
    LeaderElected,
    MinIsrChanged,
    PartitionBegunAnew,
    PartitionMoved,
    PartitionOffline,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWrite:
    """A status write: from which state to which, and why.

    requester is set for an AlterPartition, and refusal for a refused one; since_ms is when the
    partition was first queued.
    """

    before: PartitionState | None
    after: PartitionState
    kind: ElectionKind | None
    requester: BrokerId | None
    refusal: str
    since_ms: int


def notices_of(
    written: StatusWrite, partition: StoredPartition, *, now_ms: int, detect_ms: int
) -> list[ControllerNotice]:
    """Return the notices of one committed write; detect_ms is that of the former leader's death."""
    notices: list[ControllerNotice] = []
    decided = _notice_of(written, partition, now_ms, detect_ms)
    if decided is not None:
        notices.append(decided)
    before, min_isr = written.before, written.after.min_insync_replicas
    if written.kind is ElectionKind.NEW and partition.recover:
        notices.append(
            PartitionBegunAnew(
                tp=partition.tp,
                topic_name=partition.topic_name,
                replicas=written.after.replicas,
                recovery=written.after.recovery,
            )
        )
    if before is not None and _replicas_of(before) != _replicas_of(written.after):
        notices.append(
            PartitionMoved(
                tp=partition.tp,
                topic_name=partition.topic_name,
                replicas=written.after.replicas,
                adding=written.after.adding_replicas,
                removing=written.after.removing_replicas,
                partition_epoch=written.after.partition_epoch,
            )
        )
    if before is not None and before.min_insync_replicas != min_isr:
        tp, topic_name = partition.tp, partition.topic_name
        notices.append(MinIsrChanged(tp=tp, topic_name=topic_name, min_insync_replicas=min_isr))
    return notices


def _replicas_of(state: PartitionState) -> tuple[tuple[BrokerId, ...], ...]:
    return state.replicas, state.adding_replicas, state.removing_replicas


def _notice_of(
    written: StatusWrite, partition: StoredPartition, now_ms: int, detect_ms: int
) -> ControllerNotice | None:
    before, after, requester = written.before, written.after, written.requester
    tp, topic_name = partition.tp, partition.topic_name
    if written.kind is not None:
        return LeaderElected(
            tp=tp,
            topic_name=topic_name,
            kind=written.kind,
            leader_before=NO_LEADER if before is None else before.leader,
            leader=after.leader,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            isr=after.isr_ids,
            detect_ms=detect_ms,
            elect_ms=now_ms - written.since_ms,
        )
    if requester is not None and written.refusal:
        return IsrRefused(
            tp=tp,
            topic_name=topic_name,
            requester=requester,
            partition_epoch=after.partition_epoch,
            reason=written.refusal,
        )
    if requester is None and after.leader == NO_LEADER:
        return PartitionOffline(
            tp=tp,
            topic_name=topic_name,
            leader_epoch=after.leader_epoch,
            isr=after.isr_ids,
            reason=after.reason,
        )
    if before is None or before.isr == after.isr:
        return None
    return IsrAccepted(
        tp=tp,
        topic_name=topic_name,
        requester=NO_LEADER if requester is None else requester,
        leader_epoch=after.leader_epoch,
        partition_epoch=after.partition_epoch,
        isr_before=before.isr_ids,
        isr=after.isr_ids,
    )

"""Turns a committed write of this controller into notices.

Pure: compares the state before with the state that is proved to be stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.model import (
    NO_LEADER,
    BrokerId,
    ElectionKind,
    PartitionState,
    StoredPartition,
)

from .notices import (
    ControllerNotice,
    IsrAccepted,
    IsrRefused,
    LeaderElected,
    MinIsrChanged,
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
    before, after = written.before, written.after
    notices: list[ControllerNotice] = []
    if written.kind is not None:
        notices.append(_elected(written, written.kind, partition, now_ms, detect_ms))
    elif written.requester is not None or after.leader != NO_LEADER:
        notices.extend(_isr_changed(written, partition))
    else:
        notices.append(
            PartitionOffline(
                tp=partition.tp,
                topic_name=partition.topic_name,
                leader_epoch=after.leader_epoch,
                isr=after.isr_ids,
                reason=after.reason,
            )
        )
    if before is not None and before.min_insync_replicas != after.min_insync_replicas:
        notices.append(
            MinIsrChanged(
                tp=partition.tp,
                topic_name=partition.topic_name,
                min_insync_replicas=after.min_insync_replicas,
            )
        )
    return notices


def _elected(
    written: StatusWrite,
    kind: ElectionKind,
    partition: StoredPartition,
    now_ms: int,
    detect_ms: int,
) -> LeaderElected:
    before, after = written.before, written.after
    return LeaderElected(
        tp=partition.tp,
        topic_name=partition.topic_name,
        kind=kind,
        leader_before=NO_LEADER if before is None else before.leader,
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        partition_epoch=after.partition_epoch,
        isr=after.isr_ids,
        detect_ms=detect_ms,
        elect_ms=now_ms - written.since_ms,
    )


def _isr_changed(written: StatusWrite, partition: StoredPartition) -> list[ControllerNotice]:
    """Report an ISR change: accepted, refused, or the controller's own."""
    before, after, requester = written.before, written.after, written.requester
    if written.refusal and requester is not None:
        return [
            IsrRefused(
                tp=partition.tp,
                topic_name=partition.topic_name,
                requester=requester,
                partition_epoch=after.partition_epoch,
                reason=written.refusal,
            )
        ]
    if before is None or before.isr == after.isr:
        return []
    return [
        IsrAccepted(
            tp=partition.tp,
            topic_name=partition.topic_name,
            requester=NO_LEADER if requester is None else requester,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            isr_before=before.isr_ids,
            isr=after.isr_ids,
        )
    ]

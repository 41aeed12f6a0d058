"""What an election depends on, and what it decides; `elections` and `rebuild` share both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from strandline.model import (
    BrokerId,
    ControllerEpoch,
    ElectionKind,
    IsrEntry,
    LeaderEpoch,
    PartitionState,
    StoredTopic,
)

from .broker_entry import BrokerEntry
from .events import HostedReplica

Owner = TypeVar("Owner", BrokerId, IsrEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionInput:
    """What an election depends on, beside the stored partition itself.

    hosted: the partition's replicas on the disks of brokers in session. trashed: those whose
    trash may have what their disk lacks. announced: the last state that this controller sent to
    brokers. waited: a new partition has waited long enough for its brokers. state_lost: a broker
    refused the partition as new. first_seen_ms: when the controller first saw the object.
    """

    brokers: Mapping[BrokerId, BrokerEntry]
    topic: StoredTopic | None
    hosted: Mapping[BrokerId, HostedReplica]
    trashed: frozenset[BrokerId] = frozenset()
    controller_epoch: ControllerEpoch
    announced: PartitionState | None = None
    waited: bool = True
    state_lost: bool = False
    first_seen_ms: int = 0


def most_complete(replicas: Mapping[Owner, HostedReplica]) -> Owner:
    """Return the owner of the log that has most: the greatest (last epoch, log end offset).

    A log that ends below where another begins goes behind: all below a log start was committed,
    and the other log may not know the epoch of what was deleted.

    Shape:   replicas has one at least; the first of equal ones is chosen
    """
    committed = max(each.log_start_offset for each in replicas.values())

    def completeness(owner: Owner) -> tuple[bool, LeaderEpoch, int]:
        each = replicas[owner]
        return each.log_end_offset >= committed, each.last_epoch, each.log_end_offset

    return max(replicas, key=completeness)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionDecision:
    """The status to commit; kind is set when it elects a leader."""

    state: PartitionState
    kind: ElectionKind | None = None

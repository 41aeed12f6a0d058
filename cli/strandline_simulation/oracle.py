"""What the invariants know beside disks and objects: what is committed, and who led.

Changed by `Invariants` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from strandline.core.views import PartitionView
from strandline.model import NO_EPOCH, BrokerId, LeaderEpoch, TopicPartition


class Replica(Protocol):
    """A process of a broker, as far as the invariants look at it."""

    @property
    def broker_id(self) -> BrokerId:
        """Its broker."""

    @property
    def incarnation(self) -> str:
        """Its name among all processes of the schedule."""

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""

    def view(self, tp: TopicPartition) -> PartitionView | None:
        """Return what its core has of a partition, None without a replica."""


@dataclass(slots=True)
class CommittedLog:
    """The committed log of one partition: each value, and the epoch that first committed it."""

    values: list[int] = field(default_factory=list)
    epochs: list[LeaderEpoch] = field(default_factory=list)

    def end_below(self, epoch: LeaderEpoch) -> int:
        """Return the end of what leaders of lower epochs committed."""
        end = len(self.epochs)
        while end and self.epochs[end - 1] >= epoch:
            end -= 1
        return end

    def extend(self, values: list[int], epoch: LeaderEpoch) -> None:
        """Commit the next records."""
        self.values.extend(values)
        self.epochs.extend([epoch] * len(values))

    def begin_again(self) -> None:
        """Let all be older than every epoch: the partition's topic came back after a deletion."""
        self.epochs = [NO_EPOCH] * len(self.epochs)


@dataclass(slots=True)
class ObservedLeadership:
    """A leadership that a process took up."""

    replica: Replica
    epoch: LeaderEpoch
    high_watermark: int

    def show_up_to(self, offset: int) -> None:
        """Take the high watermark that the leader has now."""
        self.high_watermark = offset

"""Counts what shows that a schedule was worth running; nothing decides by it."""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.model import BrokerId, PartitionState, StoredPartition


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of one schedule; the controller shells add to controllers_elected."""

    controllers_elected: int = 0
    deciding_brokers: set[BrokerId] = field(default_factory=set)
    """The brokers that committed the state of a partition as controller."""

    def on_status_written(
        self, writer: BrokerId, before: StoredPartition, state: PartitionState
    ) -> None:
        """Count a status write that was applied."""
        del before, state
        self.deciding_brokers.add(writer)

"""How much data may be lost: as far as the guarantee goes, and no further.

Fewer than min ISR replicas of a partition may have lost data and not have been in its ISR since.
Asked by the nemesis before a broker loses data; looks at disks and committed states, so that
it knows the truth and not what brokers registered.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.model import NO_LEADER, BrokerId, PartitionState, StoredPartition

from .disk import SimulatedDisk
from .plan import Plan
from .store import SimulatedStore


class LossBudget:
    """The losses of one schedule; changed by its own methods only."""

    def __init__(
        self, plan: Plan, store: SimulatedStore, disks: Mapping[BrokerId, SimulatedDisk]
    ) -> None:
        self._store = store
        self._disks = disks
        self._min_insync_replicas = plan.min_insync_replicas
        self._awaiting_rejoin: dict[str, set[BrokerId]] = {name: set() for name in store.partitions}
        self._replicas = {name: set(each.assigned) for name, each in store.partitions.items()}
        """By the last committed state with a leader, and those without one since."""
        self.losses = 0
        self.awaiting_rejoin_max = 0
        """How many replicas of one partition had lost data and not joined again, at the most."""

    def may_lose(self, broker_id: BrokerId) -> bool:
        """Tell whether the guarantee covers that this broker loses data now, too."""
        for found in self._store.partitions.values():
            if broker_id not in self._members(found):
                continue
            others = self._awaiting_rejoin[found.name] - {broker_id}
            if len(others) + 1 >= self._min_insync_replicas:
                return False
        return True

    def on_lost(self, broker_id: BrokerId) -> None:
        """Count a broker that lost data now."""
        self.losses += 1
        for name, found in self._store.partitions.items():
            if broker_id in self._members(found):
                awaiting = self._awaiting_rejoin[name]
                awaiting.add(broker_id)
                self.awaiting_rejoin_max = max(self.awaiting_rejoin_max, len(awaiting))

    def on_status_written(
        self, _writer: BrokerId, before: StoredPartition, state: PartitionState
    ) -> None:
        """Take the brokers off that joined an ISR again."""
        rejoined = {
            each.broker_id for each in state.isr if self._disks[each.broker_id].covers(each)
        }
        self._awaiting_rejoin[before.name] -= rejoined
        if state.leader == NO_LEADER:
            # The state of a lost partition may not name all that had been its replicas.
            self._replicas[before.name].update(state.replicas)
        else:
            self._replicas[before.name] = set(state.replicas)
            self._awaiting_rejoin[before.name] &= self._members(before)

    def _members(self, found: StoredPartition) -> set[BrokerId]:
        """Return the brokers that are replicas, also of a lost partition, or shall be."""
        return self._replicas[found.name] | set(found.assigned)

"""What this broker accepted, and how much of it the state file does not say yet.

Used by `ReplicaStore` alone, on the event loop. Its state task takes the changes and writes them,
so that a write costs by what changed: the whole goes along as a copy of references.
"""

from __future__ import annotations

from collections.abc import Collection

from strandline.core.effects import PersistedPartition, PersistState
from strandline.log.state_file import BrokerState, StateChange
from strandline.model import TopicPartition


class AcceptedStates:
    """The states that the core promised, by partition."""

    def __init__(self, state: BrokerState) -> None:
        self._controller_epoch = state.controller_epoch
        self._partitions = dict(state.partitions)
        self._changed: set[TopicPartition] = set()
        self._forgotten: set[TopicPartition] = set()

    @property
    def are_due(self) -> bool:
        """Whether the state file lacks something of a partition."""
        return bool(self._changed or self._forgotten)

    def is_forgotten(self, tp: TopicPartition) -> bool:
        """Tell whether the state file is yet to forget a replica."""
        return tp in self._forgotten

    def promise(self, effect: PersistState) -> None:
        """Take states that are to be on disk before anything is said of them."""
        self._controller_epoch = max(self._controller_epoch, effect.controller_epoch)
        for tp, partition in effect.partitions:
            self._partitions[tp] = partition
            self._changed.add(tp)

    def forget(self, tp: TopicPartition) -> PersistedPartition | None:
        """Forget a deleted replica. Returns: what was accepted last, None if nothing was."""
        self._forgotten.add(tp)
        self._changed.discard(tp)
        return self._partitions.pop(tp, None)

    def take(self) -> list[tuple[StateChange, list[TopicPartition]]]:
        """Take the changes, in order, each with the logs that may go to the trash behind it.

        A replica that was deleted and is made again is forgotten first, and known again behind it.
        """
        changed, self._changed = self._changed, set()
        forgotten, self._forgotten = self._forgotten, set()
        again = forgotten & changed
        whole = dict(self._partitions)
        without = {tp: each for tp, each in whole.items() if tp not in again} if again else whole
        steps = [(self._change(changed - again, without, removed=forgotten), sorted(forgotten))]
        if again:
            steps.append((self._change(again, whole), []))
        return steps

    def whole(self) -> BrokerState:
        """Return all that was accepted."""
        return self._state(dict(self._partitions))

    def _change(
        self,
        changed: Collection[TopicPartition],
        whole: dict[TopicPartition, PersistedPartition],
        *,
        removed: Collection[TopicPartition] = (),
    ) -> StateChange:
        return StateChange(
            removed=sorted(removed),
            changed={tp: whole[tp] for tp in changed},
            whole=self._state(whole),
        )

    def _state(self, partitions: dict[TopicPartition, PersistedPartition]) -> BrokerState:
        return BrokerState(controller_epoch=self._controller_epoch, partitions=partitions)

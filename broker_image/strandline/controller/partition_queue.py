"""The partitions that wait for their turn: those in a hurry first, and later those put off."""

from __future__ import annotations


class PartitionQueue:
    """Names of partitions, each once in a row; used by `partition_reconciler`."""

    def __init__(self) -> None:
        self._urgent: dict[str, None] = {}
        self._others: dict[str, None] = {}
        self._delayed: dict[str, int] = {}

    @property
    def next_wakeup_ms(self) -> int | None:
        """When the first partition that was put off is due."""
        return min(self._delayed.values(), default=None)

    def __len__(self) -> int:
        """Return how many have their turn now."""
        return len(self._urgent) + len(self._others)

    def __contains__(self, name: str) -> bool:
        return name in self._urgent or name in self._others or name in self._delayed

    def add(self, name: str) -> None:
        """Give a partition its turn behind the others."""
        if name not in self._urgent:
            self._others[name] = None

    def add_first(self, name: str) -> None:
        """Give a partition its turn before those that are in no hurry."""
        self._others.pop(name, None)
        self._urgent[name] = None

    def delay(self, name: str, until_ms: int) -> None:
        """Give a partition its turn then."""
        self._delayed[name] = until_ms

    def discard(self, name: str) -> None:
        """Take a partition out, wherever it waits."""
        for waiting in (self._urgent, self._others, self._delayed):
            waiting.pop(name, None)

    def wake(self, now_ms: int) -> None:
        """Give those their turn that were put off until now."""
        for name in [name for name, due_ms in self._delayed.items() if due_ms <= now_ms]:
            del self._delayed[name]
            self.add(name)

    def take(self) -> str:
        """Take the partition whose turn it is; there must be one. It is put off no more."""
        name = next(iter(self._urgent or self._others))
        self.discard(name)
        return name

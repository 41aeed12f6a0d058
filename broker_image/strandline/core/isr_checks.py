"""The partitions of this broker whose ISR or high watermark the mere passing of time may change.

Each leader asks for its partition before such a time begins, `Replicas` takes all of them with
each check of the ISRs and asks again for those that go on: idle partitions cost a check nothing.
"""

from __future__ import annotations

from strandline.model import TopicPartition


class IsrChecks:
    """A set of partitions."""

    def __init__(self) -> None:
        self._asked: set[TopicPartition] = set()

    def ask(self, tp: TopicPartition) -> None:
        """Have the next check look at a partition."""
        self._asked.add(tp)

    def take(self) -> list[TopicPartition]:
        """Take the partitions to look at, ascending."""
        taken = sorted(self._asked)
        self._asked.clear()
        return taken

"""The partitions that a periodic step of this broker looks at: others cost it nothing.

`BrokerContext` has one for the checks of ISRs, which each leader marks before the mere passing of
time may change its ISR or high watermark, and one for the checkpoint of high watermarks, which a
log marks when its own moves. `Replicas` takes them, and marks again those that go on.
"""

from __future__ import annotations

from strandline.model import TopicPartition


class MarkedPartitions:
    """A set of partitions."""

    def __init__(self) -> None:
        self._marked: set[TopicPartition] = set()

    def mark(self, tp: TopicPartition) -> None:
        """Have the next step look at a partition."""
        self._marked.add(tp)

    def take(self) -> list[TopicPartition]:
        """Take the partitions to look at, ascending."""
        taken = sorted(self._marked)
        self._marked.clear()
        return taken

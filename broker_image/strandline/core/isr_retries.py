"""When the ISR proposals of this broker are sent again, over all partitions.

Each `IsrProposer` schedules and cancels for its partition, `Replicas` takes what is due: no
step looks at every leader. A proposer that ends with its role leaves its time behind; `Replicas`
then finds no proposal to send.
"""

from __future__ import annotations

from strandline.model import TopicPartition


class IsrRetries:
    """At most one time per partition."""

    def __init__(self) -> None:
        self._retry_at_ms: dict[TopicPartition, int] = {}

    @property
    def next_due_ms(self) -> int | None:
        """When `take_due` has something to return, None for never."""
        return min(self._retry_at_ms.values(), default=None)

    def schedule(self, tp: TopicPartition, retry_at_ms: int) -> None:
        """Set the time of a partition's proposal, in place of an earlier one."""
        self._retry_at_ms[tp] = retry_at_ms

    def cancel(self, tp: TopicPartition) -> None:
        """Forget a partition's proposal: it is settled."""
        self._retry_at_ms.pop(tp, None)

    def take_due(self, now_ms: int) -> list[TopicPartition]:
        """Take the partitions whose time has come, ascending."""
        if not self._retry_at_ms:
            return []
        due = sorted(tp for tp, at_ms in self._retry_at_ms.items() if at_ms <= now_ms)
        for tp in due:
            del self._retry_at_ms[tp]
        return due

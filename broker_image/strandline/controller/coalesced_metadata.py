"""Metadata that may wait: changes of the ISR alone, which no client routes by."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.model import TopicPartition

from .timing import ControllerTiming


class CoalescedMetadata:
    """Partitions that changed in the ISR alone, and wait until they are sent together.

    Source: Kafka's isr-change-propagation: the period of looking at the changes, the quiet time
    after which they leave, and their longest wait.
    """

    def __init__(self, *, timing: ControllerTiming, now_ms: int) -> None:
        self._timing = timing
        self._partitions: set[TopicPartition] = set()
        self._changed_ms = 0
        self._sent_ms = now_ms
        self._look_ms = 0

    @property
    def next_wakeup_ms(self) -> int | None:
        """When `take_due` looks at the partitions next."""
        return self._look_ms if self._partitions else None

    def add(self, tp: TopicPartition, now_ms: int) -> None:
        """Let a changed partition wait."""
        if not self._partitions:
            self._look_ms = now_ms + self._timing.metadata_period_ms
        self._partitions.add(tp)
        self._changed_ms = now_ms

    def discard(self, tps: Iterable[TopicPartition]) -> None:
        """Forget partitions that are sent at once, or that are gone."""
        self._partitions.difference_update(tps)

    def take_due(self, now_ms: int) -> set[TopicPartition]:
        """Take the partitions if they were quiet, or waited, for long enough."""
        if not self._partitions or now_ms < self._look_ms:
            return set()
        quiet = now_ms - self._changed_ms > self._timing.metadata_quiet_ms
        late = now_ms - self._sent_ms > self._timing.metadata_delay_max_ms
        if not quiet and not late:
            self._look_ms = now_ms + self._timing.metadata_period_ms
            return set()
        due, self._partitions, self._sent_ms = self._partitions, set(), now_ms
        return due

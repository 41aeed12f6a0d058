"""How often the ISRs of partitions led here shrank and expanded, as lines kept until they change.

Used by `notice_reporters`. prometheus_client makes objects of each sample at each scrape, and there
are two samples for every partition that this broker has led.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline import names
from strandline.model import TopicPartition

from .exposition import header, in_steps, sample

ROWS: Final = (names.ISR_SHRINKS_TOTAL, names.ISR_EXPANDS_TOTAL)


class IsrCounters:
    """Two counters of each partition; a section of the process's metrics."""

    def __init__(self) -> None:
        self._counts: Final[dict[TopicPartition, list[int]]] = {}
        self._lines: Final[list[dict[TopicPartition, str]]] = [{} for _ in ROWS]

    def count(self, tp: TopicPartition, topic_name: str, *, shrank: bool, expanded: bool) -> None:
        """Count a change of an ISR; one that did neither shows both counters at 0."""
        counts = self._counts.setdefault(tp, [0, 0])
        for number, (row, changed) in enumerate(zip(ROWS, (shrank, expanded), strict=True)):
            counts[number] += changed
            labels = zip(row.labels, (topic_name, str(tp.partition)), strict=True)
            self._lines[number][tp] = sample(row.name, labels, counts[number])

    def forget(self, tp: TopicPartition) -> None:
        """Forget a partition whose replica is gone from this broker."""
        if self._counts.pop(tp, None) is not None:
            for lines in self._lines:
                del lines[tp]

    def pieces(self) -> Iterator[str]:
        """Yield the text of both families."""
        for row, lines in zip(ROWS, self._lines, strict=True):
            yield header(row.name, row.documentation, row.kind.value)
            yield from in_steps(tuple(lines.values()))

"""Which partitions the next step looks at: those that were marked, each once."""

from __future__ import annotations

from strandline.core.marked_partitions import MarkedPartitions

from .samples import OTHER_TP, TP


def test_partitions_are_taken_once_and_in_order() -> None:
    marked = MarkedPartitions()
    assert marked.take() == []
    marked.mark(OTHER_TP)
    marked.mark(TP)
    marked.mark(TP)
    assert marked.take() == [TP, OTHER_TP]
    assert marked.take() == []

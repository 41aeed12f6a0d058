"""Which ISRs the next check looks at: those that were asked for, each once."""

from __future__ import annotations

from strandline.core.isr_checks import IsrChecks

from .samples import OTHER_TP, TP


def test_partitions_are_taken_once_and_in_order() -> None:
    checks = IsrChecks()
    assert checks.take() == []
    checks.ask(OTHER_TP)
    checks.ask(TP)
    checks.ask(TP)
    assert checks.take() == [TP, OTHER_TP]
    assert checks.take() == []

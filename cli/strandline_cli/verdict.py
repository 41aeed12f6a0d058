"""The end of a run: the sentences of its verdict, and whether the run shows enough.

A run in which little happened proves little: `vacuity` names what was missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from strandline_checker.judge import HistoryVerdict

ACKED_MIN = 5_000
"""A run with fewer acknowledged records shows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSeen:
    """A fault and its effects.

    changed holds the partitions whose leader or ISR changed; gaps_ms the longest time without an
    acknowledgement by partition. at_ms is wall time since 1970, as in the samples of Prometheus.
    """

    name: str
    changed: tuple[int, ...]
    broker: int = -1
    at_ms: int = 0
    gaps_ms: dict[int, int] = field(default_factory=dict)
    acked_before: int = 0
    acked_after: int = 0

    @property
    def longest_gap_ms(self) -> int:
        """The longest gap of any partition."""
        return max(self.gaps_ms.values(), default=0)


def sentences(verdict: HistoryVerdict) -> list[str]:
    """Return the counts of a verdict: first the records, then the anomalies."""
    return [
        (
            f"sent {verdict.sent}, acked {verdict.acked}, unknown {verdict.unknown}, "
            f"failed {verdict.failed}, read {verdict.read}"
        ),
        (
            f"lost {verdict.lost}, duplicated {verdict.duplicated}, out of order "
            f"{verdict.out_of_order}, diverged {verdict.diverged}, moved {verdict.moved}, "
            f"phantom {verdict.phantom}, misread {verdict.misread}, unscanned {verdict.unscanned}"
        ),
    ]


def findings(verdict: HistoryVerdict, topic: str) -> list[str]:
    """Return a sentence for each anomaly that the verdict lists."""
    return [f"{each.kind} in {topic}-{each.partition}: {each.detail}" for each in verdict.findings]


def vacuity(acked: int, faults: Sequence[FaultSeen], *, load_exit_code: int | None) -> list[str]:
    """Return why a run shows nothing, empty if it shows enough."""
    reasons: list[str] = []
    if acked < ACKED_MIN:
        reasons.append(f"only {acked} records were acknowledged, {ACKED_MIN} are needed")
    if not faults:
        reasons.append("no fault was injected")
    for fault in faults:
        if not fault.changed:
            reasons.append(f"{fault.name}: neither a leader nor an ISR changed")
        if fault.acked_after <= fault.acked_before:
            reasons.append(f"{fault.name}: nothing was acknowledged afterwards")
    if load_exit_code != 0:
        reasons.append(f"the load ended with {load_exit_code}: not all was answered, or not read")
    return reasons

"""When probes prove that a process is dead, after its stream broke or it fell silent.

The proof is a number of refused probes in a row, or another process at the same address. A response
or a silence proves nothing: a stopped process still accepts TCP. The controller judges its brokers
by this rule, and each broker the holder of the controller Lease.
"""

from __future__ import annotations

from enum import Enum, auto

from .events import ProbeVerdict


class DeathEvidence(Enum):
    """What the probes of one process show so far."""

    PROVEN = auto()
    NOT_YET = auto()
    NONE = auto()


def judge_probe(
    verdict: ProbeVerdict, *, refusals_before: int, refused_probes_dead: int
) -> DeathEvidence:
    """Judge one probe; NOT_YET asks for another."""
    match verdict:
        case ProbeVerdict.OTHER_INCARNATION:
            return DeathEvidence.PROVEN
        case ProbeVerdict.REFUSED if refusals_before + 1 >= refused_probes_dead:
            return DeathEvidence.PROVEN
        case ProbeVerdict.REFUSED:
            return DeathEvidence.NOT_YET
        case ProbeVerdict.ANSWERED | ProbeVerdict.NO_ANSWER:
            return DeathEvidence.NONE

"""When probes prove that a process is dead, after its stream broke or it fell silent.

The proof is a number of refused probes in a row, or another process at the same address. A response
or a silence proves nothing: a stopped process still accepts TCP. The controller judges its brokers
by this rule, and each broker the holder of the controller Lease.
"""

from __future__ import annotations

from .events import ProbeVerdict


def proves_death(verdict: ProbeVerdict, *, refusals_before: int, refused_probes_dead: int) -> bool:
    """Judge one probe. A refused one that proves nothing yet asks for another."""
    if verdict is ProbeVerdict.REFUSED:
        return refusals_before + 1 >= refused_probes_dead
    return verdict is ProbeVerdict.OTHER_INCARNATION

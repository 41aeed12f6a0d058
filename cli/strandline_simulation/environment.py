"""What lies around every process and client of a schedule: handed to each part as one value."""

from __future__ import annotations

from dataclasses import dataclass

from .api_server import ApiServer
from .fault_counts import FaultCounts
from .invariants import Invariants
from .network import Network
from .plan import Plan
from .present_conditions import PresentConditions
from .tally import Tally
from .trace import Trace
from .virtual_time import VirtualTime


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEnvironment:
    """The parts are shared and change; which ones there are does not."""

    plan: Plan
    virtual_time: VirtualTime
    conditions: PresentConditions
    network: Network
    api: ApiServer
    invariants: Invariants
    trace: Trace
    tally: Tally
    fault_counts: FaultCounts

"""What lies around the processes and clients of a schedule: each part is given all of it."""

from __future__ import annotations

from .api_server import ApiServer
from .disk import SimulatedDisk
from .fault_counts import FaultCounts
from .invariants import Invariants
from .loss_budget import LossBudget
from .network import Network
from .plan import Plan
from .present_conditions import PresentConditions
from .store import SimulatedStore
from .trace import Trace
from .virtual_time import VirtualTime


class SimulatedEnvironment:
    """The parts are shared and change; which ones there are does not."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.virtual_time = VirtualTime()
        self.fault_counts = FaultCounts()
        self.conditions = PresentConditions(plan.conditions)
        self.trace = Trace(self.virtual_time)
        store = SimulatedStore(plan)
        self.disks = {
            broker_id: SimulatedDisk(log_dir_id=f"dir-{broker_id}-0", flushes=plan.flushes)
            for broker_id in store.brokers
        }
        self.invariants = Invariants(store, self.disks)
        self.loss_budget = LossBudget(plan, store, self.disks)
        self.network = Network(
            self.virtual_time, plan, conditions=self.conditions, fault_counts=self.fault_counts
        )
        self.api = ApiServer(
            self.virtual_time,
            plan,
            store=store,
            conditions=self.conditions,
            fault_counts=self.fault_counts,
            on_status_written=(
                self.trace.on_status_written,
                self.invariants.on_status_written,
                self.loss_budget.on_status_written,
            ),
            on_status_refused=self.invariants.on_status_refused,
        )

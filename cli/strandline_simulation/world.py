"""The world of one schedule: everything is made here from a plan, and connected; `run` runs it."""

from __future__ import annotations

from .api_server import ApiServer
from .clients import SimulatedClients
from .disk import SimulatedDisk
from .environment import SimulatedEnvironment
from .fault_counts import FaultCounts
from .healing import Healing
from .hosts import Hosts
from .invariants import Invariants
from .loss_budget import LossBudget
from .nemesis import Nemesis
from .network import Network
from .plan import Plan
from .present_conditions import PresentConditions
from .store import SimulatedStore
from .tally import Tally
from .trace import Trace
from .virtual_time import VirtualTime


class World:
    """Everything of one schedule, from below upward."""

    def __init__(self, plan: Plan) -> None:
        virtual_time, fault_counts, tally = VirtualTime(), FaultCounts(), Tally()
        conditions, trace = PresentConditions(plan.conditions), Trace(virtual_time)
        store = SimulatedStore(plan)
        self.disks = {
            broker_id: SimulatedDisk(log_dir_id=f"dir-{broker_id}-0") for broker_id in store.brokers
        }
        invariants = Invariants(store, self.disks)
        self.loss_budget = LossBudget(
            store, self.disks, min_insync_replicas=plan.min_insync_replicas
        )
        network = Network(
            virtual_time,
            seed=plan.seed,
            conditions=conditions,
            fault_counts=fault_counts,
            break_detected_ms=plan.timing.break_detected_ms,
            silence_detected_ms=plan.timing.session_timeout_ms,
        )
        api = ApiServer(
            virtual_time,
            store=store,
            seed=plan.seed,
            conditions=conditions,
            timeout_ms=plan.timing.api_timeout_ms,
            fault_counts=fault_counts,
            observers=(trace, invariants, tally, self.loss_budget),
            on_status_refused=invariants.on_status_refused,
        )
        self.environment = SimulatedEnvironment(
            plan=plan,
            virtual_time=virtual_time,
            conditions=conditions,
            network=network,
            api=api,
            invariants=invariants,
            trace=trace,
            tally=tally,
            fault_counts=fault_counts,
        )
        hosts = Hosts(self.environment, self.disks)
        clients = SimulatedClients(self.environment)
        for broker_id in self.disks:
            hosts.start(broker_id)
        Nemesis(self.environment, hosts, self.loss_budget, plan.faults)
        self.healing = Healing(self.environment, hosts, self.disks, clients)

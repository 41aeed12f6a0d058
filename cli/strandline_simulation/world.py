"""The world of one schedule: everything is made here from a plan, and connected; `run` runs it."""

from __future__ import annotations

from .clients import SimulatedClients
from .environment import SimulatedEnvironment
from .healing import Healing
from .hosts import Hosts
from .nemesis import Nemesis
from .plan import Plan


class World:
    """Everything of one schedule, from below upward."""

    def __init__(self, plan: Plan) -> None:
        self.environment = SimulatedEnvironment(plan)
        hosts = Hosts(self.environment)
        clients = SimulatedClients(self.environment)
        hosts.wake_all()
        Nemesis(self.environment, hosts)
        self.healing = Healing(self.environment, hosts, clients)

"""The operator of the simulated world, as far as it moves partitions: it writes their specs."""

from __future__ import annotations

from strandline.model import BrokerId

from .environment import SimulatedEnvironment
from .plan import Move


class SimulatedOperator:
    """The wishes of one schedule; each is written at its time, whatever goes on then."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self._environment = environment
        for move in environment.plan.moves:
            environment.virtual_time.at(move.at_ms, self._wish, move)

    def _wish(self, move: Move) -> None:
        self._environment.trace.record("operator", move)
        replicas = tuple(map(BrokerId, move.replicas))
        self._environment.api.wish(f"topic-{move.partition}", replicas)

"""The simulator's driver never nests steps of one process, and ticks a machine at its wakeup."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.model import BrokerId
from strandline_simulation.driver import SimulatedDriver
from strandline_simulation.process_life import ProcessLife
from strandline_simulation.virtual_time import VirtualTime


class Machine:
    """Returns each event as its only effect; "wake me" asks for a tick."""

    next_wakeup_ms: int | None = None

    def step(self, event: str, now_ms: int) -> Sequence[str]:
        self.next_wakeup_ms = 30 if event == "wake me" else None
        return [f"{event} at {now_ms}"]


class Lab:
    """Two machines of one process; an effect of the first is an event of the second."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        self.log: list[str] = []
        life = ProcessLife(self.time, broker_id=BrokerId(1), number=1)
        self.first = SimulatedDriver(Machine(), life, perform=self.perform_first, tick="tick")
        self.second = SimulatedDriver(Machine(), life, perform=self.log.extend, tick="tick")

    def perform_first(self, effects: Sequence[str]) -> None:
        self.log.append("begun")
        for effect in effects:
            self.second.step(effect)
        self.log.append("done")


def test_a_step_submitted_while_effects_are_performed_comes_after_them() -> None:
    lab = Lab()
    lab.first.step("a")
    assert lab.log == ["begun", "done", "a at 0 at 0"]


def test_a_tick_does_not_nest_and_comes_at_its_wakeup_time() -> None:
    lab = Lab()
    lab.first.step("wake me")
    lab.log.clear()
    lab.time.run_next()
    assert (lab.time.now_ms, lab.log) == (30, ["begun", "done", "tick at 30 at 30"])

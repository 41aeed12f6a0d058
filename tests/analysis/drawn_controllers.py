"""Drawn histories of controllers, as the samples that scrapes of brokers give.

A broker learns of an election late, and may show itself as the controller for one more scrape
after it learned of its successor. Processes end and begin, and scrapes are lost.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from strandline import names
from tests.analysis.generated import START_MS, UP, History, Labels
from tests.analysis.timeline import INTERVAL_MS

BROKERS = 4


@dataclass(slots=True)
class Broker:
    """What one broker knows, and since when it can."""

    epoch: int = 0
    """0 is that of no controller."""
    active: bool = False
    alive: bool = True
    learns_at: int = 0
    silent_until: int = 0

    def learn(self, epoch: int, *, lingers: bool) -> None:
        """Obey the newest epoch, which another broker has."""
        self.active = self.active and self.epoch < epoch and lingers
        self.epoch = epoch

    def shown(self, number: int) -> dict[Labels, float]:
        """Return what a scrape gives."""
        values = {UP: float(self.alive)}
        if self.alive:
            values[names.CONTROLLER_EPOCH.name] = float(self.epoch)
            values[names.CONTROLLER_ACTIVE.name] = float(self.active)
        of = {"pod": f"default-{number}", "instance": f"10.{number}:1"}
        return {
            tuple(sorted({"__name__": name, **of}.items())): value for name, value in values.items()
        }


class DrawnControllers:
    """Brokers of which one after the other becomes the controller."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.brokers = [Broker() for _ in range(BROKERS)]
        self.epoch = 0
        self.controller = 0
        self._elect(0)

    def happen(self, at: int) -> None:
        """Let one drawn thing happen."""
        one = self.chance.choice(self.brokers)
        match self.chance.choice(["elect", "elect", "elect", "kill", "restart", "hide"]):
            case "elect":
                self._elect(at)
            case "kill":
                one.alive = one.active = False
            case "restart" if one is not self.brokers[self.controller]:
                self.brokers[self.brokers.index(one)] = Broker(learns_at=self._later(at))
            case "hide":
                one.silent_until = at + self.chance.randrange(500, 6_000)
            case _:
                pass

    def scraped(self, number: int, at: int) -> dict[Labels, float] | None:
        """Return what a scrape of a broker gives, None if it is lost."""
        broker = self.brokers[number]
        if number != self.controller and broker.learns_at <= at:
            broker.learn(self.epoch, lingers=self.chance.random() < 0.5)
        lost = self.chance.random() < 0.02
        return None if lost or at < broker.silent_until else broker.shown(number)

    def _elect(self, at: int) -> None:
        living = [number for number, broker in enumerate(self.brokers) if broker.alive]
        if not living:
            return
        self.controller = self.chance.choice(living)
        self.epoch += self.chance.choice([1, 1, 1, 2])
        for number, broker in enumerate(self.brokers):
            if number == self.controller:
                broker.epoch, broker.active = self.epoch, True
            else:
                broker.learns_at = self._later(at)

    def _later(self, at: int) -> int:
        return at + self.chance.randrange(3_000)


def drawn_controllers(seed: int, *, length: int) -> History:
    """Return what scrapes of BROKERS brokers tell of their controllers over length ms."""
    chance = random.Random(seed)
    drawn = DrawnControllers(chance)
    history: History = {}
    before: list[set[Labels]] = [set() for _ in range(BROKERS)]
    next_event = chance.randrange(3_000)
    for turn in range(length * BROKERS // INTERVAL_MS):
        number = turn % BROKERS
        # No two brokers are scraped at one moment.
        at = turn * INTERVAL_MS // BROKERS + chance.randrange(20)
        while next_event <= at:
            drawn.happen(next_event)
            next_event += chance.randrange(200, 9_000)
        shown = drawn.scraped(number, at)
        if shown is None:
            continue
        for labels in before[number] - shown.keys():
            history[labels].append((START_MS + at, None))
        for labels, value in shown.items():
            history.setdefault(labels, []).append((START_MS + at, value))
        before[number] = set(shown)
    return history

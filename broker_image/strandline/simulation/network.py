"""Links between processes: loss, late copies, delays and one-way cuts, by keyed chance.

A link is (source, destination, channel) and keeps the order of first copies like a stream;
late copies come whenever they come. Clients have negative ids. A process reaches itself
always.
"""

from __future__ import annotations

from dataclasses import dataclass

from .chance import Chance, key_of
from .happenings import Happened, Happening
from .plan import EVERYBODY, Conditions
from .timeline import Action, Timeline


@dataclass(slots=True)
class _Link:
    chance: Chance
    last_arrival_ms: int = 0


class Network:
    """All links of one schedule."""

    def __init__(
        self, timeline: Timeline, *, seed: int, conditions: Conditions, happened: Happened
    ) -> None:
        self._timeline = timeline
        self._happened = happened
        self._seed = seed
        self._conditions = conditions
        self._links: dict[tuple[int, int, str], _Link] = {}
        self._cut_until_ms: dict[tuple[int, int], int] = {}

    def cut(self, source: int, destination: int, until_ms: int) -> None:
        """Lose messages in one direction; EVERYBODY stands for any id."""
        key = (source, destination)
        self._cut_until_ms[key] = max(self._cut_until_ms.get(key, 0), until_ms)

    def calm(self) -> None:
        """From now on nothing is lost, repeated or slow."""
        self._conditions = Conditions(delay_max_ms=2)
        self._cut_until_ms.clear()

    def is_cut(self, source: int, destination: int) -> bool:
        """Tell whether messages of this direction are lost now."""
        if not self._cut_until_ms or source == destination:
            return False
        now_ms, until_ms = self._timeline.now_ms, self._cut_until_ms
        return (
            until_ms.get((source, destination), 0) > now_ms
            or until_ms.get((source, EVERYBODY), 0) > now_ms
            or until_ms.get((EVERYBODY, destination), 0) > now_ms
        )

    def send(
        self,
        source: int,
        destination: int,
        channel: str,
        arrive: Action,
        *arguments: object,
        repeatable: bool = False,
    ) -> bool:
        """Send a message; return false if it is lost. Only repeatable ones may come twice."""
        link = self._link(source, destination, channel)
        conditions, chance, now_ms = self._conditions, link.chance, self._timeline.now_ms
        fate = chance.draw()
        delay_ms = chance.between(conditions.delay_min_ms, conditions.delay_max_ms)
        if source != destination:
            if fate % 1000 < conditions.loss or self.is_cut(source, destination):
                self._happened[Happening.MESSAGE_LOST] += 1
                return False
            if (fate >> 16) % 1000 < conditions.slow:
                self._happened[Happening.MESSAGE_SLOW] += 1
                delay_ms += chance.between(0, conditions.slow_max_ms)
            if repeatable and (fate >> 32) % 1000 < conditions.duplicates:
                self._happened[Happening.MESSAGE_REPEATED] += 1
                late_ms = chance.between(0, conditions.slow_max_ms)
                self._timeline.at(now_ms + delay_ms + late_ms, arrive, *arguments)
        arrival_ms = max(now_ms + delay_ms, link.last_arrival_ms)
        link.last_arrival_ms = arrival_ms
        self._timeline.at(arrival_ms, arrive, *arguments)
        return True

    def round_trip_ms(self, source: int, destination: int) -> int | None:
        """Return how long a short question and its answer take, None if one gets lost."""
        link = self._link(source, destination, "probe")
        conditions, chance = self._conditions, link.chance
        lost = chance.happens(2 * conditions.loss) and source != destination
        if lost or self.is_cut(source, destination) or self.is_cut(destination, source):
            return None
        return 2 * chance.between(conditions.delay_min_ms, conditions.delay_max_ms)

    def _link(self, source: int, destination: int, channel: str) -> _Link:
        key = (source, destination, channel)
        link = self._links.get(key)
        if link is None:
            chance = Chance(key_of(self._seed, "link", source, destination, channel))
            link = self._links[key] = _Link(chance)
        return link

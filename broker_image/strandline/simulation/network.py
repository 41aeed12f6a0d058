"""Links between processes: loss, late copies, delays and one-way cuts, drawn by a keyed PRNG.

A link is (source, destination, channel) and keeps the order of first copies like a stream;
late copies come whenever they come. Clients have negative ids. A process always
reaches itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fault_counts import Anomaly, FaultCounts
from .plan import ANY_PEER, Conditions
from .prng import Prng, key_of
from .virtual_time import Callback, VirtualTime


@dataclass(slots=True)
class _Link:
    prng: Prng
    last_arrival_ms: int = 0


class Network:
    """All links of one schedule."""

    def __init__(
        self,
        virtual_time: VirtualTime,
        *,
        seed: int,
        conditions: Conditions,
        fault_counts: FaultCounts,
    ) -> None:
        self._virtual_time = virtual_time
        self._fault_counts = fault_counts
        self._seed = seed
        self._conditions = conditions
        self._links: dict[tuple[int, int, str], _Link] = {}
        self._cut_until_ms: dict[tuple[int, int], int] = {}

    def cut(self, source: int, destination: int, until_ms: int) -> None:
        """Lose messages in one direction; ANY_PEER stands for any id."""
        key = (source, destination)
        self._cut_until_ms[key] = max(self._cut_until_ms.get(key, 0), until_ms)

    def heal(self) -> None:
        """From now on nothing is lost, repeated or slow."""
        self._conditions = Conditions(delay_max_ms=2)
        self._cut_until_ms.clear()

    def is_cut(self, source: int, destination: int) -> bool:
        """Tell whether messages of this direction are lost now."""
        if not self._cut_until_ms or source == destination:
            return False
        now_ms, until_ms = self._virtual_time.now_ms, self._cut_until_ms
        return (
            until_ms.get((source, destination), 0) > now_ms
            or until_ms.get((source, ANY_PEER), 0) > now_ms
            or until_ms.get((ANY_PEER, destination), 0) > now_ms
        )

    def send(
        self,
        source: int,
        destination: int,
        channel: str,
        on_arrival: Callback,
        *arguments: object,
        repeatable: bool = False,
    ) -> bool:
        """Send a message; return false if it is lost. Only repeatable ones may come twice."""
        link = self._link(source, destination, channel)
        conditions, prng, now_ms = self._conditions, link.prng, self._virtual_time.now_ms
        fate = prng.draw()
        delay_ms = prng.between(conditions.delay_min_ms, conditions.delay_max_ms)
        if source != destination:
            if fate % 1000 < conditions.loss or self.is_cut(source, destination):
                self._fault_counts[Anomaly.MESSAGE_LOST] += 1
                return False
            if (fate >> 16) % 1000 < conditions.slow:
                self._fault_counts[Anomaly.MESSAGE_SLOW] += 1
                delay_ms += prng.between(0, conditions.slow_max_ms)
            if repeatable and (fate >> 32) % 1000 < conditions.duplicates:
                self._fault_counts[Anomaly.MESSAGE_REPEATED] += 1
                late_ms = prng.between(0, conditions.slow_max_ms)
                self._virtual_time.at(now_ms + delay_ms + late_ms, on_arrival, *arguments)
        arrival_ms = max(now_ms + delay_ms, link.last_arrival_ms)
        link.last_arrival_ms = arrival_ms
        self._virtual_time.at(arrival_ms, on_arrival, *arguments)
        return True

    def round_trip_ms(self, source: int, destination: int) -> int | None:
        """Return how long a short question and its answer take, None if one gets lost."""
        link = self._link(source, destination, "probe")
        conditions, prng = self._conditions, link.prng
        lost = prng.chance(2 * conditions.loss) and source != destination
        if lost or self.is_cut(source, destination) or self.is_cut(destination, source):
            return None
        return 2 * prng.between(conditions.delay_min_ms, conditions.delay_max_ms)

    def _link(self, source: int, destination: int, channel: str) -> _Link:
        key = (source, destination, channel)
        link = self._links.get(key)
        if link is None:
            prng = Prng(key_of(self._seed, "link", source, destination, channel))
            link = self._links[key] = _Link(prng)
        return link

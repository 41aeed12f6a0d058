"""What scrapes of a history can show at all, of what truly happened.

Called by `analysis_scores`: a score must not demand of a table what no sample tells. What is left
out here is counted by the score instead.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from strandline_analysis.run_lengths import GAP_INTERVALS

from .brokers import happened
from .partition import walked
from .plan import Plan
from .replicas import PartitionHistory, Replica
from .scores import clipped, united
from .scrapes import Scraper
from .signals import RECORD_BYTES
from .truth import MINUTE_MS

Row = Mapping[str, Any]
OF_LEADERS: Final = frozenset({"ur_episodes", "umi_episodes", "at_min_isr", "data_at_risk"})
"""Tables of episodes that leaders tell: while none is scraped nobody knows."""


class Seen:
    """The scrapes of a plan's history, and what they have a chance to show."""

    def __init__(self, plan: Plan, *, interval_ms: int) -> None:
        """Walk through the history.

        Units:   interval_ms is the scrape interval
        """
        self.plan, self.interval_ms = plan, interval_ms
        self.cluster = happened(plan)
        scraper = Scraper(self.cluster, interval_ms=interval_ms)
        self.times = [scraper.successes(broker) for broker in range(plan.brokers)]
        self.histories = {each: walked(self.cluster, *each) for each in plan.subjects()}

    def truth(self, name: str, true: Iterable[Row]) -> list[Row]:
        """Return the true rows of a table, cut to what is known, and summed as scrapes sum."""
        if name == "replication_throughput":
            return [*self._produced()]
        rows = [*true]
        if name not in OF_LEADERS:
            return rows
        known = {each: self._known(history) for each, history in self.histories.items()}
        parts = ((row, known[row["topic"], row["partition"]]) for row in rows)
        return [part for row, spans in parts for part in clipped([row], spans) or [row]]

    def can_show(self, name: str, row: Row) -> bool:
        """Tell whether any scrape may show a true row."""
        match name:
            case "zombie_leaders":
                return self._scraped(row["broker"], row["start_ms"] + 1, row["end_ms"])
            case "truncations":
                process = self.cluster.process_at(row["broker"], row["at_ms"])
                if process is None:
                    return False
                until = self.cluster.processes[row["broker"]][process].until_ms
                return self._scraped(row["broker"], row["at_ms"], until)
            case "data_at_risk":
                # One scrape alone shows no rise.
                times = self.times[row["leader"]]
                first, last = (bisect_left(times, row[edge]) for edge in ("start_ms", "end_ms"))
                return last - first > 1
            case _:
                return True

    def _scraped(self, broker: int, from_ms: int, until_ms: int) -> bool:
        times = self.times[broker]
        place = bisect_left(times, from_ms)
        return place < len(times) and times[place] < until_ms

    def _known(self, history: PartitionHistory) -> list[tuple[int, int]]:
        """Return when the scrapes of a partition's true leaders tell of it."""
        gap_ms = GAP_INTERVALS * self.interval_ms
        spans = []
        for replica in history.replicas:
            times = self.times[replica.broker]
            for at_ms, after_ms in itertools.zip_longest(times, times[1:]):
                since_ms = _leads_since(replica, history, at_ms)
                if since_ms is None:
                    continue
                holds = after_ms is not None and after_ms - at_ms <= gap_ms
                begin = since_ms if at_ms - since_ms <= gap_ms else at_ms
                spans.append((begin, after_ms if holds else at_ms + self.interval_ms))
        return united(spans)

    def _produced(self) -> Iterator[Row]:
        """Yield what clients appended between two scrapes, in the minute of the later one."""
        for topic, broker in itertools.product(self.plan.topic_names(), range(self.plan.brokers)):
            lines = [
                replica.produced
                for (of_topic, _), history in self.histories.items()
                for replica in history.replicas
                if (of_topic, replica.broker) == (topic, broker)
            ]
            records, resets = dict[int, int](), dict[int, int]()
            before: tuple[int | None, int] | None = None
            for at_ms in self.times[broker]:
                process = self.cluster.process_at(broker, at_ms)
                value = sum(line.at(at_ms) for line in lines)
                if before is not None:
                    minute, anew = at_ms - at_ms % MINUTE_MS, process != before[0]
                    grown = value if anew else value - before[1]
                    records[minute] = records.get(minute, 0) + grown
                    resets[minute] = resets.get(minute, 0) + anew
                before = process, value
            for minute, count in records.items():
                if count or resets[minute]:
                    where = {"broker": broker, "topic": topic, "minute_ms": minute}
                    size = count * RECORD_BYTES
                    yield {**where, "flow": "produced", "bytes": size, "records": count}


def _leads_since(replica: Replica, history: PartitionHistory, at_ms: int) -> int | None:
    """Return since when a replica that is scraped now is the true leader, None if it is not."""
    place = bisect_right(replica.shown, at_ms, key=lambda each: each.at_ms) - 1
    if place < 0:
        return None
    shown = replica.shown[place]
    if shown.state is None or not shown.leads or shown.state.epoch < history.at(at_ms).epoch:
        return None
    return shown.state.since_ms

"""Every edge of an ISR lies within its own error, over histories that are known to the millisecond.

The tables are those of the plain references, so that many histories are tried; Spark makes the same
(`test_agreement.py`).
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from strandline_analysis.xor_chunk import STALE_BITS, decode, number
from tests.analysis.generated import History
from tests.analysis.reference.holding import Range
from tests.analysis.reference.isr_intervals import isr_intervals
from tests.analysis.timeline import INTERVAL_MS, PartitionTimeline, State, scraped

SEEDS = range(60)
LENGTH_MS = 60_000
STEP_MS = (20, 2_500)
"""Between two events: mostly so short that one scrape shows what several have done."""
Row = dict[str, Any]


def test_every_edge_between_two_known_states_lies_within_its_error() -> None:
    found = Counter[tuple[str, bool]]()
    for seed in SEEDS:
        timeline = random_timeline(seed)
        of = Range(
            start_ms=timeline.start_ms,
            end_ms=timeline.start_ms + LENGTH_MS,
            interval_ms=INTERVAL_MS,
        )
        for before, after in edges_of(list(isr_intervals(history_of(timeline), of))):
            latest, error = after["start_ms"], after["start_err_ms"]
            assert (before["end_ms"], before["end_err_ms"]) == (latest, error)
            true = changes_of(timeline.states, after["replica"], after["in_isr"])
            assert any(latest - error <= at <= latest for at in true), (seed, before, after)
            found[after["start_reason"], error > 0] += 1
    # Exact ones and others, within a leadership and between two.
    assert min(found[reason, wide] for reason in REASONS for wide in (True, False)) > 10, found


REASONS = ("change", "leader_change")


def random_timeline(seed: int) -> PartitionTimeline:
    """Return a minute in which ISRs change all the time, leaders die, and others are elected."""
    chance = random.Random(seed)
    timeline = PartitionTimeline()
    at = 0
    while (at := at + chance.randrange(*STEP_MS)) < LENGTH_MS - INTERVAL_MS:
        now = timeline.now
        live = [broker for broker in range(3) if broker not in now.dead]
        others = [broker for broker in live if broker != now.leader]
        match chance.choice(["kill", "revive", "revive", "move", "shrink", "shrink", "expand"]):
            case "kill" if others:
                timeline.kill(at, now.leader)
                at += chance.randrange(50, 2_000)
                leader = chance.choice(others)
                timeline.elect(at, leader, set(now.isr) - {now.leader} | {leader})
            case "revive" if now.dead:
                timeline.revive(at, min(now.dead))
            case "move" if others:
                leader = chance.choice(others)
                timeline.elect(at, leader, set(now.isr) | {leader})
            case "shrink" if len(now.isr) > 1:
                leaver = chance.choice(sorted(now.isr - {now.leader}))
                timeline.change_isr(at, set(now.isr - {leaver}))
            case "expand" if len(now.isr) < 3:
                timeline.change_isr(at, set(now.isr) | set(live))
    return timeline


def history_of(timeline: PartitionTimeline) -> History:
    """Return what scrapes of a timeline show."""
    return {
        tuple(sorted(series.labels.items())): [
            (at, None if bits == STALE_BITS else number(bits))
            for chunk in series.chunks
            for at, bits in decode(chunk)
        ]
        for series in scraped(timeline, length=LENGTH_MS)
    }


def edges_of(rows: list[Row]) -> Iterator[tuple[Row, Row]]:
    """Yield the rows of a replica on both sides of each change between two known states."""
    rows.sort(key=lambda row: (row["replica"], row["start_ms"]))
    for before, after in itertools.pairwise(rows):
        same = before["replica"] == after["replica"]
        if same and None not in (before["in_isr"], after["in_isr"]):
            yield before, after


def changes_of(states: list[State], replica: int, in_isr: bool) -> list[int]:
    """Return when a replica joined the ISR in truth, or left it."""
    return [
        after.at_ms
        for before, after in itertools.pairwise(states)
        if (replica in before.isr) != in_isr and (replica in after.isr) == in_isr
    ]

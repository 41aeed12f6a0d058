"""Asks for preferred leaders: the first of a partition's replicas leads again.

The wish is the leader epoch in which it holds, so any election ends it (ADR 0057). It is asked
again in the new epoch while somebody waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .assignments import Assignment, Assignments, ClusterFound
from .commands import Say
from .kubectl import Object
from .progress import wait
from .tables import Row, show

COLUMNS: Row = ("PARTITION", "PREFERRED", "LEADER", "EPOCH", "WHAT CAME OF IT")
LEADS: Final = "leads"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionWishes:
    """Which partitions, as TOPIC or TOPIC/PARTITION, none for all; wait_seconds 0 only asks."""

    words: tuple[str, ...]
    wait_seconds: int


def elect(assignments: Assignments, wishes: ElectionWishes, say: Say) -> bool:
    """Ask, wait, and show what came of it; tell whether all preferred leaders lead.

    Raises:  ConfigError if a word names no partition; CommandFailed if a write is refused
    """
    asked: dict[str, Assignment] = {}

    def decide(found: ClusterFound) -> list[Object]:
        new = [each for each in chosen(found, wishes.words) if may_ask(each)]
        asked.update({each.label: each for each in new})
        return [with_wish(each) for each in new]

    found = assignments.change(decide)
    due = {each.label for each in chosen(found, wishes.words) if each.leader != each.wanted[0]}
    if not due:
        say("all preferred leaders lead already: nothing to do")
        return True
    for each in asked.values():
        say(f"{each.label}: leader {each.leader} -> {each.wanted[0]} is asked for")
    if wishes.wait_seconds:

        def look() -> list[str]:
            seen = assignments.change(decide)
            pending = [seen.partitions[label] for label in sorted(due & seen.partitions.keys())]
            rest = [each for each in pending if each.leader != each.wanted[0]]
            return [f"{each.label}: {why_not(each, seen)}" for each in rest]

        try:
            wait(look, wishes.wait_seconds)
        except KeyboardInterrupt:
            say("what was asked for holds until the next election of each partition")
            raise
        found = assignments.read()
    last = [found.partitions[label] for label in sorted(due & found.partitions.keys())]
    show(COLUMNS, [row(each, found) for each in last], left=COLUMNS)
    return all(each.leader == each.wanted[0] for each in last) or not wishes.wait_seconds


def chosen(found: ClusterFound, words: Sequence[str]) -> list[Assignment]:
    """Return the partitions that were named, all without a name."""
    return found.chosen(words) if words else list(found.partitions.values())


def may_ask(each: Assignment) -> bool:
    """Tell whether a wish would have an effect that nobody asked for yet."""
    is_asked = each.found["spec"].get("electPreferredIn") == each.leader_epoch
    return not is_asked and not each.moves and each.leader not in {-1, each.wanted[0]}


def with_wish(each: Assignment) -> Object:
    """Return the object with the wish for its present leader epoch."""
    return each.found | {"spec": each.found["spec"] | {"electPreferredIn": each.leader_epoch}}


def why_not(each: Assignment, found: ClusterFound) -> str:
    """Return why the preferred leader does not lead."""
    preferred = each.wanted[0]
    if not each.present:
        return "no controller has looked at it yet"
    if each.leader == -1:
        return f"it has no leader: {each.reason or 'no replica in sync is in session'}"
    if each.moves:
        return f"it moves, and its last step elects one of {list(each.wanted)}"
    if amiss := found.broker_amiss(preferred):
        return amiss
    if preferred not in each.isr:
        return f"broker {preferred} is not in the ISR {list(each.isr)}"
    return f"the controller has not elected broker {preferred}: no session, or it shuts down"


def row(each: Assignment, found: ClusterFound) -> Row:
    """Return a partition's line."""
    leads = each.leader == each.wanted[0]
    leader = "none" if each.leader == -1 else str(each.leader)
    came = LEADS if leads else why_not(each, found)
    return each.label, str(each.wanted[0]), leader, str(each.leader_epoch), came

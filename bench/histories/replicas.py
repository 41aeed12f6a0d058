"""What a partition's history is made of: stored states, replicas, and what befell them.

Made by `partition`, read by everything behind it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum

from .lines import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The partition's stored state from at_ms on."""

    at_ms: int
    leader: int
    """The last elected one, which may be dead."""
    epoch: int
    isr: frozenset[int]
    version: int
    """The partition epoch."""
    since_ms: int
    changed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a broker's process knows of the partition from at_ms on."""

    at_ms: int
    state: Stored | None
    """None: there is no process. A broker that is cut off knows an earlier state."""
    leads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueElection:
    """A leadership begins."""

    at_ms: int
    epoch: int
    old_leader: int
    new_leader: int
    lost_ms: int
    """Since when the old one could not lead; at_ms if it led until then."""
    kind: str
    """As the label of the controller's counter: offline, controlled_shutdown, preferred or
    unclean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueTruncation:
    """A replica cuts the end of its log off."""

    at_ms: int
    broker: int
    leo_from: int
    leo_to: int
    leader_epoch: int
    below_hw: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueZombie:
    """A broker takes itself for the leader although a later leadership has begun."""

    broker: int
    epoch: int
    newer_leader: int
    newer_epoch: int
    from_ms: int
    until_ms: int


class Mode(StrEnum):
    """How a replica moves."""

    LEAD = "lead"
    FOLLOW = "follow"
    STOP = "stop"
    """It does not fetch."""
    CATCH_UP = "catch_up"
    ZOMBIE = "zombie"


@dataclass(slots=True)
class Replica:
    """One replica, and its numbers over time."""

    broker: int
    mode: Mode = Mode.FOLLOW
    alive: bool = True
    reachable: bool = True
    slow: bool = False
    turn: int = 0
    """Rises with each change of mode; what was planned in an earlier turn does not happen."""
    known: Stored | None = None
    """The state that it obeys, or obeyed when it was last reached."""
    log_epoch: int = 1
    """Under which it last fetched or led."""
    target_ms: int = 0
    """Of CATCH_UP: when it will have all."""
    end: Line = field(default_factory=Line)
    """Its log end offset."""
    watermark: Line = field(default_factory=Line)
    """Its own high watermark."""
    seen_end: Line = field(default_factory=Line)
    """Its log end offset as the leader knows it."""
    caught_up: Line = field(default_factory=Line)
    """Since when, ms; as the leader knows it."""
    produced: Line = field(default_factory=Line)
    """Records that clients appended here, counted by this process."""
    shrinks: Line = field(default_factory=Line)
    expands: Line = field(default_factory=Line)
    truncations: Line = field(default_factory=Line)
    truncated: Line = field(default_factory=Line)
    truncated_below: Line = field(default_factory=Line)
    shown: list[Shown] = field(default_factory=list)

    @property
    def counters(self) -> tuple[Line, ...]:
        """Return what begins at 0 with each process."""
        counted = (self.truncations, self.truncated, self.truncated_below)
        return (self.produced, self.shrinks, self.expands, *counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHistory:
    """All that happened to a partition."""

    topic: str
    partition: int
    min_isr: int
    states: tuple[Stored, ...]
    replicas: tuple[Replica, ...]
    """In the order of assignment."""
    committed: Line
    """The high watermark of the present leader."""
    elections: tuple[TrueElection, ...]
    truncations: tuple[TrueTruncation, ...]
    zombies: tuple[TrueZombie, ...]
    lost_by_epoch: dict[int, int]
    """By epoch: committed records that its unclean begin threw away."""

    def at(self, time_ms: int) -> Stored:
        """Return the stored state at a time."""
        place = bisect_right(self.states, time_ms, key=lambda state: state.at_ms) - 1
        return self.states[max(place, 0)]

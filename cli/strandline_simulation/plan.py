"""A plan: everything that is decided before a schedule runs, as plain values and as JSON.

Faults name their target by role ("leader:0", "controller") or by id; a role is resolved when
the fault happens. What a plan does not hold is drawn from its seed by `prng`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

ANY_PEER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault; `nemesis` knows its kinds, and which of them use which field.

    for_ms is how long it lasts, or how long the broker stays away; keep_per_mille is the share of
    a log that power loss keeps.
    """

    at_ms: int
    kind: str
    target: str = ""
    for_ms: int = 0
    peer: int = ANY_PEER
    keep_per_mille: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """One batch with acks=all; it is sent again, as new values, until acknowledged or given up."""

    at_ms: int
    producer: int
    partition: int
    record_count: int
    tries_for_ms: int = 2_500


@dataclass(frozen=True, slots=True, kw_only=True)
class Consume:
    """A consumer reads on, or from the start; wait_ms > 0 lets it wait for more."""

    at_ms: int
    consumer: int
    partition: int
    wait_ms: int = 0
    from_start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A client deletes all but the last keep_count of the records that consumers see."""

    at_ms: int
    partition: int
    keep_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The operator wants a partition to have these replicas from now on."""

    at_ms: int
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How bad network, API server and disks are while faults last; shares are per mille."""

    delay_min_ms: int = 1
    delay_max_ms: int = 1
    loss: int = 0
    duplicates: int = 0
    slow: int = 0
    slow_max_ms: int = 0
    api_delay_max_ms: int = 2
    api_loss: int = 0
    api_late_max_ms: int = 0
    watch_delay_max_ms: int = 3
    watch_duplicates: int = 0
    watch_in_order: bool = True
    state_write_max_ms: int = 3
    sync_max_ms: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The figures that core and controller are given; all ms."""

    lag_max_ms: int = 1_000
    fetch_wait_ms: int = 200
    fetch_timeout_ms: int = 1_000
    fetch_batches_max: int = 16
    isr_request_timeout_ms: int = 700
    isr_refusal_backoff_ms: int = 300
    checkpoint_ms: int = 500
    heartbeat_ms: int = 250
    session_timeout_ms: int = 900
    hosted_report_ms: int = 2_000
    lease_duration_ms: int = 2_000
    renew_deadline_ms: int = 1_300
    lease_retry_ms: int = 400
    api_timeout_ms: int = 400
    break_detected_ms: int = 300
    preferred_wait_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One schedule. Faults end at heal_at_ms; the cluster then has settle_max_ms to heal."""

    seed: int
    brokers: int
    assignments: tuple[tuple[int, ...], ...]
    min_insync_replicas: int
    heal_at_ms: int
    settle_max_ms: int = 30_000
    flushes: bool = False
    """Topics have `flush.messages` 1: a record counts once it is flushed; power cuts lose none."""
    full_followers_tell: bool = False
    """Whether a follower without room fetches without records (ADR 0050), or its fetches fail."""
    conditions: Conditions = Conditions()
    timing: Timing = Timing()
    faults: tuple[Fault, ...] = ()
    produces: tuple[Produce, ...] = ()
    consumes: tuple[Consume, ...] = ()
    deletes: tuple[Delete, ...] = ()
    moves: tuple[Move, ...] = ()

    @property
    def replication_factor(self) -> int:
        """The number of replicas of each partition."""
        return len(self.assignments[0])


def to_json(plan: Plan) -> str:
    """Return a plan as text that `from_json` reads."""
    return json.dumps(asdict(plan), indent=1)


_FORMER_NAMES = {"calm_ms": "heal_at_ms"}
"""Kept plans were written with these; they must stay replayable."""


def from_json(text: str) -> Plan:
    """Read a plan; a field that is not given has its default.

    Raises:  TypeError for an unknown field
    """
    found: dict[str, Any] = json.loads(text)
    for former, name in _FORMER_NAMES.items():
        if former in found:
            found[name] = found.pop(former)
    found["assignments"] = tuple(tuple(each) for each in found["assignments"])
    found["conditions"] = Conditions(**found.get("conditions", {}))
    found["timing"] = Timing(**found.get("timing", {}))
    found["faults"] = tuple(Fault(**each) for each in found.get("faults", ()))
    found["produces"] = tuple(Produce(**each) for each in found.get("produces", ()))
    found["consumes"] = tuple(Consume(**each) for each in found.get("consumes", ()))
    found["deletes"] = tuple(Delete(**each) for each in found.get("deletes", ()))
    moves = ({**each, "replicas": tuple(each["replicas"])} for each in found.get("moves", ()))
    found["moves"] = tuple(Move(**each) for each in moves)
    return Plan(**found)

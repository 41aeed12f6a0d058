"""Plans in which partitions move, and planted bugs of moves (ADR 0057).

As in `directed`, broker 0 hosts nothing and becomes the controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from strandline.controller import elections, moves, reassignment
from strandline.controller.effects import ControllerEffect
from strandline.controller.election_input import ElectionInput
from strandline.controller.moves import Moves
from strandline.core.controller_request_queue import ControllerRequestQueue
from strandline.errors import ErrorCode
from strandline.model import (
    BrokerId,
    PartitionEpoch,
    PartitionState,
    StoredPartition,
    TopicPartition,
)
from strandline_simulation.invariants import Invariant
from strandline_simulation.plan import Fault, Move, Plan, Produce, Timing, from_json
from strandline_simulation.store import SimulatedStore

from .mutants import Mutant

MOVED_AT_MS = 1_500
PLANS = Path(__file__).parent / "plans"


def _produces(*times_ms: int) -> tuple[Produce, ...]:
    return tuple(
        Produce(at_ms=at_ms, producer=0, partition=0, record_count=5, tries_for_ms=6_000)
        for at_ms in times_ms
    )


def _plan(*moves: Move, faults: Sequence[Fault] = ()) -> Plan:
    return Plan(
        seed=1,
        brokers=7,
        assignments=((1, 2, 3),),
        min_insync_replicas=2,
        heal_at_ms=6_000,
        timing=Timing(session_timeout_ms=900, fetch_wait_ms=200),
        faults=tuple(faults),
        produces=_produces(1_000, 1_505, 1_550, 2_500, 6_100),
        moves=moves,
    )


def _to(*replicas: int, at_ms: int = MOVED_AT_MS) -> Move:
    return Move(at_ms=at_ms, partition=0, replicas=replicas)


TO_OTHER_BROKERS = _plan(_to(4, 5, 6))
"""T28: no broker is in both sets of replicas."""


def with_controller_killed(after_ms: int) -> Plan:
    """Return T28 with the controller killed so long after the wish."""
    fault = Fault(at_ms=MOVED_AT_MS + after_ms, kind="crash", target="controller", for_ms=4_000)
    return replace(TO_OTHER_BROKERS, faults=(fault,))


def cancelled(after_ms: int) -> Plan:
    """Return T28 with the wish taken back so long after it."""
    return _plan(_to(4, 5, 6), _to(1, 2, 3, at_ms=MOVED_AT_MS + after_ms))


PARTLY_TO_OTHER_BROKERS = replace(_plan(_to(1, 4, 5)), min_insync_replicas=1)

LOST_AFTER_IT_MOVED = replace(
    _plan(
        _to(4, 5, 6),
        faults=[
            *(Fault(at_ms=2_800, kind="empty_trash", target=each) for each in "123"),
            # The partition's brokers are away when its object is made again, on those before, and
            # the next controller knows nothing of the move.
            *(Fault(at_ms=2_900, kind="crash", target=each, for_ms=7_000) for each in "456"),
            Fault(at_ms=2_950, kind="lose_partition", target="partition:0"),
            Fault(at_ms=2_950, kind="crash", target="0", for_ms=200),
        ],
    ),
    heal_at_ms=9_000,
    produces=_produces(1_000, 2_500, 7_500, 9_100),
)
"""A spec names brokers that have nothing, and nobody who has the records is there."""


def _in_sync_whoever_is_wanted(
    state: PartitionState, replicas: Sequence[BrokerId], inputs: ElectionInput
) -> frozenset[BrokerId]:
    """Take every wanted replica for one that is in sync."""
    del state, inputs
    return frozenset(replicas)


_STOP_REMOVED = Moves.stop_removed


def _stop_those_to_be_removed(self: Moves, stored: StoredPartition) -> list[ControllerEffect]:
    """Delete the logs of brokers that will be removed at the end of the move."""
    state = stored.state
    if state is None or not state.removing_replicas:
        return _STOP_REMOVED(self, stored)
    kept = tuple(each for each in state.replicas if each not in state.removing_replicas)
    return _STOP_REMOVED(self, replace(stored, state=replace(state, replicas=kept)))


_REMOVE = ControllerRequestQueue._remove


def _forget_where_it_was_removed(
    self: ControllerRequestQueue, tp: TopicPartition, removed_at: PartitionEpoch
) -> ErrorCode:
    """Remove a replica, and take any state of it afterwards."""
    error = _REMOVE(self, tp, removed_at)
    self._removed_at.pop(tp, None)
    return error


_PUT = SimulatedStore.put_partition_status


def _removed_in_one_leadership(
    self: SimulatedStore, name: str, resource_version: str, state: PartitionState
) -> StoredPartition | None:
    """Leave the leader epoch as it was where replicas are removed and the leader stays.

    The CRD's rule against that would hide it, so this leaves out both.
    """
    found, old = self.partitions[name], self.partitions[name].state
    stays = old is not None and state.leader == old.leader
    if not stays or old is None or set(old.replicas) <= set(state.replicas):
        return _PUT(self, name, resource_version, state)
    if found.resource_version != resource_version:
        return None
    kept = replace(state, leader_epoch=old.leader_epoch)
    stored = replace(found, resource_version=self._next_version(), state=kept)
    self.partitions[name] = stored
    return stored


FINISHED_TOO_EARLY = Mutant(
    "a move that finishes before its replicas are in sync",
    reassignment,
    "_in_sync",
    _in_sync_whoever_is_wanted,
    Invariant.MOVES_KEEP_THE_ISR,
)
STOPPED_BEFORE_THE_END = Mutant(
    "logs deleted before the last write of a move",
    moves.Moves,
    "stop_removed",
    _stop_those_to_be_removed,
    Invariant.DELETED_COUNTS_NOT,
)
SPEC_BROKERS_ASKED_ALONE = Mutant(
    "a lost partition begun anew without word of the brokers it moved to",
    elections,
    "asked_about_lost",
    lambda stored, brokers: [brokers.get(each) for each in stored.assigned],
    Invariant.ISR_IS_COMPLETE,
)

REVIVED_BY_A_LATE_STATE = Mutant(
    "a removed replica that a late state brings back",
    ControllerRequestQueue,
    "_remove",
    _forget_where_it_was_removed,
    Invariant.LEADER_IS_COMPLETE,
)
REMOVED_IN_ONE_LEADERSHIP = Mutant(
    "a replica removed without another leader epoch",
    SimulatedStore,
    "put_partition_status",
    _removed_in_one_leadership,
    Invariant.DELETED_COUNTS_NOT,
)

PLANTED_IN_MOVES = {
    "finished too early": (
        PARTLY_TO_OTHER_BROKERS,
        FINISHED_TOO_EARLY,
        Invariant.MOVES_KEEP_THE_ISR,
    ),
    "lost after it moved": (
        LOST_AFTER_IT_MOVED,
        SPEC_BROKERS_ASKED_ALONE,
        Invariant.ISR_IS_COMPLETE,
    ),
    "late state of a removed replica": (
        # Announcements wait for others since the plan was found: another seed has the late state.
        replace(from_json((PLANS / "late_state_of_a_removed_replica.json").read_text()), seed=4),
        REVIVED_BY_A_LATE_STATE,
        Invariant.LEADER_IS_COMPLETE,
    ),
    "removed and added again": (
        from_json((PLANS / "removed_and_added_again.json").read_text()),
        REMOVED_IN_ONE_LEADERSHIP,
        Invariant.DELETED_COUNTS_NOT,
    ),
}
"""The plan, the planted bug, and the invariant that it breaks, by name of the story."""

FOUND_IN_MOVES_BY_SEARCH = (FINISHED_TOO_EARLY, STOPPED_BEFORE_THE_END)

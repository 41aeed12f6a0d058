"""How many brokers a cluster has now, on the way to spec.replicas, and which replicas move.

    more:   new brokers start -> replicas move to them, as few as even numbers ask for
    fewer:  the highest broker gives its replicas away -> its pod goes -> the next highest

Each step follows from what is there, so an operator that was killed between two of them goes on. A
broker that a Partition names, in its spec or in its status, keeps its pod whatever spec.replicas
says. So does every broker while the state of a partition is not known: it may have the records.

Pure; called by `plan` (ADR 0059).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from strandline.model import STATE_LOST, BrokerId, StoredPartition

from . import kinds, resources
from .actions import MovePartition
from .balance import moves_to_new
from .conditions import Readiness, listed
from .observed import DesiredCluster, ObservedCluster
from .placement import Assigned, Replicas, Takers
from .racks import racks_of

MOVES_IN_A_PASS_MAX: Final = 100
"""Specs of Partitions that one pass writes; the next pass goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingStep:
    """What is to be done now.

    brokers is how many the cluster has; spread_over is over how many its replicas were spread last,
    0 before the first look; refusal says why spec.replicas is not followed.
    """

    brokers: int
    spread_over: int
    readiness: Readiness
    moves: tuple[MovePartition, ...] = ()
    refusal: Readiness | None = None


def scaling_step(desired: DesiredCluster, observed: ObservedCluster) -> ScalingStep:
    """Decide the next step; at the first look at a cluster it has the brokers of its spec."""
    wanted = desired.replicas
    message = f"the cluster has the {wanted} brokers of spec.replicas"
    done = Readiness(reason="ScalingDone", message=message)
    at_rest = ScalingStep(brokers=wanted, spread_over=wanted, readiness=done)
    if not observed.spread_over:
        return at_rest
    unknown = _unknown(observed.partitions) or observed.missing_partitions
    kept = max(wanted, _held(observed), _pods(desired, observed) if unknown else 0)
    if kept == wanted <= observed.spread_over:
        return at_rest
    step = replace(at_rest, brokers=kept, spread_over=observed.spread_over)
    if unknown:
        why = f"the state of these partitions is not known: {listed(unknown)}"
        return _under_way(step, reason="WaitingForPartitions", why=why)
    return _fewer(step, desired, observed) if kept > wanted else _more(step, desired, observed)


def _fewer(step: ScalingStep, desired: DesiredCluster, observed: ObservedCluster) -> ScalingStep:
    """Have the highest broker that holds anything give it away."""
    wanted = desired.replicas
    wide = [each.name for each in observed.partitions if len(each.assigned) > wanted]
    if wide:
        return _refused(
            step,
            f"spec.replicas is {wanted}, but these partitions have more replicas: {listed(wide)}; "
            "lower spec.replicationFactor of their topics, or set spec.replicas to "
            f"{step.brokers} again",
        )
    assigned = {_assigned(each): each for each in observed.partitions}
    away = BrokerId(step.brokers - 1)
    leaving = [each for each in assigned if away in each.replicas][:MOVES_IN_A_PASS_MAX]
    left = [each.name for each in observed.partitions if away in _named(each)]
    takers = Takers(
        assigned,
        away=away,
        brokers=[*_ids(wanted), away],
        fit=_fit(desired, observed),
        racks=racks_of(desired, observed).by_broker,
    )
    stuck = [assigned[each].name for each in leaving if not takers.options(each)]
    if stuck:
        return _refused(
            step,
            f"broker {away} cannot give its replicas of these partitions to another one, because "
            f"each has one already, is not registered or has a full volume: {listed(stuck)}",
        )
    moves = _moves(takers.choose(leaving), assigned)
    why = f"broker {away} goes when it has no replica any more; it has those of {listed(left)}"
    return replace(_under_way(step, reason="BrokerLeaves", why=why), moves=moves)


def _more(step: ScalingStep, desired: DesiredCluster, observed: ObservedCluster) -> ScalingStep:
    """Give replicas to new brokers once all brokers are there, and see them arrive."""
    wanted = desired.replicas
    absent = sorted(set(_ids(wanted)) - observed.registrations.keys())
    if absent or observed.ready_brokers < wanted:
        why = f"{observed.ready_brokers} of {wanted} brokers are ready"
        return _under_way(step, reason="BrokersStart", why=why)
    assigned = {_assigned(each): each for each in observed.partitions}
    chosen = moves_to_new(
        list(assigned),
        brokers=_ids(wanted),
        new=_ids(wanted)[observed.spread_over :],
        limit=MOVES_IN_A_PASS_MAX,
        racks=racks_of(desired, observed).by_broker,
    )
    moving = [each.name for each in observed.partitions if _named(each) != set(each.assigned)]
    if not chosen and not moving:
        return replace(step, spread_over=wanted)
    why = f"replicas move to the new brokers: {listed(moving or [])}"
    return replace(_under_way(step, reason="ReplicasMove", why=why), moves=_moves(chosen, assigned))


def _under_way(step: ScalingStep, *, reason: str, why: str) -> ScalingStep:
    return replace(step, readiness=Readiness(ready=True, reason=reason, message=why))


def _refused(step: ScalingStep, why: str) -> ScalingStep:
    refusal = Readiness(reason="ScalingRefused", message=why, refused=True)
    return replace(step, refusal=refusal, readiness=replace(refusal, ready=True))


def _held(observed: ObservedCluster) -> int:
    """Return how many brokers there must be for all that partitions name.

    A name that no broker ever had, written by hand, starts none.
    """
    named = {broker for each in observed.partitions for broker in _named(each)}
    return 1 + max(named & observed.registrations.keys(), default=-1)


def _named(partition: StoredPartition) -> set[BrokerId]:
    state = partition.state
    return {*partition.assigned, *(() if state is None else state.replicas)}


def _unknown(partitions: Collection[StoredPartition]) -> list[str]:
    """Return the partitions whose records any broker may have."""
    return [
        each.name for each in partitions if each.state is None or each.state.reason == STATE_LOST
    ]


def _pods(desired: DesiredCluster, observed: ObservedCluster) -> int:
    """Return how many pods the StatefulSet makes, 0 without one."""
    found = observed.parts.get((kinds.STATEFUL_SET.kind, desired.ref.name))
    return 0 if found is None else int(found[1].whole["spec"].get("replicas") or 0)


def _fit(desired: DesiredCluster, observed: ObservedCluster) -> list[BrokerId]:
    found = observed.registrations
    return [each for each in _ids(desired.replicas) if each in found and not found[each].is_full]


def _ids(brokers: int) -> list[BrokerId]:
    return [BrokerId(each) for each in range(brokers)]


def _assigned(stored: StoredPartition) -> Assigned:
    tp = stored.tp
    return Assigned(topic_id=tp.topic_id, partition=tp.partition, replicas=stored.assigned)


def _moves(
    chosen: Mapping[Assigned, Replicas], assigned: Mapping[Assigned, StoredPartition]
) -> tuple[MovePartition, ...]:
    return tuple(
        MovePartition(
            body=resources.moved_partition(assigned[each], replicas), former=each.replicas
        )
        for each, replicas in chosen.items()
    )

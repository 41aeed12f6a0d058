"""Plans in which the topic is deleted and comes back with its id, and planted bugs (ADR 0037).

As in `directed`, broker 0 hosts nothing and becomes the controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from strandline.controller.broker_entry import InSession
from strandline.controller.brokers import Brokers
from strandline.model import TopicPartition
from strandline_simulation.invariants import Invariant
from strandline_simulation.plan import Fault, Move, Plan, Produce, Timing

from .mutants import Mutant

DELETED_AT_MS = 1_500
PARTITIONS_LEFT_FOR_MS = 1_000


def back_after(for_ms: int, *, partitions_left_ms: int, faults: Iterable[Fault] = ()) -> Plan:
    """Return a plan whose topic is back so long after its deletion.

    Units:   partitions_left_ms: how long its former Partitions are there after that
    """
    lost = Fault(
        at_ms=DELETED_AT_MS,
        kind="lose_topic",
        target="topic",
        for_ms=for_ms,
        keep_per_mille=partitions_left_ms,
    )
    return Plan(
        seed=1,
        brokers=4,
        assignments=((1, 2, 3),),
        min_insync_replicas=2,
        heal_at_ms=6_000,
        timing=Timing(session_timeout_ms=900, fetch_wait_ms=200),
        faults=(lost, *faults),
        produces=tuple(
            Produce(at_ms=at_ms, producer=0, partition=0, record_count=5, tries_for_ms=9_000)
            for at_ms in (1_000, 1_400, 6_100)
        ),
    )


def with_controller_killed(after_ms: int) -> Plan:
    """Return a plan whose controller is killed so long after the topic was deleted."""
    killed = Fault(at_ms=DELETED_AT_MS + after_ms, kind="crash", target="controller", for_ms=3_000)
    return back_after(100, partitions_left_ms=PARTITIONS_LEFT_FOR_MS, faults=(killed,))


def with_replica_cut_off(for_ms: int) -> Plan:
    """Return a plan in which a replica hears of the deletion so much later."""
    cut = Fault(at_ms=DELETED_AT_MS - 5, kind="cut", target="0", for_ms=for_ms, peer=2)
    return back_after(100, partitions_left_ms=PARTITIONS_LEFT_FOR_MS, faults=(cut,))


def moved_before() -> Plan:
    """Return a plan whose topic had moved away from where its new Partitions are placed."""
    found = back_after(100, partitions_left_ms=0)
    moved = Move(at_ms=400, partition=0, replicas=(4, 5, 6))
    return replace(found, brokers=7, moves=(moved,))


def _forget_hosted_alone(
    self: Brokers, session: InSession, tps: Iterable[TopicPartition], _request_id: int
) -> None:
    """Take a log that goes to the trash for one that the broker never had."""
    gone = frozenset(tps)
    hosted = {tp: found for tp, found in session.hosted.items() if tp not in gone}
    self.entries[session.broker_id] = replace(session, hosted=hosted)


REMOVED_LOG_IS_FORGOTTEN = Mutant(
    "a log that was removed counts as one that never was",
    Brokers,
    "begin_stop",
    _forget_hosted_alone,
    Invariant.LEADER_IS_COMPLETE,
)
PLANTED_IN_TOPICS = {
    "a topic comes back before its Partitions are gone": (
        back_after(100, partitions_left_ms=PARTITIONS_LEFT_FOR_MS),
        REMOVED_LOG_IS_FORGOTTEN,
        Invariant.ISR_IS_COMPLETE,
    )
}
FOUND_IN_TOPICS_BY_SEARCH = (REMOVED_LOG_IS_FORGOTTEN,)

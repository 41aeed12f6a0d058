"""Draws a plan from a seed: sizes, rates, faults, and the requests of clients.

Every seed enables its own subset of faults and its own figures, so that no two seeds are bad
in the same way. Half of them are mild: rare faults leave room for long runs of events that
many faults would cut short.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from .nemesis import KINDS, drawn_kinds
from .plan import ANY_PEER, Conditions, Consume, Delete, Fault, Move, Plan, Produce, Timing

WARM_UP_MS = 700
REQUESTS_AFTER_HEALING_MS = 1_500


def draw_plan(seed: int) -> Plan:
    """Return the plan of a seed."""
    prng = Random(seed)
    brokers = prng.choice((3, 3, 4, 5))
    partitions = prng.choice((1, 1, 2, 3))
    min_isr = prng.choice((1, 2, 2))
    harsh = prng.random() < 0.6
    heal_at_ms = WARM_UP_MS + prng.randrange(3_500, 6_500)
    faults = _faults(prng, brokers, partitions, heal_at_ms, harsh=harsh)
    producers = prng.randrange(1, 4)
    plan = Plan(
        seed=seed,
        brokers=brokers,
        assignments=tuple(tuple(prng.sample(range(brokers), 3)) for _ in range(partitions)),
        min_insync_replicas=min_isr,
        heal_at_ms=heal_at_ms,
        conditions=_conditions(prng, harsh=harsh),
        timing=replace(
            _timing(prng),
            preferred_wait_ms=Random(f"preferred {seed}").choice((0, 0, 200, 1_000)),
        ),
        faults=faults,
        produces=_produces(prng, producers, partitions, heal_at_ms),
        consumes=_consumes(prng, partitions, heal_at_ms),
        deletes=_deletes(Random(f"deletes {seed}"), partitions, heal_at_ms),
        flushes=prng.random() < 0.2,
        moves=_moves(Random(f"moves {seed}"), brokers, partitions, heal_at_ms, min_isr),
        full_followers_tell=True,
    )
    # Drawn last, or apart: the rest of a plan is what it was before volumes could be full, and
    # fsyncs took time.
    sync_max_ms = Random(f"syncs {seed}").choice((5, 60, 500))
    plan = replace(
        plan,
        conditions=replace(plan.conditions, sync_max_ms=sync_max_ms),
        faults=plan.faults + _full_volumes(prng, brokers, heal_at_ms),
    )
    restless = Random(f"restless {seed}")
    if restless.random() < 0.15:
        return _with_restless_partitions(plan, restless)
    return replace(plan, faults=plan.faults + _lost_topics(Random(f"topics {seed}"), plan))


def _with_restless_partitions(plan: Plan, prng: Random) -> Plan:
    """Let partitions move all the time, lose their objects meanwhile, and commands come late.

    What is stored, what brokers accepted and what they have then differ more than anywhere else.
    """
    partitions, heal_at_ms = len(plan.assignments), plan.heal_at_ms
    moves = tuple(
        _move(prng, plan.brokers, prng.randrange(partitions), heal_at_ms, plan.min_insync_replicas)
        for _ in range(prng.choice((6, 12, 25)))
    )
    lost = tuple(
        Fault(
            at_ms=prng.randrange(WARM_UP_MS, heal_at_ms),
            kind="lose_partition",
            target=f"partition:{prng.randrange(partitions)}",
        )
        for _ in range(prng.choice((0, 1, 3)))
    )
    return replace(
        plan,
        moves=tuple(sorted(moves, key=lambda each: each.at_ms)),
        faults=plan.faults + lost,
        conditions=replace(
            plan.conditions,
            duplicates=prng.choice((30, 150)),
            slow=prng.choice((10, 60)),
            slow_max_ms=prng.choice((300, 2_000)),
        ),
    )


def _move(prng: Random, brokers: int, partition: int, heal_at_ms: int, min_isr: int) -> Move:
    """Draw a move; what fewer than min ISR replicas have alone, the guarantee covers no more."""
    size = min(brokers, max(min_isr, prng.choice((1, 2, 3, 3, 3, 4))))
    return Move(
        at_ms=prng.randrange(WARM_UP_MS, heal_at_ms),
        partition=partition,
        replicas=tuple(prng.sample(range(brokers), size)),
    )


def _moves(
    prng: Random, brokers: int, partitions: int, heal_at_ms: int, min_isr: int
) -> tuple[Move, ...]:
    """Draw from a generator of their own: a third of the seeds moves nothing.

    Moves come in pairs at times, so that the second meets the first under way.
    """
    moves: list[Move] = []
    for _ in range(prng.choice((0, 1, 2, 3, 5, 8))):
        first = _move(prng, brokers, prng.randrange(partitions), heal_at_ms, min_isr)
        moves.append(first)
        if prng.random() < 0.3:
            second = _move(prng, brokers, first.partition, heal_at_ms, min_isr)
            later_ms = prng.choice((30, 150, 600))
            moves.append(replace(second, at_ms=first.at_ms + later_ms))
    return tuple(sorted(moves, key=lambda each: each.at_ms)) if prng.random() < 0.8 else ()


def _full_volumes(prng: Random, brokers: int, heal_at_ms: int) -> tuple[Fault, ...]:
    """Fill one volume or all at once, in some of the plans."""
    if prng.random() < 0.6:
        return ()
    full = range(brokers) if prng.random() < 0.3 else (prng.randrange(brokers),)
    at_ms = prng.randrange(WARM_UP_MS, heal_at_ms)
    for_ms = prng.choice((200, 800, 2_500))
    return tuple(
        Fault(at_ms=at_ms, kind="volume_full", target=str(broker), for_ms=for_ms) for broker in full
    )


def _lost_topics(prng: Random, plan: Plan) -> tuple[Fault, ...]:
    """Delete the topic and bring it back, in some of the plans; a later one may find it gone.

    No command comes twice there: a StopReplica of a deleted topic has no partition epoch by which a
    broker could tell that a copy of an earlier state is older.
    """
    if plan.conditions.duplicates:
        return ()
    return tuple(
        Fault(
            at_ms=prng.randrange(WARM_UP_MS, plan.heal_at_ms),
            kind="lose_topic",
            target="topic",
            for_ms=prng.choice((10, 100, 400, 1_500)),
            keep_per_mille=prng.choice((0, 30, 300, 1_000)),
        )
        for _ in range(prng.choice((0, 0, 0, 0, 0, 0, 1, 2)))
    )


def _conditions(prng: Random, *, harsh: bool) -> Conditions:
    def some(*values: int) -> int:
        return prng.choice((0, *values))

    return Conditions(
        delay_max_ms=prng.choice((1, 3, 10)),
        loss=some(2, 10, 30) if harsh else some(1),
        duplicates=some(5, 30),
        slow=some(5, 20),
        slow_max_ms=prng.choice((50, 300, 2_000)),
        api_delay_max_ms=prng.choice((2, 5, 20)),
        api_loss=some(5, 30, 100) if harsh else some(5),
        api_late_max_ms=prng.choice((100, 2_000)),
        watch_delay_max_ms=prng.choice((3, 20, 400)),
        watch_duplicates=some(50),
        watch_in_order=prng.random() < 0.6,
        state_write_max_ms=prng.choice((2, 10, 60)),
    )


def _timing(prng: Random) -> Timing:
    lease_ms = prng.choice((1_000, 2_000, 3_000))
    return Timing(
        lag_max_ms=prng.choice((300, 700, 1_500)),
        fetch_wait_ms=prng.choice((100, 200, 400)),
        fetch_timeout_ms=prng.choice((500, 1_000)),
        fetch_batches_max=prng.choice((1, 4, 64)),
        isr_request_timeout_ms=prng.choice((200, 700)),
        isr_refusal_backoff_ms=prng.choice((50, 300)),
        checkpoint_ms=prng.choice((200, 1_000)),
        heartbeat_ms=200,
        session_timeout_ms=prng.choice((500, 900, 1_800)),
        lease_duration_ms=lease_ms,
        renew_deadline_ms=lease_ms * 2 // 3,
        lease_retry_ms=lease_ms // 5,
        api_timeout_ms=prng.choice((150, 400)),
        break_detected_ms=prng.choice((20, 200)),
    )


def _faults(
    prng: Random, brokers: int, partitions: int, heal_at_ms: int, *, harsh: bool
) -> tuple[Fault, ...]:
    kinds = [kind for kind in drawn_kinds() if prng.random() < 0.6] or ["crash"]
    weights = [KINDS[kind].weight for kind in kinds]
    count = prng.randrange(4, 11) if harsh else prng.randrange(1, 5)
    # One fault that ends a leadership, so that there is an election to survive.
    faults = [_fault(prng, prng.choice(_ENDS_LEADERSHIP), "leader:0", brokers, heal_at_ms * 2 // 3)]
    for _ in range(count):
        kind = prng.choices(kinds, weights)[0]
        target = prng.choice(
            (
                f"leader:{prng.randrange(partitions)}",
                f"follower:{prng.randrange(partitions)}",
                "controller",
                str(prng.randrange(brokers)),
            )
        )
        faults.append(_fault(prng, kind, target, brokers, heal_at_ms))
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


_ENDS_LEADERSHIP = ("crash", "crash", "stop", "power_loss")


def _fault(prng: Random, kind: str, target: str, brokers: int, latest_ms: int) -> Fault:
    long_ms = prng.choice((200, 800, 2_500))
    return Fault(
        at_ms=prng.randrange(WARM_UP_MS, max(latest_ms, WARM_UP_MS + 1)),
        kind=kind,
        target=target,
        for_ms=prng.randrange(20, long_ms),
        peer=prng.choice((ANY_PEER, *range(brokers))),
        keep_per_mille=prng.choice((0, 500, 900, 1_000)),
    )


def _produces(
    prng: Random, producers: int, partitions: int, heal_at_ms: int
) -> tuple[Produce, ...]:
    count = prng.randrange(25, 50)
    times = [prng.randrange(300, heal_at_ms) for _ in range(count)]
    times += [
        heal_at_ms + prng.randrange(REQUESTS_AFTER_HEALING_MS) for _ in range(4 + 4 * partitions)
    ]
    return tuple(
        Produce(
            at_ms=at_ms,
            producer=prng.randrange(producers),
            partition=number % partitions,
            record_count=prng.randrange(1, 5),
            tries_for_ms=prng.choice((700, 2_500)) if at_ms < heal_at_ms else 6_000,
        )
        for number, at_ms in enumerate(sorted(times))
    )


def _consumes(prng: Random, partitions: int, heal_at_ms: int) -> tuple[Consume, ...]:
    return tuple(
        Consume(
            at_ms=prng.randrange(600, heal_at_ms + REQUESTS_AFTER_HEALING_MS),
            consumer=prng.randrange(2),
            partition=prng.randrange(partitions),
            wait_ms=prng.choice((0, 0, 100, 400)),
            from_start=prng.random() < 0.3,
        )
        for _ in range(prng.randrange(4, 12))
    )


def _deletes(prng: Random, partitions: int, heal_at_ms: int) -> tuple[Delete, ...]:
    """Draw from a generator of their own: half of the seeds delete nothing."""
    return tuple(
        Delete(
            at_ms=prng.randrange(600, heal_at_ms + REQUESTS_AFTER_HEALING_MS),
            partition=prng.randrange(partitions),
            keep_count=prng.choice((0, 1, 5)),
        )
        for _ in range(prng.choice((0, 0, 2, 5)))
    )

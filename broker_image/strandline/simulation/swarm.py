"""Draws a plan from a seed: sizes, rates, faults, and the requests of clients.

Every seed enables its own subset of faults and its own figures, so that no two seeds are bad
in the same way. Half of them are mild: rare faults leave room for long runs of events that
many faults would cut short.
"""

from __future__ import annotations

from random import Random

from .plan import EVERYBODY, Conditions, Consume, Fault, FaultKind, Plan, Produce, Timing

WARM_UP_MS = 700
CALM_REQUESTS_MS = 1_500


def draw_plan(seed: int) -> Plan:
    """Return the plan of a seed."""
    chance = Random(seed)
    brokers = chance.choice((3, 3, 4, 5))
    partitions = chance.choice((1, 1, 2, 3))
    min_isr = chance.choice((1, 2, 2))
    hot = chance.random() < 0.6
    calm_ms = WARM_UP_MS + chance.randrange(3_500, 6_500)
    faults = _faults(chance, brokers, partitions, calm_ms, hot=hot)
    producers = chance.randrange(1, 4)
    return Plan(
        seed=seed,
        brokers=brokers,
        assignments=tuple(tuple(chance.sample(range(brokers), 3)) for _ in range(partitions)),
        min_insync_replicas=min_isr,
        calm_ms=calm_ms,
        conditions=_conditions(chance, hot=hot),
        timing=_timing(chance),
        faults=faults,
        produces=_produces(chance, producers, partitions, calm_ms),
        consumes=_consumes(chance, partitions, calm_ms),
    )


def _conditions(chance: Random, *, hot: bool) -> Conditions:
    def some(*values: int) -> int:
        return chance.choice((0, *values))

    return Conditions(
        delay_max_ms=chance.choice((1, 3, 10)),
        loss=some(2, 10, 30) if hot else some(1),
        duplicates=some(5, 30),
        slow=some(5, 20),
        slow_max_ms=chance.choice((50, 300, 2_000)),
        api_delay_max_ms=chance.choice((2, 5, 20)),
        api_loss=some(5, 30, 100) if hot else some(5),
        api_late_max_ms=chance.choice((100, 2_000)),
        watch_delay_max_ms=chance.choice((3, 20, 400)),
        watch_duplicates=some(50),
        watch_in_order=chance.random() < 0.6,
        state_write_max_ms=chance.choice((2, 10, 60)),
    )


def _timing(chance: Random) -> Timing:
    lease_ms = chance.choice((1_000, 2_000, 3_000))
    return Timing(
        lag_max_ms=chance.choice((300, 700, 1_500)),
        fetch_wait_ms=chance.choice((100, 200, 400)),
        fetch_timeout_ms=chance.choice((500, 1_000)),
        fetch_batches_max=chance.choice((1, 4, 64)),
        isr_request_timeout_ms=chance.choice((200, 700)),
        isr_refusal_backoff_ms=chance.choice((50, 300)),
        checkpoint_ms=chance.choice((200, 1_000)),
        heartbeat_ms=200,
        session_timeout_ms=chance.choice((500, 900, 1_800)),
        lease_duration_ms=lease_ms,
        renew_deadline_ms=lease_ms * 2 // 3,
        lease_retry_ms=lease_ms // 5,
        api_timeout_ms=chance.choice((150, 400)),
        break_detected_ms=chance.choice((20, 200)),
    )


def _faults(
    chance: Random, brokers: int, partitions: int, calm_ms: int, *, hot: bool
) -> tuple[Fault, ...]:
    kinds = [kind for kind in FaultKind if chance.random() < 0.6] or [FaultKind.CRASH]
    weights = [_WEIGHTS.get(kind, 1) for kind in kinds]
    count = chance.randrange(4, 11) if hot else chance.randrange(1, 5)
    # One fault that ends a leadership, so that there is an election to survive.
    faults = [_fault(chance, chance.choice(_ENDING), "leader:0", brokers, calm_ms * 2 // 3)]
    for _ in range(count):
        kind = chance.choices(kinds, weights)[0]
        target = chance.choice(
            (
                f"leader:{chance.randrange(partitions)}",
                f"follower:{chance.randrange(partitions)}",
                "controller",
                str(chance.randrange(brokers)),
            )
        )
        faults.append(_fault(chance, kind, target, brokers, calm_ms))
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


_ENDING = (FaultKind.CRASH, FaultKind.CRASH, FaultKind.STOP, FaultKind.POWER_LOSS)
_WEIGHTS = {FaultKind.CRASH: 4, FaultKind.POWER_LOSS: 3, FaultKind.CUT: 3, FaultKind.PAUSE: 2}


def _fault(chance: Random, kind: FaultKind, target: str, brokers: int, latest_ms: int) -> Fault:
    long_ms = chance.choice((200, 800, 2_500))
    return Fault(
        at_ms=chance.randrange(WARM_UP_MS, max(latest_ms, WARM_UP_MS + 1)),
        kind=kind,
        target=target,
        for_ms=chance.randrange(20, long_ms),
        peer=chance.choice((EVERYBODY, *range(brokers))),
        keep_per_mille=chance.choice((0, 500, 900, 1_000)),
    )


def _produces(chance: Random, producers: int, partitions: int, calm_ms: int) -> tuple[Produce, ...]:
    count = chance.randrange(25, 50)
    times = [chance.randrange(300, calm_ms) for _ in range(count)]
    times += [calm_ms + chance.randrange(CALM_REQUESTS_MS) for _ in range(4 + 4 * partitions)]
    return tuple(
        Produce(
            at_ms=at_ms,
            producer=chance.randrange(producers),
            partition=number % partitions,
            record_count=chance.randrange(1, 5),
            tries_for_ms=chance.choice((700, 2_500)) if at_ms < calm_ms else 6_000,
        )
        for number, at_ms in enumerate(sorted(times))
    )


def _consumes(chance: Random, partitions: int, calm_ms: int) -> tuple[Consume, ...]:
    return tuple(
        Consume(
            at_ms=chance.randrange(600, calm_ms + CALM_REQUESTS_MS),
            consumer=chance.randrange(2),
            partition=chance.randrange(partitions),
            wait_ms=chance.choice((0, 0, 100, 400)),
            from_start=chance.random() < 0.3,
        )
        for _ in range(chance.randrange(4, 12))
    )

"""Directed plans: stories with exact times, which random search finds rarely.

Broker 0 hosts nothing and becomes the controller, because its rank is the lowest; A, B and C
are brokers 1, 2 and 3. The network loses and delays nothing unless a plan says so.
"""

from __future__ import annotations

from dataclasses import replace

from strandline_simulation.plan import Conditions, Fault, Plan, Produce, Timing

LONG_MS = 10_000


def _produce(at_ms: int) -> Produce:
    return Produce(at_ms=at_ms, producer=0, partition=0, record_count=5)


def _plan(
    *faults: Fault, produces: tuple[Produce, ...], watch_delay_max_ms: int = 3, seed: int = 1
) -> Plan:
    return Plan(
        seed=seed,
        brokers=4,
        assignments=((1, 2, 3),),
        min_insync_replicas=2,
        heal_at_ms=4_000,
        conditions=Conditions(watch_delay_max_ms=watch_delay_max_ms),
        timing=Timing(session_timeout_ms=1_800, fetch_wait_ms=400),
        faults=faults,
        produces=produces,
    )


JOIN_BELOW_EPOCH_START = _plan(
    # C dies with five records; the next five are committed by A and B alone.
    Fault(at_ms=1_300, kind="crash", target="3", for_ms=700),
    # A dies before it has sent B the high watermark of these records.
    Fault(at_ms=1_960, kind="crash", target="1", for_ms=LONG_MS),
    # C comes back and fetches from B, but gets no response: it stays at the inherited high
    # watermark.
    Fault(at_ms=1_990, kind="cut", target="2", peer=3, for_ms=1_000),
    produces=(_produce(1_000), _produce(1_950), _produce(4_100)),
)
"""KAFKA-7128: a follower joins only from the epoch start on, not from an old high watermark."""

LEADERSHIP_OF_AN_EARLIER_SELF = _plan(
    # A leads; it loses its disk, and is back before its session has expired.
    Fault(at_ms=1_500, kind="wipe", target="1", for_ms=50),
    produces=(_produce(1_000), _produce(1_700), _produce(4_100)),
    watch_delay_max_ms=400,
)
"""A process does not take a leadership that the controller gave an earlier one (ADR 0002)."""

ELECTED_WHILE_LOSING_DATA = _plan(
    Fault(at_ms=1_300, kind="crash", target="3", for_ms=LONG_MS),
    # B loses power, and with it records that A and B committed; then A dies. A controller
    # that takes B's new process for the earlier one elects B.
    Fault(at_ms=2_000, kind="power_loss", target="2", for_ms=400, keep_per_mille=0),
    Fault(at_ms=2_005, kind="crash", target="1", for_ms=LONG_MS),
    produces=(_produce(1_000), _produce(1_900)),
    watch_delay_max_ms=400,
)
"""The only live member of the ISR lacks committed records: the partition goes offline."""

CLEAN_RESTART_OF_ALL_BROKERS = _plan(
    *(
        Fault(at_ms=1_500, kind="crash", target=str(broker), for_ms=100 + 50 * broker)
        for broker in range(4)
    ),
    produces=(_produce(1_000), _produce(1_600), _produce(4_100)),
)
"""Every ISR entry has an older broker epoch, but no broker lost data: all partitions go on."""

WIPED_FOLLOWER = _plan(
    Fault(at_ms=1_500, kind="wipe", target="2", for_ms=30),
    Fault(at_ms=1_505, kind="pause", target="controller", for_ms=1_500),
    produces=(_produce(1_000), _produce(1_520), _produce(1_800), _produce(4_100)),
)
"""A leader does not count a follower with an empty disk under the ISR entry of its old process."""

LATE_WRITE_OF_A_RESIGNED_CONTROLLER = _plan(
    # C leaves the ISR and comes back.
    Fault(at_ms=1_300, kind="cut", target="3", peer=1, for_ms=1_200),
    # The controller's write that adds C arrives very late, and no later call of it arrives: its
    # Lease runs out, it refuses the requests that were open, and then the write is applied.
    Fault(at_ms=2_450, kind="api_slow", target="0", for_ms=1_290),
    Fault(at_ms=2_950, kind="api_cut", target="0", for_ms=1_500),
    produces=(_produce(1_000), _produce(1_400), _produce(4_500)),
)
"""A resigning controller does not know its write's outcome: A counts C all the same (KIP-497)."""

LEADER_CUT_FROM_THE_API = replace(
    _plan(
        # A leads and does not reach the API server; then the controller changes, and C dies.
        Fault(at_ms=1_500, kind="api_cut", target="1", for_ms=LONG_MS),
        Fault(at_ms=1_600, kind="crash", target="0", for_ms=LONG_MS),
        Fault(at_ms=4_500, kind="crash", target="3", for_ms=LONG_MS),
        produces=(_produce(1_000), _produce(5_600), _produce(6_500)),
    ),
    heal_at_ms=9_300,
    timing=Timing(session_timeout_ms=900, fetch_wait_ms=400),
)
"""A learns of the new controller from its probe, so C leaves the ISR while A is cut off."""

DEPOSED_WITHOUT_KNOWING = replace(
    _plan(
        # A is cut off from all other brokers, goes on as leader, and appends a batch.
        *(
            Fault(at_ms=1_500, kind="cut", target=str(source), peer=peer, for_ms=4_500)
            for other in (0, 2, 3)
            for source, peer in ((1, other), (other, 1))
        ),
        produces=(_produce(1_000), _produce(1_600), _produce(2_900)),
    ),
    min_insync_replicas=1,
    heal_at_ms=7_000,
    timing=Timing(session_timeout_ms=900, fetch_wait_ms=400, lag_max_ms=3_000),
)
"""Two leaders at a time: the deposed one commits nothing, however long it waits (KIP-497)."""

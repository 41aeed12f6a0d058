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
"""The only live member of the ISR lacks committed records: the partition waits for A."""

LAST_REPLICA_LOSES_POWER = _plan(
    # C leaves first; the next five records are committed by A and B alone.
    Fault(at_ms=1_200, kind="crash", target="3", for_ms=1_400),
    # B leaves: A is the whole ISR, and B is eligible.
    Fault(at_ms=1_700, kind="crash", target="2", for_ms=1_900),
    # A loses what it has; then C is back, and B at last.
    Fault(at_ms=2_100, kind="power_loss", target="1", for_ms=300, keep_per_mille=0),
    produces=(_produce(1_000), _produce(1_500), _produce(4_100)),
)
"""KIP-966: neither A, which lost its log, nor C, which left at min ISR, leads before B is back."""

ELIGIBLE_LEADER_LOSES_POWER = replace(
    _plan(
        Fault(at_ms=1_200, kind="crash", target="3", for_ms=LONG_MS),
        # B leaves, comes back cleanly, and can not join again: it is eligible.
        Fault(at_ms=1_650, kind="cut", target="2", peer=1, for_ms=LONG_MS),
        Fault(at_ms=1_700, kind="crash", target="2", for_ms=200),
        # B loses what made it eligible, and is known to be dead when A dies, too.
        Fault(at_ms=2_300, kind="power_loss", target="2", for_ms=2_700, keep_per_mille=0),
        Fault(at_ms=4_000, kind="crash", target="1", for_ms=1_500),
        produces=(_produce(1_000), _produce(1_500), _produce(6_100)),
    ),
    heal_at_ms=6_000,
    timing=Timing(session_timeout_ms=500, fetch_wait_ms=400),
)
"""An eligible leader whose log lost records does not lead: the partition waits for A."""

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

POWER_LOSS_OF_ALL_BROKERS = replace(
    _plan(
        *(
            Fault(at_ms=1_500, kind="power_loss", target=str(broker), for_ms=300, keep_per_mille=0)
            for broker in range(4)
        ),
        produces=(_produce(1_000), _produce(1_200), _produce(4_100)),
    ),
    flushes=True,
)
"""Every append was flushed before it counted: a reboot of all machines loses nothing."""

LOST_WITHOUT_A_CHECKPOINT = replace(
    ELECTED_WHILE_LOSING_DATA,
    timing=replace(ELECTED_WHILE_LOSING_DATA.timing, checkpoint_ms=LONG_MS),
)
"""No high watermark on disk tells what the log once held: the boot id alone speaks of the loss."""

STARTS_KILLED_BEHIND_AN_ORDERLY_STOP = replace(
    _plan(
        *(
            Fault(at_ms=1_500, kind="stop", target=str(broker), for_ms=1_400)
            for broker in (1, 2, 3)
        ),
        # The starts cannot read their registrations, and are killed while they wait.
        Fault(at_ms=2_850, kind="api_outage", for_ms=2_150),
        *(Fault(at_ms=4_500, kind="crash", target=str(broker), for_ms=100) for broker in (1, 2, 3)),
        produces=(_produce(1_000), _produce(6_100)),
    ),
    heal_at_ms=6_000,
)
"""A start that dies before it is registered leaves the clean-shutdown marker to the next one."""

KILLED_BEFORE_THE_NEXT_CHECKPOINT = replace(
    _plan(
        # C loses power, and with it records below the high watermark that is on its disk.
        Fault(at_ms=2_100, kind="power_loss", target="3", for_ms=100, keep_per_mille=0),
        # It cannot fetch them from B, but it joins the ISR of the other partition, and leads it.
        Fault(at_ms=2_000, kind="cut", target="2", peer=3, for_ms=1_900),
        Fault(at_ms=2_000, kind="cut", target="3", peer=2, for_ms=1_900),
        Fault(at_ms=2_900, kind="crash", target="1", for_ms=LONG_MS),
        # It is killed before its next checkpoint.
        Fault(at_ms=3_050, kind="crash", target="3", for_ms=50),
        produces=(
            _produce(1_000),
            replace(_produce(1_000), partition=1),
            _produce(4_100),
            replace(_produce(4_100), partition=1),
        ),
    ),
    assignments=((2, 3), (1, 3)),
    timing=Timing(session_timeout_ms=600, fetch_wait_ms=100, checkpoint_ms=1_000),
)
"""What a start found lost is counted once: the next start voids no entry of the meantime."""

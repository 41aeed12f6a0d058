"""How followers fetch, how leaders ask for ISR changes, and how the controller works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .declaration import INT64_MAX, Applies, integer

_MINUTE_MS = 60_000

FETCH_BACKOFF_MIN_MS: Final = 20
"""First pause after a refused or broken fetch; it doubles up to replica.fetch.backoff.ms. Shorter
than Kafka's constant one: after an election a follower often fetches before its leader knows."""

FETCH_PARTITIONS_MAX: Final = 20_000
"""Partitions one fetch may name; with more, fetches take turns and do not wait."""

ISR_REQUEST_BACKOFF_MS: Final = 50
"""Pause before a proposal is sent again after a response that settled nothing."""

CONTROLLER_REQUESTS_WAITING_MAX: Final = 10_000
"""Requests of the controller that may wait for the state file; beyond it they are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """Bounds and back-offs of replication between brokers."""

    fetch_max_bytes: int = integer("replica.fetch.max.bytes", 2 << 20, (1024, 1 << 30))
    """Bytes of one partition in one follower fetch. A larger batch travels alone. Kafka's
    key; 2 MiB instead of 1 MiB (ADR 0073)."""

    fetch_response_max_bytes: int = integer(
        "replica.fetch.response.max.bytes", 4 << 20, (1024, 1 << 30)
    )
    """Bytes of one whole fetch answer. Kafka's key; 4 MiB instead of 10 MiB: a step of the event
    loop reads or appends all of it, and larger ones bring no throughput (ADR 0073)."""

    fetch_wait_max_ms: int = integer("replica.fetch.wait.max.ms", 500, (0, _MINUTE_MS))
    """Time a leader may hold a fetch that finds no records. Must be below
    replica.lag.time.max.ms. Kafka's key and default."""

    fetch_backoff_ms: int = integer("replica.fetch.backoff.ms", 1_000, (1, 600_000))
    """Longest pause before a follower fetches a refused partition again. Kafka's key, default."""

    fetch_timeout_ms: int = integer("replica.socket.timeout.ms", 30_000, (100, 600_000))
    """A fetch without an answer for this long has failed; must exceed
    replica.fetch.wait.max.ms. Kafka's key and default."""

    copy_rate_max: int = integer(
        "leader.replication.throttled.rate",
        32 << 20,
        (64 << 10, INT64_MAX),
        since=4,
        applies=Applies.RUNNING,
    )
    """Bytes per second that a broker sends to replicas that are being added, over all partitions it
    leads; members of the ISR and followers that catch up are never slowed. Above what clients write
    to these partitions, or the copies never end. Kafka's key; 32 MiB instead of no bound, so that
    a move does not take a network of 1 Gbit/s from the clients."""

    copy_intake_max: int = integer(
        "follower.replication.throttled.rate",
        64 << 20,
        (64 << 10, INT64_MAX),
        since=5,
        applies=Applies.RUNNING,
    )
    """Bytes per second that a broker receives for replicas that are being added to it, from all
    leaders together; what it has in sync, and what it catches up with, is never slowed. Kafka's
    key; 64 MiB, what two leaders send, instead of no bound: a new broker in a large cluster would
    otherwise get that of every leader."""

    isr_refusal_backoff_ms: int = integer("isr.refusal.backoff.ms", 1_000, (1, 600_000))
    """Pause before a leader repeats an ISR change of a broker that the controller refused."""

    isr_request_timeout_ms: int = integer("isr.request.timeout.ms", 5_000, (100, 600_000))
    """An AlterPartition without an answer for this long is sent again, unchanged."""

    isr_propagation_period_ms: int = integer("isr.propagation.period.ms", 2_500, (10, 600_000))
    """Interval at which the controller sends metadata that changed in the ISR alone. Kafka's
    constant IsrChangePropagationInterval."""

    isr_propagation_quiet_ms: int = integer("isr.propagation.quiet.ms", 5_000, (0, 600_000))
    """Such metadata waits until the ISR has not changed for this long. Kafka: lastChange + 5 s."""

    isr_propagation_delay_max_ms: int = integer(
        "isr.propagation.delay.max.ms", 60_000, (10, 3_600_000)
    )
    """Longest time that such metadata waits. Kafka's constant of 60 s."""

    partition_audit_interval_ms: int = integer(
        "partition.audit.interval.ms", 30_000, (100, 3_600_000)
    )
    """Interval at which a broker compares its partitions with the controller's view."""

    purgatory_requests_max: int = integer("purgatory.requests.max", 100_000, (100, 10_000_000))
    """Requests that may wait at once; beyond it new ones are answered without waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """Bounds of the controller's work, of probes, and of a broker's session with it."""

    probe_attempts: int = integer("controller.probe.attempts", 3, (1, 100))
    """Refused connections in a row that prove a broker dead."""

    probe_interval_ms: int = integer("controller.probe.interval.ms", 30, (1, 10_000))
    """Pause between failed probes: a process may need a moment to listen, or to end."""

    probe_timeout_ms: int = integer("controller.probe.timeout.ms", 500, (10, 60_000))
    """Deadline of one probe. A stopped process accepts connections but answers nothing."""

    session_retry_ms: int = integer("controller.session.retry.ms", 50, (1, 60_000))
    """First pause before a broker dials the controller again; doubles."""

    session_retry_max_ms: int = integer("controller.session.retry.max.ms", 1_000, (1, 600_000))
    """Largest pause before a broker dials the controller again."""

    status_writes_max: int = integer("controller.status.writes.max", 32, (1, 1_000))
    """Partition status writes under way at once: enough to hide round trips, few enough that the
    API server does not throttle them."""

    write_backoff_ms: int = integer("controller.write.backoff.ms", 50, (1, 60_000))
    """First pause after a failed status write; doubles up to controller.write.backoff.max.ms."""

    write_backoff_max_ms: int = integer("controller.write.backoff.max.ms", 2_000, (1, 600_000))
    """Largest pause between tries of a status write."""

    leader_imbalance_check_seconds: int = integer(
        "leader.imbalance.check.interval.seconds", 300, (0, 86_400), since=3
    )
    """A preferred leader leads again after it was in sync and in session for so long; 0: only when
    a person asks. Kafka's key and default; Kafka looks at all partitions at this interval."""

    shutdown_timeout_ms: int = integer("controlled.shutdown.timeout.ms", 20_000, (100, 600_000))
    """Longest time a stopping broker waits for its leaderships to move."""

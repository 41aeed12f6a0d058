"""Times and bounds of the controller; callers pass every value in.

A value of a setting has no default here: `component_settings` takes it from the configuration. A
default is a bound that no setting changes. Units are ms and counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.backoff import Backoff
from strandline.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """How a holder renews a Lease and candidates judge it: retry < renew deadline < duration."""

    lease_duration_ms: int
    """A candidate may take a Lease unchanged for so long; written as whole seconds."""
    renew_deadline_ms: int
    """Without a confirmed renewal for so long the holder stops acting."""
    retry_period_ms: int
    """Distance of renewals, and of reads after a failed one."""
    probe_deadline_ms: int
    """A candidate probes a silent holder so long before its Lease runs out."""
    rank_delay_ms: int = 50
    """A candidate waits rank times this after the Lease became free, against a stampede."""

    def __post_init__(self) -> None:
        ordered = 0 < self.retry_period_ms < self.renew_deadline_ms < self.lease_duration_ms
        if not ordered or self.rank_delay_ms < 0:
            raise ConfigError(
                "lease timing: accepted is 0 < retry_period_ms < renew_deadline_ms"
                f" < lease_duration_ms and rank_delay_ms >= 0, found {self}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerTiming:
    """The controller's waits and bounds."""

    lease: LeaseTiming
    session_timeout_ms: int
    """Silence after which a broker is probed and, if the probe fails, dead."""
    probe_interval_ms: int
    """Distance of the probes after a broken session."""
    probe_deadline_ms: int
    """How long one probe may take."""
    refused_probes_dead: int
    """So many refused probes in a row prove death."""
    new_partition_wait_ms: int = 2_000
    """A new partition waits so long for all assigned brokers, so that leaders are spread."""
    topic_commit_wait_ms: int = 10_000
    """A new partition waits so long until its topic counts, so that its logs go with it."""
    new_topic_wait_ms: int = 5_000
    """Clients hear of new partitions once all of the topic have a state, or after so long."""
    metadata_period_ms: int
    """How often the controller looks at ISR-only changes (Kafka's isr-change-propagation)."""
    metadata_quiet_ms: int
    """The controller sends ISR-only changes when none was added for so long,"""
    metadata_delay_max_ms: int
    """or when it sent the last ones so long ago."""
    shutdown_response_ms: int = 1_000
    """The controller responds to a controlled shutdown after so long; the broker asks again."""
    retry: Backoff
    """Pauses after failed store calls."""
    store_calls_in_flight_max: int
    """Partitions read or written at the same time."""
    announcement_wait_ms: int = 10
    """A changed partition waits at most so long for the answers of store calls that are out."""
    command_partitions_max: int = 500
    """Partitions in one LeaderAndIsr or UpdateMetadata."""
    new_partitions_unconfirmed_max: int = 30_000
    """New partitions, counted once for each replica, whose first response the controller awaits."""
    confirmed_deletions_max: int = 10_000
    """Deleted topics whose late watch events the controller recognises."""
    preferred_leader_wait_ms: int
    """A preferred leader leads again after it could do so for this long; 0: when asked alone."""
    moves_at_once_max: int = 8
    """Partitions that copy their records to added replicas at the same time (ADR 0057)."""
    strays_period_ms: int = 5_000
    """The controller tells of changed strays at most so often: one write for many changes."""
    deleted_topics_max: int = 500
    """Deleted topics in `BrokerCluster.status`, about 150 bytes each; the oldest go first."""
    strays_max: int = 100
    """Strays in `BrokerCluster.status`; those on disk and those deleted last come first."""
    stray_partitions_max: int = 5_000
    """Partitions of all these strays together, about 50 bytes each."""
    applied_configs_period_ms: int = 500
    """The controller tells who applied a topic's settings so long after the first of them did."""
    applied_configs_at_once_max: int = 20
    """Topics that it tells of in one period."""
    applied_configs_retry_ms: int = 10_000
    """It tells again what a topic's status does not show after so long."""
    unanswered_commands_max: int = 1_000
    """LeaderAndIsr and full states of one broker whose responses the controller awaits."""

"""What each pure machine decides with, taken from the configuration: the only way to its defaults.

`runtime`, the simulator and tests use it; the last two replace the values that they vary.
"""

from __future__ import annotations

from strandline.backoff import Backoff
from strandline.config.replication import (
    CONTROLLER_REQUESTS_WAITING_MAX,
    FETCH_BACKOFF_MIN_MS,
    FETCH_PARTITIONS_MAX,
    ISR_REQUEST_BACKOFF_MS,
    ControllerConfig,
    ReplicationConfig,
)
from strandline.config.timing import TimingConfig
from strandline.controller.timing import ControllerTiming, LeaseTiming
from strandline.controller_session.timing import ControllerSessionTiming
from strandline.core.settings import CoreSettings


def core(timing: TimingConfig, replication: ReplicationConfig) -> CoreSettings:
    """Return the figures the replication core decides with."""
    return CoreSettings(
        replica_lag_time_max_ms=timing.replica_lag_time_max_ms,
        fetch_wait_max_ms=replication.fetch_wait_max_ms,
        fetch_backoff_min_ms=FETCH_BACKOFF_MIN_MS,
        fetch_backoff_ms=replication.fetch_backoff_ms,
        fetch_timeout_ms=replication.fetch_timeout_ms,
        fetch_partitions_max=FETCH_PARTITIONS_MAX,
        high_watermark_checkpoint_interval_ms=timing.high_watermark_checkpoint_interval_ms,
        isr_refusal_backoff_ms=replication.isr_refusal_backoff_ms,
        isr_request_timeout_ms=replication.isr_request_timeout_ms,
        isr_request_backoff_ms=ISR_REQUEST_BACKOFF_MS,
        purgatory_requests_max=replication.purgatory_requests_max,
        controller_requests_waiting_max=CONTROLLER_REQUESTS_WAITING_MAX,
        copy_intake_max=replication.copy_intake_max,
    )


def controller(
    timing: TimingConfig, bounds: ControllerConfig, replication: ReplicationConfig
) -> ControllerTiming:
    """Return the times and bounds of the controller."""
    return ControllerTiming(
        lease=LeaseTiming(
            lease_duration_ms=timing.controller_lease_duration_seconds * 1000,
            renew_deadline_ms=timing.controller_lease_renew_deadline_ms,
            retry_period_ms=timing.controller_lease_retry_ms,
            probe_deadline_ms=bounds.probe_timeout_ms,
        ),
        session_timeout_ms=timing.broker_session_timeout_ms,
        probe_interval_ms=bounds.probe_interval_ms,
        probe_deadline_ms=bounds.probe_timeout_ms,
        refused_probes_dead=bounds.probe_attempts,
        metadata_period_ms=replication.isr_propagation_period_ms,
        metadata_quiet_ms=replication.isr_propagation_quiet_ms,
        metadata_delay_max_ms=replication.isr_propagation_delay_max_ms,
        retry=Backoff(first_ms=bounds.write_backoff_ms, max_ms=bounds.write_backoff_max_ms),
        store_calls_in_flight_max=bounds.status_writes_max,
        preferred_leader_wait_ms=bounds.leader_imbalance_check_seconds * 1000,
    )


def controller_session(
    timing: TimingConfig, bounds: ControllerConfig, replication: ReplicationConfig
) -> ControllerSessionTiming:
    """Return the times of the session with the controller."""
    return ControllerSessionTiming(
        heartbeat_interval_ms=timing.broker_heartbeat_interval_ms,
        redial_ms=bounds.session_retry_ms,
        redial_max_ms=bounds.session_retry_max_ms,
        hosted_report_interval_ms=replication.partition_audit_interval_ms,
        probe_interval_ms=bounds.probe_interval_ms,
        probe_deadline_ms=bounds.probe_timeout_ms,
        refused_probes_dead=bounds.probe_attempts,
    )

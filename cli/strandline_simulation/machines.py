"""Makes the three machines of a process: the configuration's figures, with the plan's times."""

from __future__ import annotations

from dataclasses import replace

from strandline import component_settings
from strandline.config.replication import ControllerConfig, ReplicationConfig
from strandline.config.timing import TimingConfig
from strandline.controller.controller import Controller
from strandline.controller.timing import LeaseTiming
from strandline.controller_session.controller_session import ControllerSession
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.replicas import Replicas
from strandline.model import HolderIdentity, Registration

from .disk import SimulatedDisk
from .plan import Timing


def new_replicas(timing: Timing, registration: Registration, disk: SimulatedDisk) -> Replicas:
    """Return the core of a process, without the replicas on its disk."""
    settings = replace(
        component_settings.core(TimingConfig(), ReplicationConfig()),
        replica_lag_time_max_ms=timing.lag_max_ms,
        fetch_wait_max_ms=timing.fetch_wait_ms,
        fetch_timeout_ms=timing.fetch_timeout_ms,
        high_watermark_checkpoint_interval_ms=timing.checkpoint_ms,
        isr_refusal_backoff_ms=timing.isr_refusal_backoff_ms,
        isr_request_timeout_ms=timing.isr_request_timeout_ms,
    )
    return Replicas(
        registration.broker_id,
        registration.broker_epoch,
        registration.clean_since_epoch,
        settings,
        controller_epoch=disk.controller_epoch,
    )


def new_controller(timing: Timing, registration: Registration) -> Controller:
    """Return the controller of a process, a candidate."""
    shipped = component_settings.controller(TimingConfig(), ControllerConfig(), ReplicationConfig())
    probe_deadline_ms = min(shipped.probe_deadline_ms, timing.session_timeout_ms)
    lease = LeaseTiming(
        lease_duration_ms=timing.lease_duration_ms,
        renew_deadline_ms=timing.renew_deadline_ms,
        retry_period_ms=timing.lease_retry_ms,
        probe_deadline_ms=probe_deadline_ms,
    )
    broker_id, incarnation = registration.broker_id, registration.incarnation
    return Controller(
        broker_id=broker_id,
        identity=str(HolderIdentity(broker_id=broker_id, incarnation=incarnation)),
        rank=broker_id,
        timing=replace(
            shipped,
            lease=lease,
            session_timeout_ms=timing.session_timeout_ms,
            probe_deadline_ms=probe_deadline_ms,
            new_partition_wait_ms=500,
            preferred_leader_wait_ms=timing.preferred_wait_ms,
        ),
    )


def new_session(
    timing: Timing,
    registration: Registration,
    replicas: Replicas,
    metadata: MetadataCache,
    disk: SimulatedDisk,
) -> ControllerSession:
    """Return the controller session of a process."""
    shipped = component_settings.controller_session(
        TimingConfig(), ControllerConfig(), ReplicationConfig()
    )
    return ControllerSession(
        registration,
        replicas=replicas,
        metadata=metadata,
        trashed=disk.trashed(),
        timing=replace(
            shipped,
            heartbeat_interval_ms=timing.heartbeat_ms,
            hosted_report_interval_ms=timing.hosted_report_ms,
            probe_deadline_ms=min(shipped.probe_deadline_ms, timing.session_timeout_ms),
            shutdown_response_max_ms=400,
            shutdown_retry_ms=100,
            shutdown_stalled_ms=800,
        ),
    )

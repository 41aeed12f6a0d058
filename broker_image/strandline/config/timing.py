"""How fast failures are noticed, and how often high watermarks are written to disk.

Two profiles: `demo` shows a failover in a second or two on an idle laptop, `safe`
tolerates the pauses of a loaded cluster. Single keys override the profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.errors import ConfigError

from .declaration import integer

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingConfig:
    """The controller Lease, sessions, lag and checkpoints; the defaults are the profile `safe`."""

    controller_lease_duration_seconds: int = integer(
        "controller.lease.duration.seconds", 15, (1, 3_600)
    )
    """After this time without an observed renewal a candidate may take the controller Lease.
    Seconds, since a Lease holds whole seconds. 15 as client-go; demo 3."""

    controller_lease_renew_deadline_ms: int = integer(
        "controller.lease.renew.deadline.ms", 10_000, (100, _HOUR_MS)
    )
    """A controller that has not renewed for this long stops deciding. Must be below the
    duration, so that it stops before another broker may start. 10,000 as client-go; demo 2,000."""

    controller_lease_retry_ms: int = integer("controller.lease.retry.ms", 2_000, (50, _HOUR_MS))
    """Interval of the controller's renewals and of a candidate's tries. 2,000; demo 500."""

    broker_heartbeat_interval_ms: int = integer(
        "broker.heartbeat.interval.ms", 2_000, (10, _HOUR_MS)
    )
    """Interval of heartbeats on the session with the controller. Kafka's key and default
    (KRaft); demo 500."""

    broker_session_timeout_ms: int = integer("broker.session.timeout.ms", 9_000, (30, _HOUR_MS))
    """After this silence the controller probes a broker, and declares it dead if the probe
    fails. At least three heartbeats. Kafka's key and default (KRaft); demo 2,000."""

    replica_lag_time_max_ms: int = integer("replica.lag.time.max.ms", 30_000, (100, 24 * _HOUR_MS))
    """A follower that has not caught up for longer leaves the ISR. Kafka's key; 30,000 since
    KIP-537; demo 10,000."""

    high_watermark_checkpoint_interval_ms: int = integer(
        "replica.high.watermark.checkpoint.interval.ms", 5_000, (50, _HOUR_MS)
    )
    """Interval at which high watermarks are written to disk. Kafka's key and default;
    demo 1,000, so that consumers see records again sooner after a restart."""

    def check(self) -> None:
        """Raise ConfigError for combinations that cannot work, each named by its keys."""
        if self.controller_lease_duration_seconds * 1000 <= self.controller_lease_renew_deadline_ms:
            raise ConfigError(
                "controller.lease.renew.deadline.ms must be below "
                "controller.lease.duration.seconds * 1000"
            )
        if self.controller_lease_renew_deadline_ms * 5 <= self.controller_lease_retry_ms * 6:
            raise ConfigError(
                "controller.lease.retry.ms * 1.2 must be below controller.lease.renew.deadline.ms"
            )
        if self.broker_session_timeout_ms < 3 * self.broker_heartbeat_interval_ms:
            raise ConfigError(
                "broker.session.timeout.ms must be at least 3 * broker.heartbeat.interval.ms"
            )


SAFE: Final = TimingConfig()

DEMO: Final = TimingConfig(
    controller_lease_duration_seconds=3,
    controller_lease_renew_deadline_ms=2_000,
    controller_lease_retry_ms=500,
    broker_heartbeat_interval_ms=500,
    broker_session_timeout_ms=2_000,
    replica_lag_time_max_ms=10_000,
    high_watermark_checkpoint_interval_ms=1_000,
)

PROFILES: Final = {"demo": DEMO, "safe": SAFE}

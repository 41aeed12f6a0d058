"""The times and bounds of a session with the controller; all ms of the driver's clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSessionTiming:
    """What `ControllerSession` decides with; the runtime fills it from the configuration."""

    heartbeat_interval_ms: int
    """Distance of two heartbeats [broker.heartbeat.interval.ms]."""
    hosted_report_interval_ms: int
    """Distance of two heartbeats with a hosted report, which shows a lost command."""
    redial_ms: int
    """Pause before the next dial. A holder that is not recorded yet responds NOT_CONTROLLER."""
    redial_max_ms: int
    """The pause doubles up to this while no controller responds."""
    probe_interval_ms: int
    """Distance of two probes of a holder whose stream broke."""
    probe_deadline_ms: int
    """A probe without a response for this long proves nothing."""
    refused_probes_dead: int
    """So many refused probes in a row prove that the process is gone."""
    shutdown_response_max_ms: int = 3_000
    """A broker gives up a controlled shutdown request without a response after this time."""
    shutdown_retry_ms: int = 100
    """Pause before the broker asks again to move the remaining leaders."""
    shutdown_stalled_ms: int = 3_000
    """If the controller responds but moves no leader for this long, the broker stops waiting."""

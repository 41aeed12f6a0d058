"""The times and bounds of a session with the controller; all ms of the driver's clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSessionTiming:
    """What `ControllerSession` decides with; the runtime fills it from the configuration."""

    heartbeat_interval_ms: int
    """Distance of two heartbeats [broker.heartbeat.interval.ms]."""

    hosted_report_interval_ms: int
    """Distance of two heartbeats that also list what is hosted, so that a lost command shows."""

    redial_ms: int
    """Pause before the next dial. A holder that is not recorded yet answers NOT_CONTROLLER."""

    redial_max_ms: int
    """The pause doubles up to this while no controller answers."""

    probe_interval_ms: int
    """Distance of two probes of a holder whose stream broke."""

    probe_deadline_ms: int
    """A probe without an answer for this long proves nothing."""

    refused_probes_dead: int
    """So many refused probes in a row prove that the process is gone."""

    shutdown_response_max_ms: int = 3_000
    """A controlled shutdown request without a response for this long counts as unanswered."""

    shutdown_retry_ms: int = 100
    """Pause before the controller is asked again to move the leaders that remain."""

    shutdown_stalled_ms: int = 3_000
    """After this time without a leader moved, though the controller answers, none will move."""

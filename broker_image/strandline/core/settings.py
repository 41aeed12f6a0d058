"""The figures the core decides with, made by `component_settings` from the configuration.

All times are ms of the driver's clock; `config/` says what each figure means and why it has its
value. Roles read them through `BrokerContext` alone, so every role of a broker sees the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.backoff import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """Periods, back-offs and bounds of replication."""

    replica_lag_time_max_ms: int
    fetch_wait_max_ms: int
    fetch_backoff_min_ms: int
    fetch_backoff_ms: int
    fetch_timeout_ms: int
    fetch_partitions_max: int
    high_watermark_checkpoint_interval_ms: int
    isr_refusal_backoff_ms: int
    isr_request_timeout_ms: int
    isr_request_backoff_ms: int
    purgatory_requests_max: int
    controller_requests_waiting_max: int
    copy_intake_max: int
    """Bytes per second of copies with which this broker begins; `CopyIntakeChanged` tells more."""

    def backoff_ms(self, failures: int) -> int:
        """Return the pause after that many refused or broken fetches in a row, at least one."""
        backoff = Backoff(first_ms=self.fetch_backoff_min_ms, max_ms=self.fetch_backoff_ms)
        return backoff.after_ms(failures)

"""The figures the core decides with; `runtime` fills them from the configuration.

All times are ms of the driver's clock. Roles read the figures through `BrokerContext` alone, so
every role of a broker sees the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline.backoff import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """Periods, back-offs and bounds of replication; Kafka's keys in brackets."""

    replica_lag_time_max_ms: int = 30_000
    """A follower not caught up for longer leaves the ISR [replica.lag.time.max.ms]."""

    fetch_wait_max_ms: int = 500
    """How long a leader may hold our fetch that finds nothing [replica.fetch.wait.max.ms]."""

    fetch_backoff_ms: int = 1_000
    """Longest pause after a refused or broken fetch [replica.fetch.backoff.ms]."""

    fetch_backoff_min_ms: int = 20
    """First such pause; it doubles up to fetch_backoff_ms. Shorter than Kafka's constant one:
    after an election a follower often fetches before its leader knows."""

    fetch_timeout_ms: int = 30_000
    """A fetch without a response for this long has failed [replica.socket.timeout.ms]."""

    fetch_partitions_max: int = 20_000
    """Partitions one fetch may name; with more, fetches take turns and do not wait."""

    high_watermark_checkpoint_interval_ms: int = 5_000
    """Period of the checkpoint [replica.high.watermark.checkpoint.interval.ms]."""

    isr_refusal_backoff_ms: int = 1_000
    """A leader proposes a refused change of a broker again only after this time."""

    isr_request_timeout_ms: int = 5_000
    """A proposal without a response for this long is sent again, unchanged."""

    isr_request_backoff_ms: int = 50
    """Pause before a proposal is sent again after a response that settled nothing."""

    purgatory_requests_max: int = 100_000
    """Requests of clients that may wait at once; beyond it the core responds at once."""

    controller_requests_waiting_max: int = 10_000
    """Requests of the controller that may wait for the state file; beyond it they are refused."""

    def backoff_ms(self, failures: int) -> int:
        """Return the pause after that many failures in a row, at least one."""
        backoff = Backoff(first_ms=self.fetch_backoff_min_ms, max_ms=self.fetch_backoff_ms)
        return backoff.after_ms(failures)

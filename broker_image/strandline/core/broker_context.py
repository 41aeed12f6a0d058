"""What every role of this broker reads: its identity, the settings, the live brokers.

One value per `Replicas`, shared by all partitions. `LiveBrokers`, `IsrRetries` and
`MarkedPartitions` change; their files say which callers change them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from strandline.model import BrokerEpoch, BrokerId, IsrEntry

from .isr_retries import IsrRetries
from .live_brokers import LiveBrokers
from .marked_partitions import MarkedPartitions
from .settings import CoreSettings

_REQUEST_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerContext:
    """Identity of this process, and what its roles know of the other brokers.

    `next_request_id` alone draws from request_numbers.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    settings: CoreSettings
    live: LiveBrokers
    isr_retries: IsrRetries = field(default_factory=IsrRetries)
    isr_checks: MarkedPartitions = field(default_factory=MarkedPartitions)
    moved_high_watermarks: MarkedPartitions = field(default_factory=MarkedPartitions)
    request_numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def next_request_id(self) -> int:
        """Return an id that no other request of this broker carries, in any of its processes."""
        return self.broker_epoch << _REQUEST_BITS | next(self.request_numbers)

    def is_own_incarnation(self, entry: IsrEntry | None) -> bool:
        """Tell whether an ISR entry names this incarnation of this broker (ADR 0002)."""
        return entry == IsrEntry(broker_id=self.broker_id, broker_epoch=self.broker_epoch)

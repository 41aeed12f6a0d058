"""What every role of this broker reads: its identity, the live brokers, the settings.

One object per `Replicas`, shared by all partitions. `controller_requests` replaces the live
brokers. `isr_proposer` sets retry times, it and `Replicas` remove them. Every sender of a
request draws an id.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline.model import BrokerEpoch, BrokerId, IsrEntry, LiveBroker, TopicPartition

from .settings import CoreSettings

_REQUEST_BITS = 32


@dataclass(slots=True, kw_only=True)
class BrokerContext:
    """Identity of this process and the controller's last announcement of live brokers.

    retry_at_ms holds the time at which a leader sends its ISR proposal again; an entry may
    outlive its proposal, and is then without effect.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    clean_since_epoch: BrokerEpoch
    settings: CoreSettings
    live: dict[BrokerId, LiveBroker] = field(default_factory=dict)
    retry_at_ms: dict[TopicPartition, int] = field(default_factory=dict)
    requests_sent: int = 0

    def next_request_id(self) -> int:
        """Return an id that no other request of this broker carries, in any of its processes."""
        self.requests_sent += 1
        return self.broker_epoch << _REQUEST_BITS | self.requests_sent

    def is_live(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> bool:
        """Tell whether exactly this incarnation of a broker may join an ISR (KIP-841, KIP-903)."""
        broker = self.live.get(broker_id)
        return broker is not None and broker.broker_epoch == broker_epoch

    def is_own_incarnation(self, entry: IsrEntry | None) -> bool:
        """Tell whether an ISR entry names this incarnation of this broker (ADR 0002)."""
        return (
            entry is not None
            and entry.broker_id == self.broker_id
            and entry.broker_epoch == self.broker_epoch
        )

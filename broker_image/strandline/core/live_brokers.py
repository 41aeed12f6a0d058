"""The brokers that the controller last announced as live, each as one incarnation.

`ControllerRequests` replaces them with each announcement; leaders read them.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.model import BrokerEpoch, BrokerId, LiveBroker


class LiveBrokers:
    """The last announcement: broker epochs by broker id."""

    def __init__(self, brokers: Iterable[LiveBroker] = ()) -> None:
        self.replace(brokers)

    def replace(self, brokers: Iterable[LiveBroker]) -> None:
        """Take an announcement; it names all live brokers."""
        self._epochs = {broker.broker_id: broker.broker_epoch for broker in brokers}

    def is_live(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> bool:
        """Tell whether exactly this incarnation of a broker may join an ISR (KIP-841, KIP-903)."""
        return self._epochs.get(broker_id) == broker_epoch

    def epoch_of(self, broker_id: BrokerId) -> BrokerEpoch | None:
        """Return the broker epoch that was announced, None for a broker that was not."""
        return self._epochs.get(broker_id)

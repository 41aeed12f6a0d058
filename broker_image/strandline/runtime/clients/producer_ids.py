"""Producer ids without a coordinator: each broker process hands out its own (ADR 0005).

`brokerId * 2^48 + brokerEpoch * 2^24 + counter`: unique over the life of a cluster, because a
broker epoch belongs to one process. A process that ran out ends rather than hands one out twice.
"""

from __future__ import annotations

from strandline.errors import InvariantViolation
from strandline.model import BrokerEpoch, BrokerId

BROKER_SHIFT = 48
EPOCH_SHIFT = 24
BROKER_ID_MAX = (1 << 15) - 1
"""Producer ids are positive 64-bit numbers, so a broker id has 15 bits."""
BROKER_EPOCH_MAX = (1 << 24) - 1
COUNTER_MAX = (1 << 24) - 1


class ProducerIds:
    """The ids of one broker process."""

    def __init__(self, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
        if not (0 <= broker_id <= BROKER_ID_MAX and 0 <= broker_epoch <= BROKER_EPOCH_MAX):
            raise InvariantViolation(
                "broker id and epoch fit a producer id",
                broker_id=broker_id,
                broker_epoch=broker_epoch,
            )
        self._first = (broker_id << BROKER_SHIFT) + (broker_epoch << EPOCH_SHIFT)
        self._handed_out = 0

    def allocate(self) -> int:
        """Return the next id."""
        if self._handed_out > COUNTER_MAX:
            raise InvariantViolation("a producer id is handed out once", count=self._handed_out)
        producer_id = self._first + self._handed_out
        self._handed_out += 1
        return producer_id

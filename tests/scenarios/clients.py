"""Commands of a scenario that clients would send: produce, wait for records, go away."""

from __future__ import annotations

from abc import ABC, abstractmethod

from strandline.core.events import (
    DelayedFetchReceived,
    Event,
    ProduceReceived,
    RecordsHandle,
    RequestCancelled,
    SequenceCheck,
)
from strandline.errors import ErrorCode
from strandline.model import NO_EPOCH, Acks, BatchSpan, LeaderEpoch

from .world_broker import TP, ScenarioBroker


class ClientCommands(ABC):
    """The clients' half of `ScenarioWorld`."""

    brokers: dict[int, ScenarioBroker]
    produced: dict[int, tuple[list[str], Acks]]

    def do_produce(
        self,
        to: str,
        names: str,
        acks: str = "all",
        timeout_ms: str = "30000",
        again_at: str = "",
    ) -> list[str]:
        broker = self.brokers[int(to)]
        request_id, records_sent = self._next_id(), names.split(",")
        required = {"all": Acks.ALL, "1": Acks.LEADER, "0": Acks.NONE}[acks]
        self.produced[request_id] = (records_sent, required)
        sequence: SequenceCheck = ErrorCode.NONE
        if again_at:
            base = int(again_at)
            sequence = BatchSpan(
                base_offset=base,
                next_offset=base + len(records_sent),
                leader_epoch=LeaderEpoch(0),
            )
        event = ProduceReceived(
            request_id=request_id,
            tp=TP,
            acks=required,
            record_count=len(records_sent),
            records=RecordsHandle([(NO_EPOCH, name) for name in records_sent]),
            timeout_ms=int(timeout_ms),
            sequence=sequence,
        )
        return self._step(broker, event)

    def do_wait(self, at: str, seen: str, max_wait_ms: str = "500") -> list[str]:
        event = DelayedFetchReceived(
            request_id=self._next_id(), watches=((TP, int(seen)),), max_wait_ms=int(max_wait_ms)
        )
        return self._step(self.brokers[int(at)], event)

    def do_hang_up(self, at: str, request: str) -> list[str]:
        """Let the client of a request go away."""
        return self._step(self.brokers[int(at)], RequestCancelled(request_id=int(request)))

    @abstractmethod
    def _next_id(self) -> int: ...

    @abstractmethod
    def _step(self, broker: ScenarioBroker, event: Event) -> list[str]: ...

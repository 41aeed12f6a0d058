"""Commands of a scenario that clients would send: produce, wait for records, go away."""

from __future__ import annotations

from abc import ABC, abstractmethod

from strandline.core.events import DelayedFetchReceived, Event, ProduceReceived, RequestCancelled
from strandline.model import Acks, BatchSpan, LeaderEpoch

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
        le: str = "",
        again_at: str = "",
    ) -> list[str]:
        broker = self.brokers[int(to)]
        request_id, records_sent = self._next_id(), names.split(",")
        required = {"all": Acks.ALL, "1": Acks.LEADER, "0": Acks.NONE}[acks]
        broker.payloads[request_id] = [(LeaderEpoch(-1), name) for name in records_sent]
        self.produced[request_id] = (records_sent, required)
        duplicate = None
        if again_at:
            base = int(again_at)
            duplicate = BatchSpan(
                base_offset=base,
                next_offset=base + len(records_sent),
                leader_epoch=LeaderEpoch(0),
                size_bytes=1,
            )
        event = ProduceReceived(
            request_id=request_id,
            tp=TP,
            acks=required,
            record_count=len(records_sent),
            size_bytes=100,
            timeout_ms=int(timeout_ms),
            leader_epoch=LeaderEpoch(int(le)) if le else None,
            duplicate=duplicate,
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

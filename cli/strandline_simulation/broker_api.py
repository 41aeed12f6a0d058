"""A broker's answers to clients: produce, consume and metadata requests over the network.

The simulator's counterpart of `runtime/clients/broker_api.py` and of the listener before it.
"""

from __future__ import annotations

from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core import effects as done
from strandline.core.events import DelayedFetchReceived, ProduceReceived, RecordsHandle
from strandline.core.replicas import Replicas
from strandline.errors import ErrorCode
from strandline.model import INTERNAL_LISTENER, Acks

from .disk import SimulatedDisk
from .environment import SimulatedEnvironment
from .messages import (
    ConsumeRequest,
    ConsumeResponse,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from .network import Address, Channel
from .process_port import ProcessPort
from .request_ids import RequestIds


class SimulatedBrokerApi:
    """Requests of clients that wait for the core; changed by its own methods only."""

    def __init__(
        self,
        environment: SimulatedEnvironment,
        port: ProcessPort,
        *,
        replicas: Replicas,
        disk: SimulatedDisk,
        metadata: MetadataCache,
        request_ids: RequestIds,
    ) -> None:
        self._environment = environment
        self._port = port
        self._replicas = replicas
        self._disk = disk
        self._metadata = metadata
        self._request_ids = request_ids
        self._produces: dict[int, tuple[Address, ProduceRequest]] = {}
        self._consumes: dict[int, tuple[Address, ConsumeRequest]] = {}

    @property
    def has_waiting_consumers(self) -> bool:
        """Whether a consumer waits for more."""
        return bool(self._consumes)

    def on_produce(self, client: Address, request: ProduceRequest) -> None:
        """Take a producer's batch."""
        request_id = self._request_ids.next()
        self._produces[request_id] = (client, request)
        self._port.step_core(
            ProduceReceived(
                request_id=request_id,
                tp=request.tp,
                acks=Acks.ALL,
                record_count=len(request.values),
                records=RecordsHandle(request.values),
                timeout_ms=request.timeout_ms,
            )
        )

    def reply_produce(self, effect: done.ReplyProduce) -> None:
        """Perform ReplyProduce: from now on an acknowledged record counts."""
        client, request = self._produces.pop(effect.request_id)
        if effect.error is ErrorCode.NONE:
            self._environment.invariants.on_acknowledged(
                self._port, effect.tp, effect.base_offset, request.values
            )
        self._respond(client, ProduceResponse(request_id=request.request_id, error=effect.error))

    def on_consume(self, client: Address, request: ConsumeRequest) -> None:
        """Let a consumer read what it may see, or wait for more."""
        error, next_position, high_watermark = self._read(request)
        is_empty = next_position == request.position
        if error is ErrorCode.NONE and is_empty and request.max_wait_ms:
            request_id = self._request_ids.next()
            self._consumes[request_id] = (client, request)
            self._port.step_core(
                DelayedFetchReceived(
                    request_id=request_id,
                    watches=((request.tp, high_watermark),),
                    max_wait_ms=request.max_wait_ms,
                )
            )
            return
        self._respond_consume(client, request, error, next_position)

    def complete_fetch(self, effect: done.CompleteFetch) -> None:
        """Perform CompleteFetch: read again, and do not wait a second time."""
        client, request = self._consumes.pop(effect.request_id)
        error, next_position, _ = self._read(request)
        self._respond_consume(client, request, error, next_position)

    def on_metadata(self, client: Address) -> None:
        """Say what this broker knows of the cluster."""
        snapshot = self._metadata.snapshot(INTERNAL_LISTENER)
        self._respond(client, MetadataResponse(snapshot=snapshot))

    def _read(self, request: ConsumeRequest) -> tuple[ErrorCode, int, int]:
        """Return the error, the position after what was read, and the high watermark."""
        tp, position = request.tp, request.position
        read = self._replicas.read_for_consumer(
            tp, fetch_offset=position, leader_epoch=None, last_fetched_epoch=None
        )
        if read.error is not ErrorCode.NONE:
            return read.error, position, read.high_watermark
        log = self._disk.logs[tp]
        values = log.values[position - log.start : read.up_to_offset - log.start]
        self._environment.invariants.on_read(self._port, tp, position, values)
        return read.error, position + len(values), read.high_watermark

    def _respond_consume(
        self, client: Address, request: ConsumeRequest, error: ErrorCode, next_position: int
    ) -> None:
        self._respond(
            client,
            ConsumeResponse(
                request_id=request.request_id, error=error, next_position=next_position
            ),
        )

    def _respond(self, client: Address, response: object) -> None:
        self._environment.network.send(self._port.address, client, response, Channel.CLIENT)

"""A broker's answers to clients: produce, consume and metadata requests over the network.

The simulator's counterpart of `runtime/clients/broker_api.py` and of the listener before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core import effects as done
from strandline.core.events import (
    DelayedFetchReceived,
    DeleteRecordsReceived,
    ProduceReceived,
    RecordsHandle,
)
from strandline.core.replicas import Replicas
from strandline.errors import ErrorCode
from strandline.model import INTERNAL_LISTENER, Acks

from .environment import SimulatedEnvironment
from .messages import ClientResponse, ConsumeRequest, DeleteRecordsRequest, ProduceRequest
from .network import Address, Channel
from .process_port import ProcessPort


class SimulatedBrokerApi:
    """Requests of clients that wait for the core; changed by its own methods only."""

    def __init__(
        self,
        environment: SimulatedEnvironment,
        port: ProcessPort,
        *,
        replicas: Replicas,
        metadata: MetadataCache,
        request_ids: Iterator[int],
    ) -> None:
        self._environment = environment
        self._port = port
        self._replicas = replicas
        self._metadata = metadata
        self._request_ids = request_ids
        self._produces: dict[int, tuple[Address, ProduceRequest]] = {}
        self._deletions: dict[int, tuple[Address, DeleteRecordsRequest]] = {}
        self._consumes: dict[int, tuple[Address, ConsumeRequest]] = {}

    @property
    def has_waiting_consumers(self) -> bool:
        """Whether a consumer waits for more."""
        return bool(self._consumes)

    def on_produce(self, client: Address, request: ProduceRequest) -> None:
        """Take a producer's batch; refuse it without room on the volume."""
        if self._environment.disks[self._port.broker_id].is_full:
            error = ErrorCode.KAFKA_STORAGE_ERROR
            self._respond(client, ClientResponse(request_id=request.request_id, error=error))
            return
        request_id = next(self._request_ids)
        self._produces[request_id] = (client, request)
        self._port.step_core(
            ProduceReceived(
                request_id=request_id,
                tp=request.tp,
                acks=Acks.ALL,
                record_count=len(request.values),
                records=RecordsHandle(request.values),
                timeout_ms=request.max_wait_ms,
            )
        )

    def reply_produce(self, effect: done.ReplyProduce) -> None:
        """Perform ReplyProduce: from now on an acknowledged record counts."""
        client, request = self._produces.pop(effect.request_id)
        if effect.error is ErrorCode.NONE:
            self._environment.invariants.on_acknowledged(
                self._port, effect.tp, effect.base_offset, request.values
            )
        self._respond(client, ClientResponse(request_id=request.request_id, error=effect.error))

    def on_delete(self, client: Address, request: DeleteRecordsRequest) -> None:
        """Take a deletion; a request below the log start deletes nothing."""
        request_id = next(self._request_ids)
        self._deletions[request_id] = (client, request)
        view = self._replicas.view(request.tp)
        offset = 0 if view is None else max(0, view.high_watermark - request.keep_count)
        self._port.step_core(
            DeleteRecordsReceived(
                request_id=request_id,
                tp=request.tp,
                offset=offset,
                timeout_ms=request.max_wait_ms,
            )
        )

    def reply_deleted(self, effect: done.ReplyDeleteRecords) -> None:
        """Perform ReplyDeleteRecords."""
        client, request = self._deletions.pop(effect.request_id)
        self._respond(client, ClientResponse(request_id=request.request_id, error=effect.error))

    def on_consume(self, client: Address, request: ConsumeRequest) -> None:
        """Let a consumer read what it may see, or wait for more."""
        response, high_watermark = self._read(request)
        is_empty = response.next_position == request.position
        if response.error is ErrorCode.NONE and is_empty and request.max_wait_ms:
            request_id = next(self._request_ids)
            self._consumes[request_id] = (client, request)
            self._port.step_core(
                DelayedFetchReceived(
                    request_id=request_id,
                    watches=((request.tp, high_watermark),),
                    max_wait_ms=request.max_wait_ms,
                )
            )
            return
        self._respond(client, response)

    def complete_fetch(self, effect: done.CompleteFetch) -> None:
        """Perform CompleteFetch: read again, and do not wait a second time."""
        client, request = self._consumes.pop(effect.request_id)
        response, _ = self._read(request)
        self._respond(client, response)

    def on_metadata(self, client: Address) -> None:
        """Say what this broker knows of the cluster."""
        self._respond(client, self._metadata.snapshot(INTERNAL_LISTENER))

    def _read(self, request: ConsumeRequest) -> tuple[ClientResponse, int]:
        """Return what a consumer is told, and the high watermark."""
        tp, position = request.tp, request.position
        read = self._replicas.consumer_reads.read(
            tp, fetch_offset=position, leader_epoch=None, last_fetched_epoch=None
        )
        if read.error is ErrorCode.NONE:
            log = self._environment.disks[self._port.broker_id].logs[tp]
            values = log.values[position - log.start : read.up_to_offset - log.start]
            self._environment.invariants.on_read(self._port, tp, position, values)
            position += len(values)
        elif read.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            position = read.log_start_offset
        response = ClientResponse(
            request_id=request.request_id, error=read.error, next_position=position
        )
        return response, read.high_watermark

    def _respond(self, client: Address, response: object) -> None:
        self._environment.network.send(self._port.life.address, client, response, Channel.CLIENT)

"""Producers and consumers: believe old metadata, try again, never know more than an answer.

They ask brokers over the network, for metadata, too. A batch that is sent again carries new
values, so that each value is appended at most once and names one append. What was acknowledged
is judged where the broker says it, not here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from strandline.broker_interface import MetadataSnapshot
from strandline.errors import ErrorCode
from strandline.model import NO_LEADER, BrokerId, TopicPartition

from .environment import SimulatedEnvironment
from .messages import (
    ClientResponse,
    ConsumeRequest,
    DeleteRecordsRequest,
    MetadataRequest,
    ProduceRequest,
)
from .network import Address, Channel, Refused
from .plan import Consume, Delete, Produce
from .prng import Prng, key_of

REQUEST_TIMEOUT_MS = 600
RETRY_MS = 40
SILENCE_MS = 150
"""A client takes silence for an error so long after the request's own time limit."""
READS_MAX = 6
DELETIONS_MAX = 3
ADMIN = -1_000

Request = ProduceRequest | ConsumeRequest | DeleteRecordsRequest
Attempts = Iterator[Request]
"""The requests of one operation, each made when it is sent; at their end the client gives up."""


class Client:
    """One client: what it believes of leaders, its open requests, and where its reads go on."""

    def __init__(
        self, environment: SimulatedEnvironment, host: int, on_finished: Callable[[], None]
    ) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.request_ids = itertools.count(1)
        self._environment = environment
        self._on_finished = on_finished
        self._address = Address(host)
        self._prng = Prng(key_of(environment.plan.seed, "client", host))
        self._leaders: dict[TopicPartition, BrokerId] = {}
        self._waiting: dict[int, tuple[TopicPartition, BrokerId, Attempts]] = {}
        environment.network.register(self._address, self)

    def ask_leader(self, attempts: Attempts) -> None:
        """Send the next request to the believed leader; silence is a response, too."""
        request = next(attempts, None)
        if request is None:
            self._on_finished()
            return
        leader = self._leaders.get(request.tp, NO_LEADER)
        if leader == NO_LEADER:
            leader = self._any_broker()
        self._waiting[request.request_id] = (request.tp, leader, attempts)
        self._send(leader, request)
        silence = ClientResponse(request_id=request.request_id, error=ErrorCode.NETWORK_EXCEPTION)
        delay_ms = request.max_wait_ms + SILENCE_MS
        self._environment.virtual_time.after(delay_ms, self._take, silence)

    def receive(self, source: Address, value: object) -> None:
        """Take what a broker answers, or that nothing listens there."""
        del source
        match value:
            case ClientResponse():
                self._take(value)
            case MetadataSnapshot():
                for topic in value.topics:
                    for each in topic.partitions:
                        tp = TopicPartition(topic_id=topic.topic_id, partition=each.partition)
                        self._leaders[tp] = each.leader
            case Refused(
                value=ProduceRequest() | ConsumeRequest() | DeleteRecordsRequest() as request
            ):
                request_id = request.request_id
                self._take(ClientResponse(request_id=request_id, error=ErrorCode.NETWORK_EXCEPTION))
            case _:
                pass

    def _take(self, response: ClientResponse) -> None:
        """Take one response to a request; after an error ask some broker who leads, and retry."""
        waiting = self._waiting.pop(response.request_id, None)
        if waiting is None:
            return
        tp, leader, attempts = waiting
        if response.error is ErrorCode.NONE:
            self._leaders[tp] = leader
            self.positions[tp] = response.next_position
            self._on_finished()
        elif response.error is ErrorCode.OFFSET_OUT_OF_RANGE and response.next_position >= 0:
            # As auto.offset.reset=earliest does.
            self.positions[tp] = response.next_position
            self._environment.virtual_time.after(RETRY_MS, self.ask_leader, attempts)
        else:
            self._leaders.pop(tp, None)
            self._send(self._any_broker(), MetadataRequest())
            self._environment.virtual_time.after(RETRY_MS, self.ask_leader, attempts)

    def _any_broker(self) -> BrokerId:
        return BrokerId(self._prng.between(0, self._environment.plan.brokers - 1))

    def _send(self, broker_id: BrokerId, request: object) -> None:
        self._environment.network.send(self._address, Address(broker_id), request, Channel.CLIENT)


class SimulatedClients:
    """All clients of one schedule, and how many of their operations are not finished."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self._environment = environment
        self._clients: dict[int, Client] = {}
        self._values = itertools.count(1)
        self.unfinished = 0
        for produce in environment.plan.produces:
            producer = self._client(-2 - produce.producer)
            self._begin(produce.at_ms, producer, self._batches(producer, produce))
        for consume in environment.plan.consumes:
            consumer = self._client(-100 - consume.consumer)
            self._begin(consume.at_ms, consumer, self._reads(consumer, consume))
        for delete in environment.plan.deletes:
            admin = self._client(ADMIN)
            self._begin(delete.at_ms, admin, self._deletions(admin, delete))

    def _client(self, host: int) -> Client:
        if host not in self._clients:
            self._clients[host] = Client(self._environment, host, self._on_finished)
        return self._clients[host]

    def _begin(self, at_ms: int, client: Client, attempts: Attempts) -> None:
        self.unfinished += 1
        self._environment.virtual_time.at(at_ms, client.ask_leader, attempts)

    def _on_finished(self) -> None:
        self.unfinished -= 1

    def _batches(self, producer: Client, produce: Produce) -> Iterator[ProduceRequest]:
        """Yield one batch again and again, each time with values that no record has yet."""
        environment, last_ms = self._environment, produce.at_ms + produce.tries_for_ms
        while environment.virtual_time.now_ms <= last_ms:
            yield ProduceRequest(
                request_id=next(producer.request_ids),
                tp=environment.api.store.tp(produce.partition),
                values=tuple(itertools.islice(self._values, produce.record_count)),
                max_wait_ms=REQUEST_TIMEOUT_MS,
            )

    def _deletions(self, admin: Client, delete: Delete) -> Iterator[DeleteRecordsRequest]:
        """Yield one deletion a few times: a timeout may mean that it happened."""
        for _ in range(DELETIONS_MAX):
            yield DeleteRecordsRequest(
                request_id=next(admin.request_ids),
                tp=self._environment.api.store.tp(delete.partition),
                keep_count=delete.keep_count,
                max_wait_ms=REQUEST_TIMEOUT_MS,
            )

    def _reads(self, consumer: Client, consume: Consume) -> Iterator[ConsumeRequest]:
        """Yield reads from the start, or from where the consumer's last one ended."""
        tp = self._environment.api.store.tp(consume.partition)
        if consume.from_start:
            consumer.positions[tp] = 0
        for _ in range(READS_MAX):
            yield ConsumeRequest(
                request_id=next(consumer.request_ids),
                tp=tp,
                position=consumer.positions.get(tp, 0),
                max_wait_ms=consume.wait_ms,
            )

"""Producers and consumers: believe old metadata, try again, never know more than an answer.

They ask brokers over the network, for metadata, too. A batch that is sent again carries new
values, so that each value is appended at most once and names one append. What was acknowledged
is judged where the broker says it, not here.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.errors import ErrorCode
from strandline.model import NO_LEADER, BrokerId, TopicPartition

from .environment import SimulatedEnvironment
from .messages import (
    ConsumeRequest,
    ConsumeResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from .network import Address, Channel, Refused
from .plan import Consume, Produce
from .prng import Prng, key_of

REQUEST_TIMEOUT_MS = 600
RETRY_MS = 40
SILENCE_MS = 150
"""A client takes silence for an error so long after the request's own time limit."""
READS_MAX = 6

OnResponse = Callable[[ErrorCode, int], None]
"""Takes the error, and for a consumer the next position."""


class Client:
    """One client: its address, what it believes of leaders, and its open requests."""

    def __init__(self, environment: SimulatedEnvironment, host: int) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self._environment = environment
        self._address = Address(host)
        self._prng = Prng(key_of(environment.plan.seed, "client", host))
        self._leaders: dict[TopicPartition, BrokerId] = {}
        self._last_request_id = 0
        self._waiting: dict[int, tuple[TopicPartition, BrokerId, OnResponse]] = {}
        environment.network.register(self._address, self)

    def new_request_id(self) -> int:
        """Return a number that no request of this client has."""
        self._last_request_id += 1
        return self._last_request_id

    def ask_leader(
        self, request: ProduceRequest | ConsumeRequest, timeout_ms: int, on_response: OnResponse
    ) -> None:
        """Send a request to the believed leader; it has one response, the lack of one included."""
        leader = self._leaders.get(request.tp, NO_LEADER)
        if leader == NO_LEADER:
            leader = self._any_broker()
        self._waiting[request.request_id] = (request.tp, leader, on_response)
        self._send(leader, request)
        self._environment.virtual_time.after(
            timeout_ms + SILENCE_MS,
            self._answer,
            request.request_id,
            ErrorCode.NETWORK_EXCEPTION,
        )

    def receive(self, source: Address, value: object) -> None:
        """Take what a broker answers, or that nothing listens there."""
        del source
        match value:
            case ProduceResponse(request_id=request_id, error=error):
                self._answer(request_id, error)
            case ConsumeResponse(request_id=request_id, error=error, next_position=position):
                self._answer(request_id, error, position)
            case MetadataResponse(snapshot=snapshot):
                for topic in snapshot.topics:
                    for each in topic.partitions:
                        tp = TopicPartition(topic_id=topic.topic_id, partition=each.partition)
                        self._leaders[tp] = each.leader
            case Refused(value=ProduceRequest() | ConsumeRequest() as request):
                self._answer(request.request_id, ErrorCode.NETWORK_EXCEPTION)
            case _:
                pass

    def _answer(self, request_id: int, error: ErrorCode, next_position: int = -1) -> None:
        """Answer a request once; after an error ask some broker who leads, it may not know."""
        waiting = self._waiting.pop(request_id, None)
        if waiting is None:
            return
        tp, leader, on_response = waiting
        if error is ErrorCode.NONE:
            self._leaders[tp] = leader
        else:
            self._leaders.pop(tp, None)
            self._send(self._any_broker(), MetadataRequest())
        on_response(error, next_position)

    def _any_broker(self) -> BrokerId:
        return BrokerId(self._prng.between(0, self._environment.plan.brokers - 1))

    def _send(self, broker_id: BrokerId, request: object) -> None:
        self._environment.network.send(self._address, Address(broker_id), request, Channel.CLIENT)


class SimulatedClients:
    """All clients of one schedule, and how many of their operations are not finished."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self.environment = environment
        self.unfinished = 0
        self._last_value = 0
        self._clients: dict[int, Client] = {}
        for produce in environment.plan.produces:
            self.unfinished += 1
            producer = ProducerOperation(self, self._client(-2 - produce.producer), produce)
            environment.virtual_time.at(produce.at_ms, producer.send)
        for consume in environment.plan.consumes:
            self.unfinished += 1
            consumer = ConsumerOperation(self, self._client(-100 - consume.consumer), consume)
            environment.virtual_time.at(consume.at_ms, consumer.begin)

    def _client(self, host: int) -> Client:
        client = self._clients.get(host)
        if client is None:
            client = self._clients[host] = Client(self.environment, host)
        return client

    def new_values(self, count: int) -> tuple[int, ...]:
        """Return values that no record has yet."""
        first = self._last_value + 1
        self._last_value += count
        return tuple(range(first, first + count))

    def on_finished(self) -> None:
        """Count an operation that is over."""
        self.unfinished -= 1


class ProducerOperation:
    """One batch on its way, sent again until it is acknowledged or given up."""

    def __init__(self, clients: SimulatedClients, client: Client, produce: Produce) -> None:
        self._clients = clients
        self._client = client
        self._produce = produce
        self._tp = clients.environment.api.store.tp(produce.partition)

    def send(self) -> None:
        """Send it, or give up if it was tried for too long."""
        produce = self._produce
        now_ms = self._clients.environment.virtual_time.now_ms
        if now_ms > produce.at_ms + produce.tries_for_ms:
            self._clients.on_finished()
            return
        request = ProduceRequest(
            request_id=self._client.new_request_id(),
            tp=self._tp,
            values=self._clients.new_values(produce.record_count),
            timeout_ms=REQUEST_TIMEOUT_MS,
        )
        self._client.ask_leader(request, REQUEST_TIMEOUT_MS, self._on_response)

    def _on_response(self, error: ErrorCode, _: int) -> None:
        if error is ErrorCode.NONE:
            self._clients.on_finished()
        else:
            self._clients.environment.virtual_time.after(RETRY_MS, self.send)


class ConsumerOperation:
    """One read of a consumer, sent again until it is answered or given up."""

    def __init__(self, clients: SimulatedClients, client: Client, consume: Consume) -> None:
        self._clients = clients
        self._client = client
        self._consume = consume
        self._tp = clients.environment.api.store.tp(consume.partition)
        self._reads = 0

    def begin(self) -> None:
        """Read on, or from the start."""
        if self._consume.from_start:
            self._client.positions[self._tp] = 0
        self._send()

    def _send(self) -> None:
        self._reads += 1
        if self._reads > READS_MAX:
            self._clients.on_finished()
            return
        request = ConsumeRequest(
            request_id=self._client.new_request_id(),
            tp=self._tp,
            position=self._client.positions.get(self._tp, 0),
            max_wait_ms=self._consume.wait_ms,
        )
        self._client.ask_leader(request, self._consume.wait_ms, self._on_response)

    def _on_response(self, error: ErrorCode, next_position: int) -> None:
        if error is ErrorCode.NONE:
            self._client.positions[self._tp] = next_position
            self._clients.on_finished()
        else:
            self._clients.environment.virtual_time.after(RETRY_MS, self._send)

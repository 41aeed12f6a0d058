"""Producers and consumers: believe old metadata, try again, never know more than an answer.

A batch that is sent again carries new values, so that each value is appended at most once and
names one append. What was acknowledged is judged where the broker says it, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline.errors import ErrorCode
from strandline.model import NO_LEADER, BrokerId, TopicPartition

from .plan import Consume, Produce
from .prng import Prng, key_of

if TYPE_CHECKING:
    from .world import World

RETRY_MS = 40
SILENCE_MS = 150
"""A client takes silence for an error so long after the request's own time limit."""
READS_MAX = 6


class SimulatedClients:
    """All clients of one schedule."""

    def __init__(self, world: World) -> None:
        plan = world.plan
        self.world = world
        self.request_timeout_ms = 600
        self.unfinished = 0
        self.positions: dict[tuple[int, TopicPartition], int] = {}
        self._last_value = 0
        self._leaders: dict[tuple[int, TopicPartition], BrokerId] = {}
        self._prngs: dict[int, Prng] = {}
        for produce in plan.produces:
            self.unfinished += 1
            producer_request = ProducerRequest(self, produce, self._tp(produce.partition))
            world.virtual_time.at(produce.at_ms, producer_request.send)
        for consume in plan.consumes:
            self.unfinished += 1
            consumer_request = ConsumerRequest(self, consume, self._tp(consume.partition))
            world.virtual_time.at(consume.at_ms, consumer_request.begin)

    def _tp(self, partition: int) -> TopicPartition:
        return self.world.store.partitions[f"topic-{partition}"].tp

    def new_values(self, count: int) -> tuple[int, ...]:
        """Return values that no record has yet."""
        first = self._last_value + 1
        self._last_value += count
        return tuple(range(first, first + count))

    def believed_leader(self, client: int, tp: TopicPartition) -> BrokerId:
        """Return the leader a client believes in; without metadata it guesses."""
        known = self._leaders.get((client, tp))
        if known is None or known == NO_LEADER:
            known = BrokerId(self._prng(client).between(0, self.world.plan.brokers - 1))
        return known

    def remember_leader(self, client: int, tp: TopicPartition, leader: BrokerId) -> None:
        """Remember the broker that answered as the leader."""
        self._leaders[client, tp] = leader

    def refresh_metadata(self, client: int, tp: TopicPartition) -> None:
        """Ask some broker who leads; its answer may be old."""
        prng, plan = self._prng(client), self.world.plan
        asked = self.world.serving(BrokerId(prng.between(0, plan.brokers - 1)))
        state = None if asked is None or asked.paused else asked.metadata.get(tp)
        if state is None:
            self._leaders.pop((client, tp), None)
        else:
            self._leaders[client, tp] = state.leader

    def _prng(self, client: int) -> Prng:
        prng = self._prngs.get(client)
        if prng is None:
            key = key_of(self.world.plan.seed, "client", client)
            prng = self._prngs[client] = Prng(key)
        return prng


class ProducerRequest:
    """One batch on its way."""

    def __init__(self, clients: SimulatedClients, op: Produce, tp: TopicPartition) -> None:
        self._clients = clients
        self._op = op
        self._tp = tp
        self._attempt = 0
        self._target = NO_LEADER
        self._done = False
        self.client = -2 - op.producer

    def send(self) -> None:
        """Send it, or give up if it was tried for too long."""
        clients, world = self._clients, self._clients.world
        if self._done:
            return
        if world.virtual_time.now_ms > self._op.at_ms + self._op.tries_for_ms:
            self._finish()
            return
        self._attempt += 1
        values = clients.new_values(self._op.record_count)
        broker_id = self._target = clients.believed_leader(self.client, self._tp)
        arguments = (broker_id, self, self._attempt, self._tp, values)
        world.network.send(self.client, broker_id, "client", world.deliver_produce, *arguments)
        silence_ms = clients.request_timeout_ms + SILENCE_MS
        world.virtual_time.after(
            silence_ms, self.on_response, self._attempt, ErrorCode.NETWORK_EXCEPTION
        )

    def on_response(self, attempt: int, error: ErrorCode) -> None:
        """Take an answer, or the lack of one."""
        if self._done or attempt != self._attempt:
            return
        if error is ErrorCode.NONE:
            self._clients.remember_leader(self.client, self._tp, self._target)
            self._finish()
            return
        self._attempt += 1
        self._clients.refresh_metadata(self.client, self._tp)
        self._clients.world.virtual_time.after(RETRY_MS, self.send)

    def _finish(self) -> None:
        self._done = True
        self._clients.unfinished -= 1


class ConsumerRequest:
    """One read of a consumer; waited tells that it has waited for more once."""

    def __init__(self, clients: SimulatedClients, op: Consume, tp: TopicPartition) -> None:
        self._clients = clients
        self._tp = tp
        self._reads = 0
        self._done = False
        self.op = op
        self.waited = False
        self.client = -100 - op.consumer

    def begin(self) -> None:
        """Read on, or from the start."""
        if self.op.from_start:
            self._clients.positions[self.client, self._tp] = 0
        self.send_again()

    def send_again(self) -> None:
        """Ask the believed leader."""
        if self._done:
            return
        self._reads += 1
        if self._reads > READS_MAX:
            self._finish()
            return
        world, clients = self._clients.world, self._clients
        position = clients.positions.get((self.client, self._tp), 0)
        broker_id = clients.believed_leader(self.client, self._tp)
        arguments = (broker_id, self, self._tp, position)
        world.network.send(self.client, broker_id, "client", world.deliver_consume, *arguments)
        silence_ms = self.op.wait_ms + SILENCE_MS
        world.virtual_time.after(silence_ms, self._on_silence, self._reads)

    def on_read(self, error: ErrorCode, position: int) -> None:
        """Take what was read."""
        if self._done:
            return
        if error is ErrorCode.NONE:
            self._clients.positions[self.client, self._tp] = position
            self._finish()
            return
        self._clients.refresh_metadata(self.client, self._tp)
        self._clients.world.virtual_time.after(RETRY_MS, self.send_again)

    def _on_silence(self, reads: int) -> None:
        if not self._done and reads == self._reads:
            self._clients.refresh_metadata(self.client, self._tp)
            self.send_again()

    def _finish(self) -> None:
        self._done = True
        self._clients.unfinished -= 1

"""Simulated clients: the network alone tells them who leads."""

from __future__ import annotations

from dataclasses import replace

from strandline.broker_interface import MetadataSnapshot, PartitionMetadata, TopicMetadata
from strandline.errors import ErrorCode
from strandline.model import NO_LEADER, BrokerId, LeaderEpoch
from strandline_simulation.clients import SimulatedClients
from strandline_simulation.environment import SimulatedEnvironment
from strandline_simulation.messages import ClientResponse, MetadataRequest, ProduceRequest
from strandline_simulation.network import Address, Channel
from strandline_simulation.plan import Produce
from tests.simulation.directed import JOIN_BELOW_EPOCH_START

LEADER = BrokerId(3)
BEGIN_MS, TRIES_FOR_MS = 100, 2_500
PLAN = replace(
    JOIN_BELOW_EPOCH_START,
    faults=(),
    produces=(
        Produce(at_ms=BEGIN_MS, producer=0, partition=0, record_count=5, tries_for_ms=TRIES_FOR_MS),
    ),
)


class Endpoint:
    """A broker that is no more than its address: only LEADER takes batches."""

    def __init__(
        self, environment: SimulatedEnvironment, broker_id: int, *, tells_leader: bool
    ) -> None:
        self.took: list[object] = []
        self._environment = environment
        self._broker_id = BrokerId(broker_id)
        self._leader = LEADER if tells_leader else NO_LEADER
        environment.network.register(Address(broker_id), self)

    def receive(self, source: Address, value: object) -> None:
        self.took.append(value)
        network, own = self._environment.network, Address(self._broker_id)
        if isinstance(value, MetadataRequest):
            network.send(own, source, self._metadata(), Channel.CLIENT)
        elif isinstance(value, ProduceRequest):
            led = self._broker_id == LEADER
            error = ErrorCode.NONE if led else ErrorCode.NOT_LEADER_OR_FOLLOWER
            response = ClientResponse(request_id=value.request_id, error=error, next_position=5)
            network.send(own, source, response, Channel.CLIENT)

    def _metadata(self) -> MetadataSnapshot:
        tp = self._environment.api.store.tp(0)
        partition = PartitionMetadata(
            partition=tp.partition,
            leader=self._leader,
            leader_epoch=LeaderEpoch(0),
            replicas=(LEADER,),
            isr=(LEADER,),
            offline=(),
        )
        topic = TopicMetadata(name="topic", topic_id=tp.topic_id, partitions=(partition,))
        return MetadataSnapshot(
            cluster_id="simulated", controller=LEADER, brokers=(), topics=(topic,)
        )


def run_until_finished(environment: SimulatedEnvironment, clients: SimulatedClients) -> None:
    while clients.unfinished:
        environment.virtual_time.run_next()


def test_a_client_finds_the_leader_by_the_metadata_that_some_broker_sent_it() -> None:
    environment = SimulatedEnvironment(PLAN)
    brokers = [Endpoint(environment, each, tells_leader=True) for each in range(PLAN.brokers)]
    run_until_finished(environment, SimulatedClients(environment))
    took = [value for broker in brokers for value in broker.took]
    batches = [value for value in took if isinstance(value, ProduceRequest)]
    assert len(batches) == 2, "one to a broker that does not lead, one to the leader"
    assert [type(value) for value in took].count(MetadataRequest) == 1
    assert batches[-1] in brokers[LEADER].took


def test_a_client_that_hears_of_no_leader_asks_until_it_gives_up() -> None:
    environment = SimulatedEnvironment(PLAN)
    brokers = [Endpoint(environment, each, tells_leader=False) for each in (0, 1, 2)]
    run_until_finished(environment, SimulatedClients(environment))
    assert environment.virtual_time.now_ms > BEGIN_MS + TRIES_FOR_MS
    asked = [value for each in brokers for value in each.took if isinstance(value, MetadataRequest)]
    assert len(asked) > 1

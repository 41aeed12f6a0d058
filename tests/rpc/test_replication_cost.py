"""A produce request and an idle round cost the same calls whatever the number of partitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from strandline import component_settings
from strandline.config.replication import ReplicationConfig
from strandline.config.timing import TimingConfig
from strandline.core.effects import (
    Effect,
    LogReadInfo,
    PersistState,
    ReplyFetch,
    ReplyProduce,
    SendFetch,
)
from strandline.core.events import (
    Event,
    FetchedPartition,
    FetchResponseReceived,
    LiveBrokersChanged,
    ProduceReceived,
    RecordsHandle,
    StatePersisted,
    Ticked,
)
from strandline.core.replicas import Replicas
from strandline.errors import ErrorCode
from strandline.model import (
    Acks,
    BatchSpan,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from strandline.rpc.fetch_session import FollowerFetchSession, LeaderFetchSession
from strandline.rpc.frames import FetchFrame, decode, encode_fetch
from tests.core.samples import alive, command, leader_and_isr, received, state
from tests.support.counted_calls import calls_of

FEW, MANY = 12, 1_000
TOLERANCE = 0.05
LEADER, FOLLOWERS = BrokerId(0), (BrokerId(1), BrokerId(2))
EPOCH, CONTROLLER_EPOCH = BrokerEpoch(1), ControllerEpoch(1)
SETTINGS = component_settings.core(TimingConfig(), ReplicationConfig())
TOPIC = TopicId("00000000-0000-4000-8000-000000000001")
WAIT_MS = SETTINGS.fetch_wait_max_ms


class Cluster:
    """The cores of a leader and two followers, with the sessions and frames of their streams."""

    def __init__(self, partitions: int) -> None:
        self.now_ms = 0
        self.acknowledged = 0
        self.responded = 0
        self._request_id = 0
        self._fetch_of: dict[int, tuple[BrokerId, int]] = {}
        self.tps = [TopicPartition(topic_id=TOPIC, partition=each) for each in range(partitions)]
        brokers = (LEADER, *FOLLOWERS)
        self._replicas = {each: Replicas(each, EPOCH, EPOCH, SETTINGS) for each in brokers}
        self._sending = {each: FollowerFetchSession() for each in FOLLOWERS}
        self._receiving = {each: LeaderFetchSession(session_id=each) for each in FOLLOWERS}
        live = LiveBrokersChanged(controller_epoch=CONTROLLER_EPOCH, brokers=alive(*brokers))
        commands = [command(state(min_isr=2), tp=tp, is_new=True) for tp in self.tps]
        for broker in brokers:
            self._step(broker, live)
            self._step(broker, leader_and_isr(*commands))
        self.pass_idle_wait()

    def produce(self, tp: TopicPartition) -> None:
        """Produce a batch with acks=all, until it is acknowledged and both followers wait again."""
        before = self.acknowledged
        self._step(
            LEADER,
            ProduceReceived(
                request_id=self._new_id(),
                tp=tp,
                acks=Acks.ALL,
                record_count=1,
                records=RecordsHandle("a batch"),
                timeout_ms=10_000,
            ),
        )
        assert self.acknowledged == before + 1

    def pass_idle_wait(self) -> None:
        """Let the wait of both followers end, and both fetch again."""
        before = self.responded
        self.now_ms += WAIT_MS
        self._step(LEADER, Ticked())
        assert self.responded == before + len(FOLLOWERS)

    def _new_id(self) -> int:
        self._request_id += 1
        return self._request_id

    def _step(self, broker: BrokerId, event: Event) -> None:
        for effect in self._replicas[broker].step(event, self.now_ms):
            self._carry(broker, effect)

    def _carry(self, broker: BrokerId, effect: Effect) -> None:
        match effect:
            case PersistState():
                self._step(broker, StatePersisted(token=effect.token))
            case SendFetch():
                self._send(broker, effect)
            case ReplyFetch():
                self._respond(effect)
            case ReplyProduce():
                assert effect.error is ErrorCode.NONE
                self.acknowledged += 1
            case _:
                pass

    def _send(self, follower: BrokerId, effect: SendFetch) -> None:
        fetch = received(effect, follower)
        message = b"".join(encode_fetch(self._sending[follower].frame_of(fetch)))
        (frame,) = decode(message)
        assert isinstance(frame, FetchFrame)
        self._step(LEADER, self._receiving[follower].fetch_of(frame))

    def _respond(self, effect: ReplyFetch) -> None:
        self.responded += 1
        response = FetchResponseReceived(
            request_id=effect.request_id,
            leader=LEADER,
            partitions=tuple(map(_fetched, effect.partitions)),
        )
        self._step(effect.follower, response)


def _fetched(read: LogReadInfo) -> FetchedPartition:
    batch = BatchSpan(
        base_offset=read.from_offset, next_offset=read.up_to_offset, leader_epoch=LeaderEpoch(0)
    )
    return FetchedPartition(
        tp=read.tp,
        error=read.error,
        high_watermark=read.high_watermark,
        log_start_offset=read.log_start_offset,
        batches=(batch,) if read.from_offset < read.up_to_offset else (),
    )


def _produce_to_last(cluster: Cluster) -> None:
    cluster.produce(cluster.tps[-1])


def _produce_to_several(cluster: Cluster) -> None:
    for tp in cluster.tps[:5]:
        cluster.produce(tp)


@pytest.mark.parametrize(
    "work",
    [_produce_to_last, _produce_to_several, Cluster.pass_idle_wait],
    ids=lambda w: w.__name__,
)
def test_the_calls_of_replication_do_not_grow_with_the_partitions(
    work: Callable[[Cluster], None],
) -> None:
    counts = []
    for partitions in (FEW, MANY):
        cluster = Cluster(partitions)
        for _ in range(2):
            work(cluster)  # the first times differ: an epoch begins, a high watermark is news
        counts.append(calls_of(partial(work, cluster)))
    few, many = counts
    print(f"{work.__name__}: {few} calls with {FEW} partitions, {many} with {MANY}")
    assert few > 0
    assert abs(many - few) <= TOLERANCE * few, counts

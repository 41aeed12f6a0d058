"""A broker refuses the first batch of a producer's pipeline: the next ones share the refusal."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from strandline import component_settings
from strandline.broker_interface import ProducePartition
from strandline.config.replication import ReplicationConfig
from strandline.config.storage import ConsumerReadConfig, StorageConfig
from strandline.config.timing import TimingConfig
from strandline.controller_session.messages import MetadataUpdate
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.effects import AppendAsLeader, CompleteFetch, Effect, ReplyProduce
from strandline.core.events import (
    Event,
    LeaderAndIsrReceived,
    LogDirectoryLost,
    LogFlushed,
    LogStartPersisted,
    StatePersisted,
    Ticked,
)
from strandline.core.replicas import Replicas
from strandline.errors import ErrorCode, StorageError
from strandline.kafka_listener.apis.produce import produce
from strandline.kafka_listener.budget import Budget
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.response import DeferredResponse, RequestContext
from strandline.kafka_listener.turns import at_once
from strandline.kafka_listener.wire import Message
from strandline.log import record_batch
from strandline.log.data_directory import DataDirectory
from strandline.log.log_segments import LogEnvironment
from strandline.log.recovery import LoadedLogs
from strandline.log.segment import SegmentPool
from strandline.log.state_file import BrokerState
from strandline.model import (
    Acks,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    PartitionCommand,
    PartitionEpoch,
    PartitionState,
    TopicId,
    TopicPartition,
)
from strandline.runtime.clients.broker_api import BrokerApi
from strandline.runtime.clients.producer_ids import ProducerIds
from strandline.runtime.clients.suspect_leaders import SuspectLeaders
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.event_loop.driver import Driver
from strandline.runtime.storage.disk_space import LOOK_INTERVAL_MS, DiskSpace
from strandline.runtime.storage.loaded_store import LoadedStore
from strandline.runtime.storage.replica_store import DiskEffect, ReplicaStore
from tests.log.support.batches import batch
from tests.log.support.logs import SMALL_INDEX
from tests.support.counted_calls import calls_of
from tests.support.eventually import aeventually
from tests.support.volumes import mounted_tmpfs

TP = TopicPartition(topic_id=TopicId("00000000-0000-4000-8000-000000000001"), partition=0)
TOPIC = "orders"
ME, OTHER = BrokerId(1), BrokerId(2)
EPOCH = BrokerEpoch(1)
CONTROLLER_EPOCH = ControllerEpoch(1)
PRODUCER = 9
DEFAULT_READS = ConsumerReadConfig()
RECORDS = 2
"""Records of each batch."""
LIMIT_MS = 5_000
NONE = ErrorCode.NONE
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
NOT_ENOUGH = ErrorCode.NOT_ENOUGH_REPLICAS
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Node:
    """Broker 1 as its clients see it: the shipped core over real logs, without peers."""

    def __init__(self, folder: Path, consumer_reads: ConsumerReadConfig = DEFAULT_READS) -> None:
        self.directory = DataDirectory.open(folder)
        self.failures: list[StorageError] = []
        self._metadata = MetadataCache("cluster", now_ms=lambda: 0)
        self._last_request_id = 0
        self._replicas = Replicas(
            ME, EPOCH, EPOCH, component_settings.core(TimingConfig(), ReplicationConfig())
        )
        clock = Clock()
        self._looked_ms = 0
        # How full the machine's own disk is must not matter.
        self.space = DiskSpace(
            folder, fill_max=1.0, now_ms=lambda: self._looked_ms, on_change=lambda _: None
        )
        self._driver: Driver[Event, Effect] = Driver(
            self._replicas,
            perform=self._perform,
            tick=Ticked(),
            now_ms=clock.now_ms,
            on_storage_error=self._lose_directory,
            on_broken_promise=_fail,
        )
        self.store = ReplicaStore(
            LoadedStore(
                directory=self.directory,
                state=BrokerState(),
                environment=LogEnvironment(
                    pool=SegmentPool(open_segments_max=128), limits=SMALL_INDEX
                ),
                found=LoadedLogs(),
            ),
            config=StorageConfig(),
            wall_time_us=clock.wall_time_us,
            on_persisted=lambda token: self._driver.submit(StatePersisted(token=token)),
            on_log_start_persisted=lambda tp, offset: self._driver.submit(
                LogStartPersisted(tp=tp, offset=offset)
            ),
            on_log_flushed=lambda tp, offset: self._driver.submit(LogFlushed(tp=tp, offset=offset)),
            on_trash_changed=lambda _trashed: None,
            on_failure=lambda error: self._driver.submit(self._lose_directory(error)),
        )
        self.store.start()
        self.broker_api = BrokerApi(
            replicas=self._replicas,
            store=self.store,
            metadata=self._metadata,
            suspects=SuspectLeaders(metadata=self._metadata),
            producer_ids=ProducerIds(ME, EPOCH),
            clock=clock,
            consumer_reads=consumer_reads,
            submit=self._driver.submit,
            next_request_id=self._next_request_id,
            space=self.space,
            on_produced=lambda *_: None,
            on_fetched=lambda *_: None,
        )

    @property
    def segment(self) -> Path:
        """The file of the partition's only segment."""
        return next(self.directory.path.glob("*-0/*.log"))

    def fill_volume(self, content: bytes) -> None:
        """Replace what another program keeps on the volume, and let the next batch look again."""
        (self.directory.path / "filler").write_bytes(content)
        self._looked_ms += LOOK_INTERVAL_MS

    def _lose_directory(self, error: StorageError) -> LogDirectoryLost:
        self.failures.append(error)
        return LogDirectoryLost(reason=str(error))

    def _next_request_id(self) -> int:
        self._last_request_id += 1
        return self._last_request_id

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, DiskEffect):
                self.store.perform(effect)
                if isinstance(effect, AppendAsLeader):
                    self.broker_api.on_appended(effect)
            elif isinstance(effect, ReplyProduce):
                self.broker_api.on_produced(effect)
            elif isinstance(effect, CompleteFetch):
                self.broker_api.on_fetch_completed(effect)

    async def apply_state(
        self,
        leader: BrokerId,
        epoch: int,
        *,
        others: tuple[BrokerId, ...] = (),
        min_insync_replicas: int = 1,
    ) -> None:
        """Receive a state with this leader and ISR, and wait until the core has applied it."""
        isr = tuple(IsrEntry(broker_id=each, broker_epoch=EPOCH) for each in (leader, *others))
        state = PartitionState(
            replicas=(ME, OTHER),
            leader=leader,
            leader_epoch=LeaderEpoch(epoch),
            partition_epoch=PartitionEpoch(epoch),
            isr=isr,
            min_insync_replicas=min_insync_replicas,
            controller_epoch=CONTROLLER_EPOCH,
        )
        command = PartitionCommand(tp=TP, topic_name=TOPIC, state=state)
        update = MetadataUpdate(
            controller_epoch=CONTROLLER_EPOCH,
            broker_epoch=EPOCH,
            controller_id=OTHER,
            live_brokers=(),
            partitions=(command,),
            removed=(),
            full=False,
        )
        assert self._metadata.apply(update)
        received = LeaderAndIsrReceived(
            request_id=self._next_request_id(),
            controller_epoch=CONTROLLER_EPOCH,
            broker_epoch=EPOCH,
            partitions=(command,),
        )
        self._driver.submit(received)

        async def applied() -> bool:
            view = self._replicas.view(TP)
            return view is not None and view.leader_epoch == epoch

        await aeventually(applied, LIMIT_MS, f"leader epoch {epoch}")

    async def send(
        self,
        *sequences: int,
        producer_epoch: int = 0,
        producer: int = PRODUCER,
        timeout_ms: int = LIMIT_MS,
        value: bytes = b"v",
    ) -> list[ErrorCode]:
        """Send batches without waiting for the responses in between; return their error codes."""
        awaited = [
            self.broker_api.produce(
                [
                    ProducePartition(
                        topic_name=TOPIC,
                        partition=0,
                        batch=batch(
                            [value] * RECORDS,
                            producer_id=producer,
                            producer_epoch=producer_epoch,
                            base_sequence=sequence,
                        ),
                    )
                ],
                acks=Acks.ALL,
                timeout_ms=timeout_ms,
                codec_max=4,
            )
            for sequence in sequences
        ]
        return [(await each)[0].error for each in awaited]


def _fail(error: Exception) -> NoReturn:
    raise AssertionError from error


def with_node(
    folder: Path,
    scenario: Callable[[Node], Awaitable[None]],
    consumer_reads: ConsumerReadConfig = DEFAULT_READS,
) -> None:
    async def run() -> None:
        node = Node(folder, consumer_reads)
        await scenario(node)
        node.broker_api.close()
        node.directory.close()

    asyncio.run(run())


async def refuse_as_follower(node: Node, epoch: int) -> None:
    await node.apply_state(OTHER, epoch)


async def refuse_under_min_isr(node: Node, epoch: int) -> None:
    await node.apply_state(ME, epoch, min_insync_replicas=2)


REFUSALS = pytest.mark.parametrize(
    ("refuse", "error"),
    [
        pytest.param(refuse_as_follower, NOT_LEADER, id="not leader"),
        pytest.param(refuse_under_min_isr, NOT_ENOUGH, id="under min ISR"),
    ],
)


@REFUSALS
def test_batches_behind_a_refused_one_share_its_refusal_until_it_comes_again(
    tmp_path: Path, refuse: Callable[[Node, int], Awaitable[None]], error: ErrorCode
) -> None:
    """OUT_OF_ORDER_SEQUENCE_NUMBER instead would make the client renumber batches in doubt."""

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        assert await node.send(0) == [NONE]
        await refuse(node, 1)
        assert await node.send(2, 4) == [error, error]
        await node.apply_state(ME, 2)
        assert await node.send(6, 8) == [error, error]
        assert await node.send(2, 4, 6, 8, 10) == [NONE] * 5

    with_node(tmp_path, scenario)


@REFUSALS
def test_a_batch_behind_a_refused_retry_shares_its_refusal(
    tmp_path: Path, refuse: Callable[[Node, int], Awaitable[None]], error: ErrorCode
) -> None:
    """Else librdkafka takes the next one's acknowledgement for both, and has no offset for this."""

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        assert await node.send(0) == [NONE]
        await refuse(node, 1)
        assert await node.send(0) == [error]
        await node.apply_state(ME, 2)
        assert await node.send(2) == [error]
        assert await node.send(0, 2) == [NONE, NONE]

    with_node(tmp_path, scenario)


def test_a_new_producer_does_not_begin_behind_its_refused_first_batch(
    tmp_path: Path,
) -> None:
    """The client would take an acknowledgement of the second batch for one of both batches."""

    async def scenario(node: Node) -> None:
        await node.apply_state(OTHER, 0)
        assert await node.send(0) == [NOT_LEADER]
        await node.apply_state(ME, 1)
        assert await node.send(2) == [NOT_LEADER]
        assert await node.send(0, 2) == [NONE, NONE]

    with_node(tmp_path, scenario)


def test_batches_behind_a_refusal_of_an_unknown_partition_share_it_once_the_partition_is_known(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        assert await node.send(0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await node.apply_state(ME, 0)
        assert await node.send(2) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await node.send(0, 2) == [NONE, NONE]

    with_node(tmp_path, scenario)


def test_a_gap_that_no_refusal_explains_is_out_of_order(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        assert await node.send(0, 4) == [NONE, OUT_OF_ORDER]
        await node.apply_state(OTHER, 1)
        assert await node.send(2) == [NOT_LEADER]
        await node.apply_state(ME, 2)
        assert await node.send(6) == [OUT_OF_ORDER], "a batch is missing in between"
        assert await node.send(4) == [OUT_OF_ORDER], "something else came in between"

    with_node(tmp_path, scenario)


def test_a_client_that_dropped_the_refused_batch_gets_out_of_order_at_its_retry(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        assert await node.send(0) == [NONE]
        await node.apply_state(OTHER, 1)
        assert await node.send(2) == [NOT_LEADER]
        await node.apply_state(ME, 2)
        assert await node.send(4) == [NOT_LEADER]
        assert await node.send(4) == [OUT_OF_ORDER]

    with_node(tmp_path, scenario)


def test_no_more_batches_share_a_refusal_than_can_be_in_flight_behind_it(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        assert await node.send(0) == [NONE]
        await node.apply_state(OTHER, 1)
        assert await node.send(2) == [NOT_LEADER]
        await node.apply_state(ME, 2)
        assert await node.send(4, 6, 8, 10, 12) == [NOT_LEADER] * 4 + [OUT_OF_ORDER]

    with_node(tmp_path, scenario)


def test_a_batch_behind_an_appended_but_unacknowledged_one_is_judged_by_itself(
    tmp_path: Path,
) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0, others=(OTHER,))
        assert await node.send(0, timeout_ms=0) == [ErrorCode.REQUEST_TIMED_OUT]
        await node.apply_state(ME, 1)
        assert await node.send(2, 0) == [NONE, NONE]

    with_node(tmp_path, scenario)


def test_neither_another_producer_nor_another_epoch_shares_a_refusal(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(OTHER, 0)
        assert await node.send((1 << 31) - 2) == [NOT_LEADER]
        await node.apply_state(ME, 1)
        assert await node.send(0, producer=PRODUCER + 1) == [NONE]
        assert await node.send(0, producer_epoch=1) == [NONE]

    with_node(tmp_path, scenario)


def test_a_batch_behind_a_retry_that_timed_out_is_judged_by_itself(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0, others=(OTHER,))
        assert await node.send(0, 0, timeout_ms=0) == [ErrorCode.REQUEST_TIMED_OUT] * 2
        await node.apply_state(ME, 1)
        assert await node.send(2) == [NONE]

    with_node(tmp_path, scenario)


def test_a_leader_reads_a_header_once_and_checks_a_crc_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Counter[str]()
    for name in ("parse_header", "check_crc"):
        monkeypatch.setattr(record_batch, name, counting(calls, getattr(record_batch, name)))

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0)
        data = batch([b"v"], producer_id=PRODUCER, producer_epoch=0, base_sequence=0)
        context = RequestContext(
            broker=node.broker_api,
            listener_name="INTERNAL",
            settings=ListenerSettings(),
            response_memory=Budget(most=1 << 20),
        )
        partition = {"index": 0, "records": memoryview(data)}
        request: Message = {
            "transactional_id": None,
            "acks": Acks.ALL.value,
            "timeout_ms": LIMIT_MS,
            "topics": [{"name": TOPIC, "partitions": [partition]}],
        }
        deferred = at_once(produce(context, 9, request))
        assert isinstance(deferred, DeferredResponse)
        assert at_once(deferred.finish(await deferred.result)).error is NONE

    with_node(tmp_path, scenario)
    assert calls == {"parse_header": 1, "check_crc": 1}


def counting(calls: Counter[str], function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*arguments: Any) -> Any:
        calls[function.__name__] += 1
        return function(*arguments)

    return counted


@pytest.mark.parametrize("topic", [TOPIC, "absent"], ids=["waiting", "refused"])
def test_the_work_of_a_produce_request_is_proportional_to_its_partitions(
    tmp_path: Path, topic: str
) -> None:
    """One partition exists; the others are refused, each with a step of the same cost."""

    async def scenario(node: Node) -> None:
        await node.apply_state(ME, 0, others=(OTHER,))
        small, large = (
            calls_of(partial(_produce_to, node, topic, partitions)) for partitions in (100, 1_000)
        )
        assert large < 11 * small

    with_node(tmp_path, scenario)


def _produce_to(node: Node, topic: str, partitions: int) -> None:
    sent = [
        ProducePartition(topic_name=topic, partition=each, batch=batch([b"v"]))
        for each in range(partitions)
    ]
    node.broker_api.produce(sent, acks=Acks.ALL, timeout_ms=LIMIT_MS, codec_max=4)


def test_a_full_volume_refuses_new_batches_and_knows_old_ones(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.space.change_fill_max(0.5)
        await node.apply_state(ME, 0)
        assert await node.send(0) == [NONE]
        node.fill_volume(bytes(1 << 20))
        full = ErrorCode.KAFKA_STORAGE_ERROR
        assert await node.send(2, 4) == [full, full]
        assert await node.send(0) == [NONE]
        node.fill_volume(b"")
        assert await node.send(2, 4) == [NONE, NONE]

    with mounted_tmpfs(tmp_path, "size=1200k"):
        with_node(tmp_path, scenario)

"""A leader with all of its parts but the sockets, and two followers that are cores alone.

What the leader does for a produce request runs here: the listener's connection, the core with its
shell, logs on disk, and the replication streams, which a test carries instead of gRPC.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from strandline import component_settings
from strandline.config.network import GrpcConfig
from strandline.config.replication import ReplicationConfig
from strandline.config.storage import ConsumerReadConfig, StorageConfig
from strandline.config.timing import TimingConfig
from strandline.controller_session.messages import MetadataUpdate
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.copy_quota import CopyQuota
from strandline.core.effects import PersistState, SendFetch
from strandline.core.events import (
    Event,
    FetchedPartition,
    FetchResponseReceived,
    LiveBrokersChanged,
    StatePersisted,
    Ticked,
)
from strandline.core.replicas import Replicas
from strandline.kafka_listener.client_bounds import ClientBounds
from strandline.kafka_listener.connection import ListenerState
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.response import RequestContext
from strandline.log.data_directory import DataDirectory
from strandline.log.log_segments import LogEnvironment
from strandline.log.record_batch import read_fetched
from strandline.log.recovery import LoadedLogs
from strandline.log.segment import LogLimits, SegmentPool
from strandline.log.state_file import BrokerState
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Registration,
    TopicId,
    TopicPartition,
)
from strandline.rpc.fetch_session import FollowerFetchSession
from strandline.rpc.frames import EndFrame, RecordsFrame, decode, encode_fetch
from strandline.rpc.replication_server import replication_service
from strandline.runtime.clients.broker_api import BrokerApi
from strandline.runtime.clients.producer_ids import ProducerIds
from strandline.runtime.clients.suspect_leaders import SuspectLeaders
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.observability.metrics import Metrics
from strandline.runtime.observability.notice_reporters import CoreNoticeReporter
from strandline.runtime.observability.traffic_metrics import ListenerMetrics, ThroughputMetrics
from strandline.runtime.shells.core_shell import CoreShell
from strandline.runtime.shells.replication_transport import ReplicationTransport
from strandline.runtime.storage.disk_space import DiskSpace
from strandline.runtime.storage.loaded_store import LoadedStore
from strandline.runtime.storage.replica_store import ReplicaStore
from tests.core.samples import alive, command, leader_and_isr, received, state
from tests.kafka.unconnected import Client
from tests.support.counted_calls import CallCount
from tests.support.eventually import aeventually

LEADER, FOLLOWERS = BrokerId(0), (BrokerId(1), BrokerId(2))
BROKERS = (LEADER, *FOLLOWERS)
EPOCH, CONTROLLER_EPOCH = BrokerEpoch(1), ControllerEpoch(1)
SETTINGS = component_settings.core(TimingConfig(), ReplicationConfig())
TOPIC_ID = TopicId("00000000-0000-4000-8000-000000000001")
LIMITS = LogLimits(index_interval_bytes=4_096, index_size_max_bytes=1 << 20)
LIMIT_MS = 60_000
TURNS_MAX = 50
"""Turns of the event loop in which a broker is done with what came."""


class MovedClock(Clock):
    """Time passes where a test says so."""

    def __init__(self) -> None:
        self._now_ms = 1_000

    def now_ms(self) -> int:
        return self._now_ms

    def pass_ms(self, passed: int) -> None:
        self._now_ms += passed


class Stream:
    """The leader's end of one follower's stream, in the place of gRPC's call."""

    def __init__(self) -> None:
        self._incoming = asyncio.Queue[bytes]()
        self.sent: list[bytes] = []

    def peer(self) -> str:
        return "a follower"

    async def read(self) -> bytes:
        return await self._incoming.get()

    async def write(self, message: bytes) -> None:
        self.sent.append(message)

    def deliver(self, message: bytes) -> None:
        self._incoming.put_nowait(message)


class Follower:
    """The core of a follower, and its end of the stream."""

    def __init__(self, broker_id: BrokerId, stream: Stream, clock: Clock) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self.stream = stream
        self._core = Replicas(broker_id, EPOCH, EPOCH, SETTINGS)
        self._session = FollowerFetchSession()
        self.fetches: list[bytes] = []
        """Not delivered yet."""

    def step(self, event: Event) -> None:
        for effect in self._core.step(event, self._clock.now_ms()):
            if isinstance(effect, PersistState):
                self.step(StatePersisted(token=effect.token))
            elif isinstance(effect, SendFetch):
                self._fetch(effect)

    def take_responses(self) -> None:
        """Take what the leader has sent."""
        for message in self.stream.sent:
            frames: list[RecordsFrame] = []
            for frame in decode(message):
                if isinstance(frame, RecordsFrame):
                    frames.append(frame)
                else:
                    assert isinstance(frame, EndFrame)
                    partitions = tuple(map(_fetched, frames))
                    request_id = frame.request_id
                    self.step(
                        FetchResponseReceived(
                            request_id=request_id, leader=LEADER, partitions=partitions
                        )
                    )
        self.stream.sent.clear()

    def _fetch(self, effect: SendFetch) -> None:
        fetch = received(effect, self._broker_id)
        self.fetches.append(b"".join(encode_fetch(self._session.frame_of(fetch))))


class WholeLeader:
    """Broker 0, which leads every partition; `calls` counts what it calls for requests."""

    def __init__(self, folder: Path) -> None:
        self.calls = CallCount()
        self.responses: list[bytes] = []
        self._clock = MovedClock()
        self._directory = DataDirectory.open(folder)
        self._metadata = MetadataCache("cluster", now_ms=lambda: 0)
        self._replicas = Replicas(LEADER, EPOCH, EPOCH, SETTINGS)
        self._next_request_id = itertools.count(1).__next__
        self._metrics = Metrics()
        self._throughput = ThroughputMetrics(self._metrics)
        self._store = self._make_store()
        self._space = DiskSpace(
            folder, fill_max=1.0, now_ms=self._clock.now_ms, on_change=lambda _: None
        )
        self._broker_api = BrokerApi(
            replicas=self._replicas,
            store=self._store,
            metadata=self._metadata,
            suspects=SuspectLeaders(metadata=self._metadata),
            producer_ids=ProducerIds(LEADER, EPOCH),
            clock=self._clock,
            consumer_reads=ConsumerReadConfig(),
            submit=self._submit,
            next_request_id=self._next_request_id,
            space=self._space,
            on_produced=self._throughput.produced,
            on_fetched=self._throughput.fetched,
        )
        self._transport = self._make_transport()
        self.shell = CoreShell(
            self._replicas,
            store=self._store,
            broker_api=self._broker_api,
            replication_transport=self._transport,
            step_session=lambda _: None,
            reporter=CoreNoticeReporter(self._metrics, self._clock),
            clock=self._clock,
            on_full_state=lambda: None,
            on_storage_error=_fail,
            on_broken_promise=_fail,
        )
        service: Any = replication_service(
            self._transport.on_fetch, self._transport.on_follower_gone, GrpcConfig()
        )
        details = type("Details", (), {"method": "/strandline.v1.Replication/Replicate"})()
        replicate: Callable[[None, Stream], Awaitable[None]] = service.service(
            details
        ).stream_stream
        self._followers = [Follower(each, Stream(), self._clock) for each in FOLLOWERS]
        self._streams = [
            asyncio.ensure_future(replicate(None, each.stream)) for each in self._followers
        ]
        self._client = Client(self._listener(), self.responses)

    def _submit(self, event: Event) -> None:
        self.shell.submit(event)

    def _listener(self) -> ListenerState:
        settings = ListenerSettings()
        bounds = ClientBounds.of(settings, asyncio.get_running_loop())
        context = RequestContext(
            broker=self._broker_api,
            listener_name="INTERNAL",
            settings=settings,
            response_memory=bounds.response_memory,
        )
        observer = ListenerMetrics(self._metrics)
        return ListenerState(context=context, observer=observer, bounds=bounds)

    def _make_store(self) -> ReplicaStore:
        environment = LogEnvironment(pool=SegmentPool(open_segments_max=128), limits=LIMITS)
        return ReplicaStore(
            LoadedStore(
                directory=self._directory,
                state=BrokerState(),
                environment=environment,
                found=LoadedLogs(),
            ),
            config=StorageConfig(),
            wall_time_us=self._clock.wall_time_us,
            on_persisted=lambda token: self._submit(StatePersisted(token=token)),
            on_log_start_persisted=lambda _tp, _offset: None,
            on_log_flushed=lambda _tp, _offset: None,
            on_trash_changed=lambda _trashed: None,
            on_failure=_fail,
        )

    def _make_transport(self) -> ReplicationTransport:
        registration = Registration(
            broker_id=LEADER,
            broker_epoch=EPOCH,
            clean_since_epoch=EPOCH,
            endpoints=(),
            incarnation="a process",
            log_dir_id="a folder",
            boot_id="a boot",
        )
        return ReplicationTransport(
            registration=registration,
            store=self._store,
            space=self._space,
            live_broker=self._metadata.live_broker,
            submit=self._submit,
            next_request_id=self._next_request_id,
            grpc=GrpcConfig(),
            partition_fetch_max_bytes=1 << 20,
            response_max_bytes=1 << 22,
            on_bytes=self._throughput.replicated,
            copies=CopyQuota(rate=1 << 20),
            on_copied=self._throughput.copied,
            on_copy_held_back=self._throughput.copy_held_back,
            now_ms=self._clock.now_ms,
        )

    async def lead(self, partitions: int) -> None:
        """Lead so many partitions; the followers are in sync and wait for records."""
        self._store.start()
        tps = [TopicPartition(topic_id=TOPIC_ID, partition=each) for each in range(partitions)]
        commands = tuple(command(state(min_isr=2), tp=tp, is_new=True) for tp in tps)
        live = alive(*BROKERS)
        update = MetadataUpdate(
            controller_epoch=CONTROLLER_EPOCH,
            broker_epoch=EPOCH,
            controller_id=LEADER,
            live_brokers=live,
            partitions=commands,
            removed=(),
            full=True,
        )
        assert self._metadata.apply(update)
        for step in (self._submit, *(each.step for each in self._followers)):
            step(LiveBrokersChanged(controller_epoch=CONTROLLER_EPOCH, brokers=live))
            step(leader_and_isr(*commands))
        await aeventually(partial(self._is_on_disk, partitions), LIMIT_MS, "an epoch of each log")
        await self._exchange()
        # From now on `idle` alone lets time pass: a timer of a slow run would be one tick more.
        loop = asyncio.get_running_loop()
        now_seconds = loop.time()
        loop.time = lambda: now_seconds  # type: ignore[method-assign]  # asyncio has no clock to give

    async def _is_on_disk(self, partitions: int) -> bool:
        """Tell whether nothing of the leadership is left to be written beside the requests."""
        return len([*self._directory.path.glob("*/leader-epoch-checkpoint")]) == partitions

    async def produce(self, request: bytes) -> bytes:
        """Send a request with acks=all; return its response once both followers wait again."""
        with self.calls.counted():
            self._client.deliver(request)
        await self._exchange()
        (response,) = self.responses
        self.responses.clear()
        return response

    async def idle(self, waits: int) -> None:
        """Let so many waits of the followers' fetches end, with nothing new to fetch."""
        for _ in range(waits):
            self._clock.pass_ms(SETTINGS.fetch_wait_max_ms)
            with self.calls.counted():
                self.shell.submit(Ticked())
            await self._exchange()

    async def _exchange(self) -> None:
        """Carry messages between leader and followers until none is left."""
        await self._turns()
        while any(each.stream.sent or each.fetches for each in self._followers):
            for follower in self._followers:
                follower.take_responses()
                for fetch in follower.fetches:
                    with self.calls.counted():
                        follower.stream.deliver(fetch)
                    await self._turns()
                follower.fetches.clear()

    async def _turns(self) -> None:
        with self.calls.counted():
            for _ in range(TURNS_MAX):
                await asyncio.sleep(0)

    async def stop(self) -> None:
        """End every task."""
        self.shell.stop()
        for stream in self._streams:
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        self._broker_api.close()
        await self._store.stop({})


def _fetched(frame: RecordsFrame) -> FetchedPartition:
    return FetchedPartition(
        tp=frame.tp,
        error=frame.error,
        high_watermark=frame.high_watermark,
        log_start_offset=frame.log_start_offset,
        batches=read_fetched(frame.records).spans,
    )


def _fail(error: Exception) -> NoReturn:
    raise AssertionError from error

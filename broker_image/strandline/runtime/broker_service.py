"""A broker's replicas, its controller, and everybody who talks to them.

One `lifecycle.Service`: made before registration, loads the logs, starts under the
registration, serves clients after the first full state, hands leadership over when it drains,
and brings everything to disk when it stops.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack

import grpc.aio

from strandline import component_settings, names
from strandline.controller.controller import Controller
from strandline.controller.events import ControllerEvent, StopRequested
from strandline.controller.store_events import ControllerEpochSeen, HolderDied, LeaseObserved
from strandline.controller_session.messages import MetadataUpdate
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.effects import Effect
from strandline.core.events import (
    Event,
    LeaderAndIsrReceived,
    LiveBrokersChanged,
    LogDirectoryLost,
    ReplicaLoaded,
    StatePersisted,
    Ticked,
)
from strandline.core.replicas import Replicas
from strandline.core.views import RoleName
from strandline.errors import InvariantViolation, StorageError
from strandline.kafka_listener import server as kafka_server
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.log.log_segments import LogEnvironment
from strandline.log.recovery import LoadedLogs
from strandline.log.segment import LogLimits, SegmentPool
from strandline.log_fields import fields
from strandline.model import NO_EPOCH, LeaseRecord, Registration
from strandline.rpc.probes import PeerIdentity, peer_service
from strandline.rpc.replication_server import replication_service
from strandline.rpc.session_client import (
    ControlledShutdownResponseReceived,
    Replica,
    SessionMessage,
    SessionRefused,
)
from strandline.rpc.session_server import SessionServer
from strandline.rpc.streams import channel_options
from strandline.rpc.unknown_callers import log_silent_connections, not_served

from .broker_api import BrokerApi
from .controller_session import ControllerSession
from .controller_shell import ControllerShell
from .driver import Driver
from .lifecycle import INTERNAL_LISTENER, Context
from .listener_metrics import ListenerMetrics
from .notice_reporters import ControllerNoticeReporter, CoreNoticeReporter
from .perform import CorePerformer
from .producer_ids import ProducerIds
from .registration import holder_identity
from .replica_metrics import ReplicaMetrics
from .replica_store import ReplicaStore
from .replication_transport import ReplicationTransport
from .throughput_metrics import ThroughputMetrics

_log = logging.getLogger(__name__)
STOP_SECONDS = 2.0
"""How long the Lease's release and open streams may take at the end."""
SHUTDOWN_RETRY_SECONDS = 0.1
SHUTDOWN_STALLED_MS = 3_000
"""After this time without a leader moved, though the controller answers, none will move."""


class BrokerService:
    """Everything a broker does beyond being registered."""

    def __init__(self, context: Context) -> None:
        self._context = context
        config = context.config
        self._lease_name = f"{config.identity.cluster}-controller"
        self._request_ids = itertools.count(1)
        self._core_reporter = CoreNoticeReporter(context.metrics, context.clock)
        self._controller_reporter = ControllerNoticeReporter(
            context.metrics, lease_name=self._lease_name
        )
        self._throughput = ThroughputMetrics(context.metrics)
        self._store = ReplicaStore(
            context.directory,
            context.state,
            LogEnvironment(
                pool=SegmentPool(open_segments_max=config.storage.open_segments_max),
                limits=LogLimits(
                    index_interval_bytes=config.storage.index_interval_bytes,
                    index_size_max_bytes=config.storage.index_size_max_bytes,
                ),
                on_flush=context.metrics.histogram(names.LOG_FLUSH_SECONDS).observe,
            ),
            on_persisted=lambda token: self._driver.submit(StatePersisted(token=token)),
            on_failure=lambda error: self._driver.submit(self._lose_directory(error)),
        )
        self._metadata = MetadataCache(
            config.identity.cluster, controller_epoch=context.state.controller_epoch
        )
        self._loaded = LoadedLogs()
        self._full_state_applied = asyncio.Event()
        self._kafka: kafka_server.KafkaListener | None = None
        self._begun = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    # --- lifecycle.Service -----------------------------------------------------------------

    async def load(self, *, clean: bool) -> bool:
        """Open every log; True if any holds less than this broker once had."""
        self._loaded = await asyncio.to_thread(self._store.load, clean=clean)
        for warning in self._loaded.warnings:
            _log.warning("log loaded with a finding", extra=fields(finding=warning))
        _log.info("logs loaded", extra=fields(partitions=len(self._loaded.logs), clean=clean))
        return bool(self._loaded.lost)

    async def start(self, registration: Registration) -> None:
        """Begin work under this registration."""
        self._make_parts(registration)
        self._store.start()
        for hosted in self._loaded.hosted:
            self._driver.submit(ReplicaLoaded(hosted=hosted))
        await self._start_grpc(registration)
        self._begun.push_async_callback(self._replication_transport.close)
        self._begun.callback(self._driver.stop)
        self._begun.push_async_callback(self._controller_shell.stop)
        self._begun.push_async_callback(self._end_clients)
        seen = ControllerEpochSeen(controller_epoch=self._store.controller_epoch)
        self._controller_shell.submit(seen)
        self._controller_shell.start()
        self._tasks = [
            asyncio.create_task(self._controller_session.run(), name="controller session"),
            asyncio.create_task(self._serve_clients(), name="kafka listener"),
            asyncio.create_task(log_silent_connections(), name="silent connections"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._end_with)

    def ready(self) -> bool:
        """Tell whether the first full state was applied and clients are served."""
        return self._kafka is not None

    async def drain(self) -> None:
        """Leave the ISRs and have leaders moved away; with nothing led here one try is enough.

        What nobody takes for a while stays, as when all brokers stop at once; its data is safe.
        """
        least: int | None = None
        moved_at_ms = 0
        while (remaining := await self._controller_session.controlled_shutdown()) != 0:
            now_ms = self._context.clock.now_ms()
            if remaining is None:
                if not self._leads():
                    return
            elif least is None or remaining < least:
                least, moved_at_ms = remaining, now_ms
                _log.info("controlled shutdown goes on", extra=fields(remaining=remaining))
            elif now_ms - moved_at_ms >= SHUTDOWN_STALLED_MS:
                _log.warning("nobody takes the rest", extra=fields(remaining=remaining))
                return
            await asyncio.sleep(SHUTDOWN_RETRY_SECONDS)

    async def stop(self) -> None:
        """Resign as controller, close all streams, bring everything to disk."""
        await self._end_clients()
        self._controller_shell.submit(StopRequested())
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._controller_shell.settled()
        except TimeoutError:
            _log.warning("controller lease not released in time")
        await self.close()
        await self._store.stop(dict(self._replicas.high_watermarks()))

    async def close(self) -> None:
        """End what `start` began, the last first; nothing more is brought to disk."""
        await self._begun.aclose()

    async def _end_clients(self) -> None:
        """Serve clients no more; a stop does so before the resignation, every close again."""
        for task in self._tasks:
            task.remove_done_callback(self._end_with)
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._kafka is not None:
            await self._kafka.close()

    # --- parts -----------------------------------------------------------------------------

    def _make_parts(self, registration: Registration) -> None:
        context, config = self._context, self._context.config
        self._replicas = Replicas(
            registration.broker_id,
            registration.broker_epoch,
            registration.clean_since_epoch,
            component_settings.core(config.timing, config.replication),
            controller_epoch=self._store.controller_epoch,
        )
        self._driver: Driver[Event, Effect] = Driver(
            self._replicas,
            perform=self._perform,
            tick=Ticked(),
            now_ms=context.clock.now_ms,
            on_storage_error=self._lose_directory,
            on_broken_promise=self._end_with_broken_promise,
        )
        self._make_controller(registration)
        self._make_core_shell(registration)
        context.metrics.registry.register(
            ReplicaMetrics(
                broker_id=registration.broker_id,
                views=self._replicas.views,
                purgatory_sizes=self._replicas.purgatory_sizes,
                logs=lambda: self._store.logs,
                is_live=lambda: self._metadata.live_broker(registration.broker_id) is not None,
                controller_epoch=lambda: self._replicas.controller_epoch,
                controller=self._controller,
                reporter=self._core_reporter,
                clock=context.clock,
                detail_max=config.observability.partition_detail_max,
            )
        )

    def _make_core_shell(self, registration: Registration) -> None:
        context, config = self._context, self._context.config
        self._controller_session = ControllerSession(
            registration=registration,
            store=context.store,
            clock=context.clock,
            timing=component_settings.controller_session(
                config.timing, config.controller, config.replication
            ),
            grpc=config.grpc,
            hosted=self._hosted,
            highest_controller_epoch=lambda: self._replicas.controller_epoch,
            on_message=self._on_controller_message,
            on_holder_died=lambda holder: self._controller_shell.submit(
                HolderDied(holder_identity=holder)
            ),
        )
        self._broker_api = BrokerApi(
            replicas=self._replicas,
            store=self._store,
            metadata=self._metadata,
            producer_ids=ProducerIds(registration.broker_id, registration.broker_epoch),
            clock=context.clock,
            submit=self._driver.submit,
            next_request_id=lambda: next(self._request_ids),
            on_produced=self._throughput.produced,
            on_fetched=self._throughput.fetched,
        )
        self._replication_transport = ReplicationTransport(
            registration=registration,
            store=self._store,
            live_broker=self._metadata.live_broker,
            submit=self._driver.submit,
            next_request_id=lambda: next(self._request_ids),
            grpc=config.grpc,
            partition_fetch_max_bytes=config.replication.fetch_max_bytes,
            response_max_bytes=config.replication.fetch_response_max_bytes,
            on_bytes=self._throughput.replicated,
        )
        self._performer = CorePerformer(
            store=self._store,
            broker_api=self._broker_api,
            replication_transport=self._replication_transport,
            controller_session=self._controller_session,
            reporter=self._core_reporter,
            submit=self._driver.submit,
            on_full_state=self._full_state_applied.set,
        )

    def _make_controller(self, registration: Registration) -> None:
        context, config = self._context, self._context.config
        self._sessions = SessionServer(
            registration.broker_id, config.grpc, on_event=self._submit_to_controller
        )
        self._controller = Controller(
            broker_id=registration.broker_id,
            identity=holder_identity(registration.broker_id, registration.incarnation),
            rank=registration.broker_id,
            timing=component_settings.controller(
                config.timing, config.controller, config.replication
            ),
        )
        self._controller_shell = ControllerShell(
            self._controller,
            store=context.store,
            leases=context.leases,
            lease_name=self._lease_name,
            sessions=self._sessions,
            clock=context.clock,
            on_lease=self._on_lease,
            on_notice=self._controller_reporter.report,
            on_step=self._controller_reporter.stepped,
            on_broken_promise=self._end_with_broken_promise,
        )

    async def _start_grpc(self, registration: Registration) -> None:
        identity = PeerIdentity(
            broker_id=registration.broker_id,
            broker_epoch=registration.broker_epoch,
            incarnation=registration.incarnation,
        )
        settings = self._context.config.grpc
        options = (*channel_options(settings), ("grpc.so_reuseport", 1))
        server = grpc.aio.server(options=options)
        server.add_generic_rpc_handlers(
            (
                self._sessions.service(),
                peer_service(identity, lambda: self._replicas.controller_epoch),
                replication_service(
                    self._replication_transport.on_fetch,
                    self._replication_transport.on_follower_gone,
                    settings,
                ),
                not_served(),
            )
        )
        port = self._context.grpc_socket.getsockname()[1]
        server.add_insecure_port(f"0.0.0.0:{port}")
        await server.start()
        # A loop that ends first drops the task that waits for the next call; gRPC's own threads
        # then write that call into memory which Python has given to somebody else (grpcio 1.85:
        # RPCState of a pending grpc_server_request_call).
        self._begun.push_async_callback(server.stop, None)

    def _end_with_broken_promise(self, violation: InvariantViolation) -> None:
        violations = self._context.metrics.counter(names.INVARIANT_VIOLATIONS_TOTAL)
        violations.labels(violation.promise).inc()
        self._context.fail(violation)

    def _lose_directory(self, error: StorageError) -> LogDirectoryLost:
        """End the process once its replicas have refused everybody: others must lead now."""
        asyncio.get_running_loop().call_soon(self._context.fail, error)
        return LogDirectoryLost(reason=str(error))

    def _perform(self, effects: Sequence[Effect]) -> None:
        self._performer.perform(effects)

    def _submit_to_controller(self, event: ControllerEvent) -> None:
        self._controller_shell.submit(event)

    # --- what others say -------------------------------------------------------------------

    def _on_lease(self, lease: LeaseRecord | None) -> None:
        self._controller_session.observe_lease(lease)
        self._controller_shell.submit(LeaseObserved(lease=lease))

    def _on_controller_message(self, message: SessionMessage) -> None:
        if isinstance(message, MetadataUpdate):
            if self._metadata.apply(message):
                self._driver.submit(
                    LiveBrokersChanged(
                        controller_epoch=message.controller_epoch,
                        brokers=message.live_brokers,
                    )
                )
        elif not isinstance(message, ControlledShutdownResponseReceived | SessionRefused):
            if isinstance(message, LeaderAndIsrReceived):
                seen = ControllerEpochSeen(controller_epoch=message.controller_epoch)
                self._controller_shell.submit(seen)
            self._driver.submit(message)

    def _leads(self) -> bool:
        return any(view.role is RoleName.LEADER for view in self._replicas.views())

    def _hosted(self) -> list[Replica]:
        """Return what is on disk here, as hellos and heartbeats report it."""
        return [
            Replica(
                tp=view.tp,
                leader_epoch=view.leader_epoch,
                partition_epoch=view.partition_epoch,
                log_end_offset=view.log_end_offset,
                last_epoch=view.epochs[-1].leader_epoch if view.epochs else NO_EPOCH,
            )
            for view in self._replicas.views()
        ]

    async def _serve_clients(self) -> None:
        """Open the Kafka port once the first full state was applied, and keep it open."""
        await self._full_state_applied.wait()
        config = self._context.config
        self._kafka = await kafka_server.start(
            bound=self._context.internal_socket,
            listener_name=INTERNAL_LISTENER,
            broker=self._broker_api,
            settings=ListenerSettings.from_config(config.kafka),
            observer=ListenerMetrics(self._context.metrics),
        )

    def _end_with(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._context.fail(error)

"""A broker's replicas, its controller, its session with the controller, and its clients.

The `lifecycle.Service` of a registered broker, built on the logs that were loaded from disk. It
serves clients after the first full state, hands leadership over when it drains, and brings
everything to disk when it stops.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from contextlib import AsyncExitStack

import grpc.aio

from strandline import component_settings, names
from strandline.config.broker import BrokerConfig
from strandline.controller.controller import Controller
from strandline.controller.events import ControllerEvent, StopRequested
from strandline.controller.store_events import ControllerEpochSeen
from strandline.controller_session.controller_session import ControllerSession
from strandline.controller_session.events import (
    CommandPerformed,
    ControllerIntroduced,
    TrashChanged,
    VolumeChanged,
)
from strandline.controller_session.messages import ReplyRestoreReplica
from strandline.controller_session.metadata_cache import MetadataCache
from strandline.core.copy_quota import CopyIntakeChanged, CopyQuota
from strandline.core.events import Event as CoreEvent
from strandline.core.events import (
    LogDirectoryLost,
    LogFlushed,
    LogStartPersisted,
    ReplicaLoaded,
    StatePersisted,
)
from strandline.core.replicas import Replicas
from strandline.errors import InvariantViolation, StorageError
from strandline.kafka_listener import server as listener_server
from strandline.kafka_listener.client_bounds import ClientBounds
from strandline.kafka_listener.listener_settings import ListenerSettings
from strandline.kafka_listener.server import KafkaListener
from strandline.model import (
    EXTERNAL_LISTENER,
    INTERNAL_LISTENER,
    HolderIdentity,
    Registration,
    TopicPartition,
    TrashedReplica,
    joined_address,
)
from strandline.rpc.probes import peer_service
from strandline.rpc.replication_server import replication_service
from strandline.rpc.session_server import SessionServer
from strandline.rpc.streams import channel_options
from strandline.rpc.unknown_callers import log_silent_connections, not_served
from strandline.runtime.clients.broker_api import BrokerApi
from strandline.runtime.clients.producer_ids import ProducerIds
from strandline.runtime.clients.suspect_leaders import SuspectLeaders
from strandline.runtime.event_loop.begun_tasks import BegunTasks
from strandline.runtime.observability.notice_reporters import (
    ControllerNoticeReporter,
    CoreNoticeReporter,
)
from strandline.runtime.observability.replica_metrics import ReplicaMetrics
from strandline.runtime.observability.traffic_metrics import ListenerMetrics, ThroughputMetrics
from strandline.runtime.shells.controller_session_shell import ControllerSessionShell
from strandline.runtime.shells.controller_shell import ControllerShell
from strandline.runtime.shells.core_shell import CoreShell
from strandline.runtime.shells.lease_watch import watch_lease
from strandline.runtime.shells.peer_connections import PeerConnections
from strandline.runtime.shells.replication_transport import ReplicationTransport
from strandline.runtime.storage.disk_space import DiskSpace
from strandline.runtime.storage.loaded_store import LoadedStore
from strandline.runtime.storage.replica_store import ReplicaStore
from strandline.runtime.storage.retention_check import RetentionCheck
from strandline.runtime.storage.trash_restorer import TrashRestorer

from .external_listener import ExternalListener
from .lifecycle import Context

_log = logging.getLogger(__name__)
STOP_SECONDS = 2.0
"""How long the controller may take to release its Lease at the end."""


class BrokerService:
    """Everything a broker does beyond being registered."""

    def __init__(self, context: Context, registration: Registration, loaded: LoadedStore) -> None:
        self._context = context
        self._registration = registration
        self._loaded = loaded
        self._lease_name = f"{context.config.identity.cluster}-controller"
        self._throughput = ThroughputMetrics(context.metrics)
        self._next_request_id = itertools.count(1).__next__
        self._metadata = MetadataCache(
            context.config.identity.cluster,
            now_ms=context.clock.now_ms,
            controller_epoch=loaded.state.controller_epoch,
        )
        self._suspects = SuspectLeaders(metadata=self._metadata)
        self._peers = PeerConnections(
            own=registration.broker_id,
            live_brokers=self._metadata.live_brokers,
            on_lost=self._suspects.note_lost,
            on_heard=self._suspects.note_heard,
            idle_max_ms=context.config.kafka.connection_idle_max_ms,
        )
        self._metadata.watch(self._on_metadata)
        self._replicas = Replicas(
            registration.broker_id,
            registration.broker_epoch,
            registration.clean_since_epoch,
            component_settings.core(context.config.timing, context.settings.config.replication),
            controller_epoch=loaded.state.controller_epoch,
        )
        self._store = self._make_store()
        self._restorer = TrashRestorer(
            self._store,
            step_replicas=self._step_replicas,
            on_done=self._on_restore_done,
            on_failure=self._on_store_failed,
        )
        self._space = self._make_space()
        self._sessions = SessionServer(
            registration.broker_id, context.config.grpc, on_event=self._step_controller
        )
        self._controller = self._make_controller()
        self._controller_shell = self._make_controller_shell()
        self._session_shell = self._make_session_shell()
        self._broker_api = self._make_broker_api()
        self._copy_quota = CopyQuota(rate=context.settings.config.replication.copy_rate_max)
        self._transport = self._make_transport()
        self._retention = self._retention_check()
        self._full_state_applied = asyncio.Event()
        self._clients: KafkaListener | None = None
        self._clients_outside = ExternalListener(
            config=context.config,
            wanted=context.wanted,
            news=context.news,
            open_port=self._open_external_port,
        )
        self._listener_settings = ListenerSettings.from_config(context.config.kafka)
        self._client_bounds = ClientBounds.of(self._listener_settings, asyncio.get_running_loop())
        self._core_shell = self._make_core_shell()
        self._begun = AsyncExitStack()
        self._tasks = BegunTasks()
        self._watches = BegunTasks()

    async def start(self) -> None:
        """Begin work."""
        self._context.settings.follow(self._on_settings_changed)
        self._store.start()
        for hosted in self._loaded.found.hosted:
            self._core_shell.submit(ReplicaLoaded(hosted=hosted))
        self._begun.push_async_callback(self._peers.close)
        await self._start_grpc()
        self._begun.push_async_callback(self._transport.close)
        self._begun.callback(self._core_shell.stop)
        self._begun.push_async_callback(self._controller_shell.stop)
        self._begun.push_async_callback(self._watches.close)
        self._begun.callback(self._broker_api.close)
        self._begun.push_async_callback(self._end_clients)
        seen = ControllerEpochSeen(controller_epoch=self._loaded.state.controller_epoch)
        self._controller_shell.submit(seen)
        self._controller_shell.start()
        self._on_volume_changed(self._space.is_full)
        lease_changes = watch_lease(
            self._context.leases,
            self._lease_name,
            lease_duration_seconds=self._context.config.timing.controller_lease_duration_seconds,
            step_controller=self._step_controller,
            step_session=self._session_shell.submit,
        )
        self._watches.begin(lease_changes)
        self._tasks.begin(self._serve_clients())
        self._tasks.begin(log_silent_connections())
        self._tasks.begin(self._space.watch())
        self._tasks.begin(self._retention.run())
        self._tasks.begin(self._restorer.run())

    def ready(self) -> bool:
        """Tell whether the first full state was applied and clients are served."""
        return self._clients is not None

    async def drain(self) -> None:
        """Leave the ISRs and let the controller move leaders away.

        A leader that no controller moves for a while stays, as when all brokers stop at once;
        its data is safe.
        """
        await self._session_shell.drain()

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

    async def _serve_clients(self) -> None:
        """Open the clients' ports after the first full state: now the broker knows what it leads.

        The port for clients outside opens and closes as the Broker object says; never returns.
        """
        await self._full_state_applied.wait()
        self._clients = await self._listen(INTERNAL_LISTENER, self._context.internal_socket)
        await self._clients_outside.run()

    async def _open_external_port(self) -> KafkaListener:
        return await self._listen(EXTERNAL_LISTENER, self._context.open_external_socket())

    async def _listen(self, listener_name: str, bound: socket.socket) -> KafkaListener:
        return await listener_server.start(
            bound=bound,
            listener_name=listener_name,
            broker=self._broker_api,
            settings=self._listener_settings,
            observer=ListenerMetrics(self._context.metrics),
            bounds=self._client_bounds,
        )

    async def _end_clients(self) -> None:
        """Serve clients no more; `stop` calls it before the resignation, `close` once more."""
        await self._tasks.close()
        await self._session_shell.close()
        await self._clients_outside.close()
        if self._clients is not None:
            await self._clients.close()

    async def _start_grpc(self) -> None:
        settings = self._context.config.grpc
        server = grpc.aio.server(options=(*channel_options(settings), ("grpc.so_reuseport", 1)))
        server.add_generic_rpc_handlers(
            (
                self._sessions.service(),
                peer_service(
                    self._registration,
                    lambda: self._replicas.controller_epoch,
                    lambda found: self._session_shell.submit(ControllerIntroduced(found=found)),
                ),
                replication_service(
                    self._transport.on_fetch, self._transport.on_follower_gone, settings
                ),
                not_served(),
            )
        )
        host, port = self._context.grpc_socket.getsockname()[:2]
        server.add_insecure_port(joined_address(host, port))
        await server.start()
        # The server must stop before the event loop ends. Otherwise the loop drops the task that
        # waits for the next call, and gRPC's threads write that call into freed memory (grpcio
        # 1.85: RPCState of a pending grpc_server_request_call).
        self._begun.push_async_callback(server.stop, None)

    # The parts that send these events are made before the shells that take them.
    def _step_replicas(self, event: CoreEvent) -> None:
        self._core_shell.submit(event)

    def _step_controller(self, event: ControllerEvent) -> None:
        self._controller_shell.submit(event)

    def _on_metadata(self) -> None:
        self._suspects.look_again()
        self._broker_api.on_metadata()
        self._peers.note_metadata()

    def _on_persisted(self, token: int) -> None:
        self._step_replicas(StatePersisted(token=token))

    def _on_volume_changed(self, is_full: bool) -> None:  # noqa: FBT001  a callback of one value
        self._session_shell.submit(VolumeChanged(is_full=is_full))
        self._context.news.tell(is_full=is_full)

    def _on_settings_changed(self, config: BrokerConfig) -> None:
        """Take over every setting that applies to running brokers."""
        self._space.change_fill_max(config.storage.fill_max)
        self._retention.change_interval(config.storage.retention_check_interval_ms)
        self._store.change_trash_limits(config.storage)
        self._copy_quota.change_rate(config.replication.copy_rate_max)
        self._step_replicas(CopyIntakeChanged(rate=config.replication.copy_intake_max))

    def _on_log_start_persisted(self, tp: TopicPartition, offset: int) -> None:
        self._step_replicas(LogStartPersisted(tp=tp, offset=offset))

    def _on_log_flushed(self, tp: TopicPartition, offset: int) -> None:
        self._step_replicas(LogFlushed(tp=tp, offset=offset))

    def _on_trash_changed(self, trashed: tuple[TrashedReplica, ...]) -> None:
        self._session_shell.submit(TrashChanged(trashed=trashed))

    def _on_restore_done(self, response: ReplyRestoreReplica) -> None:
        self._session_shell.submit(CommandPerformed(response=response))

    def _on_store_failed(self, error: StorageError) -> None:
        self._step_replicas(self._lose_directory(error))

    def _lose_directory(self, error: StorageError) -> LogDirectoryLost:
        """End the process after its replicas have failed: other brokers must lead now."""
        asyncio.get_running_loop().call_soon(self._context.fail, error)
        return LogDirectoryLost(reason=str(error))

    def _end_with_broken_promise(self, violation: InvariantViolation) -> None:
        violations = self._context.metrics.counter(names.INVARIANT_VIOLATIONS_TOTAL)
        violations.labels(violation.promise).inc()
        self._context.fail(violation)

    def _make_store(self) -> ReplicaStore:
        return ReplicaStore(
            self._loaded,
            config=self._context.settings.config.storage,
            wall_time_us=self._context.clock.wall_time_us,
            on_persisted=self._on_persisted,
            on_log_start_persisted=self._on_log_start_persisted,
            on_log_flushed=self._on_log_flushed,
            on_trash_changed=self._on_trash_changed,
            on_failure=self._on_store_failed,
        )

    def _make_controller(self) -> Controller:
        own = self._registration
        identity = HolderIdentity(broker_id=own.broker_id, incarnation=own.incarnation)
        return Controller(
            broker_id=own.broker_id,
            identity=str(identity),
            rank=own.broker_id,
            timing=component_settings.controller(
                self._context.config.timing,
                self._context.config.controller,
                self._context.config.replication,
            ),
        )

    def _make_controller_shell(self) -> ControllerShell:
        context = self._context
        reporter = ControllerNoticeReporter(context.metrics, lease_name=self._lease_name)
        return ControllerShell(
            self._controller,
            store=context.store,
            leases=context.leases,
            lease_name=self._lease_name,
            sessions=self._sessions,
            live_broker=self._metadata.live_broker,
            clock=context.clock,
            kubernetes=context.config.kubernetes,
            on_notice=reporter.report,
            on_lease_written=reporter.lease_written,
            on_step=reporter.stepped,
            on_broken_promise=self._end_with_broken_promise,
        )

    def _make_session_shell(self) -> ControllerSessionShell:
        context = self._context
        session = ControllerSession(
            self._registration,
            replicas=self._replicas,
            metadata=self._metadata,
            timing=component_settings.controller_session(
                context.config.timing, context.config.controller, context.config.replication
            ),
            trashed=self._loaded.trashed,
        )
        return ControllerSessionShell(
            session,
            store=context.store,
            leases=context.leases,
            lease_name=self._lease_name,
            grpc=context.config.grpc,
            clock=context.clock,
            step_replicas=self._step_replicas,
            step_controller=self._step_controller,
            restore=self._restorer.ask,
            on_broken_promise=self._end_with_broken_promise,
        )

    def _make_broker_api(self) -> BrokerApi:
        own = self._registration
        return BrokerApi(
            replicas=self._replicas,
            store=self._store,
            metadata=self._metadata,
            suspects=self._suspects,
            producer_ids=ProducerIds(own.broker_id, own.broker_epoch),
            clock=self._context.clock,
            consumer_reads=self._context.config.consumer_reads,
            submit=self._step_replicas,
            next_request_id=self._next_request_id,
            space=self._space,
            on_produced=self._throughput.produced,
            on_fetched=self._throughput.fetched,
        )

    def _retention_check(self) -> RetentionCheck:
        return RetentionCheck(
            replicas=self._replicas,
            store=self._store,
            clock=self._context.clock,
            submit=self._step_replicas,
            on_failure=self._on_store_failed,
            interval_ms=self._context.settings.config.storage.retention_check_interval_ms,
        )

    def _make_space(self) -> DiskSpace:
        return DiskSpace(
            self._store.root,
            fill_max=self._context.settings.config.storage.fill_max,
            now_ms=self._context.clock.now_ms,
            on_change=self._on_volume_changed,
        )

    def _make_transport(self) -> ReplicationTransport:
        config = self._context.config
        return ReplicationTransport(
            registration=self._registration,
            store=self._store,
            space=self._space,
            live_broker=self._metadata.live_broker,
            submit=self._step_replicas,
            next_request_id=self._next_request_id,
            grpc=config.grpc,
            partition_fetch_max_bytes=config.replication.fetch_max_bytes,
            response_max_bytes=config.replication.fetch_response_max_bytes,
            on_bytes=self._throughput.replicated,
            copies=self._copy_quota,
            on_copied=self._throughput.copied,
            on_copy_held_back=self._throughput.copy_held_back,
            now_ms=self._context.clock.now_ms,
        )

    def _make_core_shell(self) -> CoreShell:
        context = self._context
        reporter = CoreNoticeReporter(context.metrics, context.clock)
        context.metrics.add_section(
            ReplicaMetrics(
                broker_id=self._registration.broker_id,
                replicas=self._replicas,
                store=self._store,
                space=self._space,
                metadata=self._metadata,
                controller=self._controller,
                reporter=reporter,
                clock=context.clock,
                detail_max=context.config.observability.partition_detail_max,
            ).pieces
        )
        return CoreShell(
            self._replicas,
            store=self._store,
            broker_api=self._broker_api,
            replication_transport=self._transport,
            step_session=self._session_shell.submit,
            reporter=reporter,
            clock=context.clock,
            on_full_state=self._full_state_applied.set,
            on_storage_error=self._lose_directory,
            on_broken_promise=self._end_with_broken_promise,
        )

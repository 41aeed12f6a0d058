"""The life of a broker process: start order, what ends it, stop order.

Start:  lock the data directory, once it has space; read meta, marker, state file; open ports;
        find the API server; register (the intended epoch goes to meta, then logs are loaded,
        then the Broker object is written); make and start the service.
End:    a signal, another registration under our id, a failed service.
Stop:   the service drains, then brings everything to disk; then the clean-shutdown marker.
Close:  after every end, orderly or not, the service lets no caller in any more.
The service holds the replicas and talks to other brokers; this module knows it as `Service` alone.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
import signal
import socket
import ssl
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from strandline import names
from strandline.config.broker import BrokerConfig
from strandline.errors import (
    ConfigError,
    ExitCode,
    LogDirectoryFailed,
    LogDirectoryFull,
    RegistrationSuperseded,
    StorageError,
    StoreForbidden,
    StrandlineError,
    exit_code_of,
)
from strandline.kube.api import ApiClient
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.lease import LeaseStore
from strandline.kube.waiting import Pauses, WaitingReport
from strandline.log.data_directory import DataDirectory, read_boot_id
from strandline.log.mount_identity import mount_identity
from strandline.log.state_file import BrokerState
from strandline.log_fields import fields
from strandline.model import GRPC_LISTENER, INTERNAL_LISTENER, BrokerEpoch, Endpoint, Registration
from strandline.runtime.event_loop.begun_tasks import end_all
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.observability import isr_counters
from strandline.runtime.observability.http_probes import ProbeServer, measure_loop_lag
from strandline.runtime.observability.logs import BrokerLogFormatter
from strandline.runtime.observability.metrics import Metrics
from strandline.runtime.storage.loaded_store import LoadedStore, load_store, log_environment
from strandline.start_decision import FoundOnDisk, StartEvidence

from .failure_record import record_failure
from .file_limit import tell_of_too_few_files
from .registration import Registered, Registrar
from .registration_news import RegistrationNews, WantedAddress
from .registration_watch import RegistrationWatch
from .running_settings import RunningSettings

FIELD_MANAGER: Final = "strandline-broker"
INCARNATION_NONCE_BYTES: Final = 4
CLOSE_SECONDS: Final = 5.0
"""How long `Service.close` may take."""
TLS_PROTOCOL: Final = "SSLProtocol"
"""The class of asyncio and that of uvloop that an error within TLS names."""
_log = logging.getLogger(__name__)


class StopNotClean(StrandlineError):
    """A part failed during an orderly stop: the stop leaves no clean-shutdown marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the process lends its service; everything here lives as long as the process."""

    config: BrokerConfig
    clock: Clock
    metrics: Metrics
    store: ClusterStore
    leases: LeaseStore
    grpc_socket: socket.socket
    """Bound, not listening, with SO_REUSEPORT: gRPC binds the same port beside it."""
    internal_socket: socket.socket
    """Bound, not listening: the Kafka listener listens on it once it may serve."""
    fail: Callable[[BaseException], None]
    """Ends the process with the status of that error, without a clean-shutdown marker."""
    open_external_socket: Callable[[], socket.socket]
    """Binds the port for clients outside; ConfigError if it is taken."""
    settings: RunningSettings
    """What the broker works with now; `config` is what it was started with."""
    news: RegistrationNews = field(default_factory=RegistrationNews)
    """What the service knows and the registration says."""
    wanted: WantedAddress = field(default_factory=WantedAddress)
    """What the Broker object says about clients outside."""


class Service(Protocol):
    """What a registered broker does; called in this order, each but `ready` at most once."""

    async def start(self) -> None:
        """Begin work."""

    def ready(self) -> bool:
        """Tell whether clients may connect; the caller latches it."""
        ...

    async def drain(self) -> None:
        """Hand leadership over; the caller bounds how long it may take."""

    async def stop(self) -> None:
        """Bring everything to disk; when this returns, a stop counts as clean."""

    async def close(self) -> None:
        """End all that still runs and let no caller in any more: the event loop ends next.

        Called at every end of a registered broker: after `stop`, and also after a failure that
        left `start`, `drain` or `stop` half done or uncalled.
        """


Result = TypeVar("Result")
ServiceFactory = Callable[[Context, Registration, LoadedStore], Service]


class BrokerProcess:
    """One run of a broker, from its configuration to its exit code."""

    def __init__(
        self, config: BrokerConfig, make_service: ServiceFactory, *, log_format: BrokerLogFormatter
    ) -> None:
        self._config = config
        self._make_service = make_service
        self._log_format = log_format
        self._begun = time.monotonic()
        self._clock = Clock()
        self._metrics = Metrics()
        self._started: Service | None = None
        self._is_latched = False
        self._serves_probes = False
        self._stop_asked = asyncio.Event()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        nonce = secrets.token_hex(INCARNATION_NONCE_BYTES)
        self._incarnation = f"{config.identity.pod_uid}/{nonce}"

    async def run(self) -> ExitCode:
        """Run until a signal, a refusal or a failure."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_asked.set)
        loop.set_exception_handler(self._on_loop_error)
        self._metrics.show_from_the_start(names.ALL_METRICS, but=isr_counters.ROWS)
        self._metrics.gauge(names.BROKER_START_TIMESTAMP_SECONDS).set(time.time())
        try:
            async with AsyncExitStack() as stack:
                return await self._live(stack)
        except LogDirectoryFull as error:
            _log.error("failed", extra=fields(cause=str(error)))
            return ExitCode.FAILED
        except (ConfigError, StorageError, StoreForbidden) as error:
            _log.error("refusing to start", extra=fields(cause=str(error)))
            return ExitCode.REFUSED

    async def _live(self, stack: AsyncExitStack) -> ExitCode:
        directory = await self._unless_stopped(self._open_directory(stack))
        if directory is None:
            _log.info("stopped without space")
            return ExitCode.STOPPED
        stack.callback(directory.close)
        disk, state = await asyncio.to_thread(self._read_disk, directory)
        grpc_socket, internal_socket = self._open_ports(stack)
        await self._start_probes(stack)
        api = await ApiClient.open(
            self._config.kubernetes,
            field_manager=FIELD_MANAGER,
            on_request=self._metrics.kubernetes_request_done,
        )
        stack.push_async_callback(api.close)
        context = self._context(api, grpc_socket, internal_socket)
        registrar = self._registrar(context, directory, disk, state)
        try:
            registered = await self._unless_stopped(registrar.register())
        except LogDirectoryFailed as error:
            if not isinstance(error, LogDirectoryFull):
                await record_failure(directory, context.store, self._config)
            raise
        if registered is None:
            _log.info("stopped before registration")
            return ExitCode.STOPPED
        return await self._serve(context, registered)

    async def _open_directory(self, stack: AsyncExitStack) -> DataDirectory:
        """Lock the data directory; wait while there is no space: another start would find none."""
        path, kubernetes = Path(self._config.storage.data_dir), self._config.kubernetes
        pauses, report = Pauses(kubernetes), WaitingReport(kubernetes)
        while True:
            try:
                return await asyncio.to_thread(DataDirectory.open, path)
            except LogDirectoryFull as error:
                await self._start_probes(stack)
                report.waiting_for("space", error)
            await pauses.pause()

    def _read_disk(self, directory: DataDirectory) -> tuple[FoundOnDisk, BrokerState]:
        """Read what the last process left, without changing it."""
        meta = directory.read_meta()
        found = FoundOnDisk(
            log_dir_id=meta.log_dir_id if meta else str(uuid.uuid4()),
            meta_epoch=meta.broker_epoch if meta else None,
            marker_epoch=directory.read_clean_shutdown_marker(),
            boot_id=read_boot_id(Path(self._config.storage.boot_id_path)),
            mount=mount_identity(directory.path),
            meta_mount=meta.mount if meta else "",
            flushed_epoch=directory.read_flushed_mark(),
            meta_clean_since_epoch=meta.clean_since_epoch if meta else BrokerEpoch(0),
            failed_epoch=directory.read_failed_mark(),
        )
        return found, directory.read_state()

    def _open_ports(self, stack: AsyncExitStack) -> tuple[socket.socket, socket.socket]:
        """Bind the ports to register; they accept no caller before there is a service."""
        ports, host = self._config.ports, self._config.identity.pod_ip
        grpc_socket = _bound_socket(host, ports.grpc, "GRPC_PORT", shared=True)
        stack.callback(grpc_socket.close)
        internal_socket = _bound_socket(host, ports.internal, "INTERNAL_PORT", shared=False)
        stack.callback(internal_socket.close)
        return grpc_socket, internal_socket

    def _open_external_socket(self) -> socket.socket:
        host, port = self._config.identity.pod_ip, self._config.ports.external
        return _bound_socket(host, port, "EXTERNAL_PORT", shared=False)

    async def _start_probes(self, stack: AsyncExitStack) -> None:
        """Serve the probes, unless a wait for space began to: a process that waits is alive."""
        if self._serves_probes:
            return
        self._serves_probes = True
        probes = ProbeServer(self._metrics, ready=self._is_ready)
        stack.push_async_callback(probes.stop)
        try:
            port = await probes.start(self._config.identity.pod_ip, self._config.ports.http)
        except OSError as error:
            raise ConfigError(f"HTTP_PORT: {error.strerror}") from error
        interval_ms = self._config.observability.loop_lag_interval_ms
        lag = asyncio.create_task(measure_loop_lag(self._metrics, interval_ms=interval_ms))
        stack.callback(lag.cancel)
        _log.info("http listening", extra=fields(port=port))

    def _context(
        self, api: ApiClient, grpc_socket: socket.socket, internal_socket: socket.socket
    ) -> Context:
        kubernetes, identity = self._config.kubernetes, self._config.identity
        alive, ended = self._metrics.watch_alive, self._metrics.watch_ended
        news = RegistrationNews()
        return Context(
            config=self._config,
            settings=RunningSettings(self._config, news),
            news=news,
            clock=self._clock,
            metrics=self._metrics,
            store=ClusterStore(
                api,
                kubernetes,
                namespace=identity.namespace,
                cluster=identity.cluster,
                wall_time_us=self._clock.wall_time_us,
                on_sign_of_life=alive,
                on_watch_end=ended,
            ),
            leases=LeaseStore(
                api,
                kubernetes,
                namespace=identity.namespace,
                on_sign_of_life=alive,
                on_watch_end=ended,
            ),
            grpc_socket=grpc_socket,
            internal_socket=internal_socket,
            open_external_socket=self._open_external_socket,
            fail=self._fail,
        )

    def _registrar(
        self, context: Context, directory: DataDirectory, disk: FoundOnDisk, state: BrokerState
    ) -> Registrar:
        host = self._config.identity.pod_ip
        bound = {GRPC_LISTENER: context.grpc_socket, INTERNAL_LISTENER: context.internal_socket}
        flushes = self._metrics.histogram(names.LOG_FLUSH_SECONDS)
        environment = log_environment(self._config.storage, flushes.observe)
        remaining = self._metrics.gauge(names.LOG_RECOVERY_REMAINING_LOGS)

        async def load(evidence: StartEvidence, before_loss: Callable[[], None]) -> LoadedStore:
            return await asyncio.to_thread(
                load_store,
                directory,
                state,
                environment,
                clean=evidence.proves_every_byte,
                before_loss=before_loss,
                on_remaining=remaining.set,
            )

        return Registrar(
            config=self._config,
            store=context.store,
            directory=directory,
            disk=disk,
            clock=self._clock,
            incarnation=self._incarnation,
            endpoints=tuple(
                Endpoint(listener=listener, host=host, port=int(held.getsockname()[1]))
                for listener, held in bound.items()
            ),
            software_version=_software_version(),
            load=load,
            settings=context.settings,
        )

    def _is_ready(self) -> bool:
        """Ready is latched: lag never takes a running broker out of its Kubernetes Services."""
        if self._started is not None and self._started.ready():
            self._is_latched = True
        return self._is_latched

    async def _serve(self, context: Context, registered: Registered) -> ExitCode:
        """Run until something ends the process, then stop in order."""
        self._announce(registered)
        registration, directory = registered.registration, registered.loaded.directory
        # The registration took account of all three; the marker goes before the first append.
        await asyncio.to_thread(directory.remove_clean_shutdown_marker)
        await asyncio.to_thread(directory.remove_failed_mark)
        if not directory.has_flushed_mark:
            await asyncio.to_thread(directory.remove_flushed_mark)
        service = self._make_service(context, registration, registered.loaded)
        # Replicas live about as long as the process, as what `main` freezes does.
        gc.collect()
        gc.freeze()
        registration_watch = RegistrationWatch(
            config=self._config,
            store=context.store,
            registered=registered,
            news=context.news,
            wanted=context.wanted,
            settings=context.settings,
        )
        watching = asyncio.create_task(registration_watch.run())
        try:
            await service.start()
            self._started = service
            end = await self._end_of(watching)
            if isinstance(self._failure_seen, StorageError):
                raise self._failure_seen
            if end is ExitCode.STOPPED:
                await self._stop_cleanly(directory, service, registration.broker_epoch)
        except (StopNotClean, StorageError) as error:
            _log.error("failed", extra=fields(cause=str(error)))
            end = exit_code_of(error)
            if isinstance(error, StorageError) and not isinstance(error, LogDirectoryFull):
                await record_failure(directory, context.store, self._config)
        finally:
            await end_all([watching])
            await _close(service)
        if end is ExitCode.STOPPED:
            _log.info("stopped")
        return end

    def _announce(self, registered: Registered) -> None:
        registration, evidence = registered.registration, registered.evidence
        tell_of_too_few_files(self._config, replicas=len(registered.loaded.found.logs))
        self._log_format.bind(broker_epoch=registration.broker_epoch)
        self._metrics.gauge(names.BROKER_EPOCH).set(registration.broker_epoch)
        level = logging.INFO
        if evidence.may_have_lost_records:
            self._metrics.counter(names.UNCLEAN_STARTS_TOTAL).inc()
            level = logging.WARNING
        _log.log(
            level,
            "registered",
            extra=fields(
                clean_since_epoch=registration.clean_since_epoch,
                evidence=evidence.value,
                incarnation=registration.incarnation,
                listeners={item.listener: item.port for item in registration.endpoints},
                seconds=round(time.monotonic() - self._begun, 3),
            ),
        )

    async def _end_of(self, watching: asyncio.Task[None]) -> ExitCode:
        """Wait for what ends the process and return its exit code."""
        asked = asyncio.create_task(self._stop_asked.wait())
        try:
            ends: set[asyncio.Future[Any]] = {asked, self._failure, watching}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_all([asked])
        for ended in (watching, self._failure):
            error = ended.exception() if ended.done() else None
            if isinstance(error, RegistrationSuperseded):
                _log.error("superseded", extra=fields(cause=str(error)))
                return exit_code_of(error)
            if error is not None:
                _log.error("failed", exc_info=error)
                return exit_code_of(error)
        return ExitCode.STOPPED

    async def _stop_cleanly(
        self, directory: DataDirectory, service: Service, broker_epoch: BrokerEpoch
    ) -> None:
        """Drain, bring all to disk, and only then write the marker."""
        _log.info("stopping")
        limit_seconds = self._config.controller.shutdown_timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_seconds):
                await service.drain()
        except TimeoutError:
            _log.warning("controlled shutdown incomplete", extra=fields(seconds=limit_seconds))
        await service.stop()
        if isinstance(self._failure_seen, StorageError):
            raise self._failure_seen
        if self._failure_seen is not None:
            raise StopNotClean(f"a part failed while stopping: {self._failure_seen}")
        await asyncio.to_thread(directory.write_clean_shutdown_marker, broker_epoch)

    def _on_loop_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the process for an error that no task awaited: its work was left undone."""
        error = context.get("exception")
        cause = f"{context['message']}: {error!r}"
        is_of_tls = type(context.get("protocol")).__name__ == TLS_PROTOCOL
        if is_of_tls or isinstance(error, ssl.SSLError):
            # The event loop closed that connection, and the request on it fails with the error.
            # uvloop, too, may write what TLS has to say to a connection that is closed by then.
            _log.warning("connection failed", extra=fields(cause=cause))
            return
        _log.error("unhandled in event loop", extra=fields(cause=cause), exc_info=error)
        if error is not None:
            self._fail(error)

    @property
    def _failure_seen(self) -> BaseException | None:
        return self._failure.exception() if self._failure.done() else None

    def _fail(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    async def _unless_stopped(self, work: Awaitable[Result]) -> Result | None:
        """Return the result, or None if a signal came first."""
        task = asyncio.ensure_future(work)
        asked = asyncio.create_task(self._stop_asked.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            await end_all([task, asked])


async def _close(service: Service) -> None:
    """Close a service; one that hangs or fails does not keep the process alive."""
    # Not asyncio.timeout: cancelling gRPC's stop would also cancel the task that it waits for.
    closing = asyncio.create_task(service.close(), name="service closes")
    await asyncio.wait([closing], timeout=CLOSE_SECONDS)
    if not closing.done():
        _log.error("does not close", extra=fields(seconds=CLOSE_SECONDS))
    elif (error := closing.exception()) is not None:
        _log.error("closed badly", exc_info=error)


def _bound_socket(host: str, port: int, variable: str, *, shared: bool) -> socket.socket:
    """Return a socket that holds a port of the pod's address and accepts no caller.

    Raises:  ConfigError if the port is taken or the address is not this machine's
    """
    family = socket.AF_INET if ip_address(host).version == 4 else socket.AF_INET6
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigError(f"{variable} {port} on POD_IP {host}: {error.strerror}") from error
    bound.setblocking(False)
    return bound


def _software_version() -> str:
    try:
        return version("strandline")
    except PackageNotFoundError:
        return ""

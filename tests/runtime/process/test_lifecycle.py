"""The end of a broker's process: each kind of end closes the service, as its last call."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from asyncio import sslproto
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from strandline.config.broker import load_broker_config
from strandline.errors import ConfigError, ExitCode, InvariantViolation, StorageError
from strandline.log.data_directory import FAILED_FILE
from strandline.model import Registration
from strandline.runtime.observability.logs import BrokerLogFormatter
from strandline.runtime.process.broker_service import BrokerService
from strandline.runtime.process.lifecycle import (
    TLS_PROTOCOL,
    BrokerProcess,
    Context,
    ServiceFactory,
    _bound_socket,
)
from strandline.runtime.storage.loaded_store import LoadedStore
from tests.runtime.conftest import MakeBroker
from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.processes

LIFE_LIMIT_SECONDS = 20
CONNECT_LIMIT_SECONDS = 5


@pytest.mark.parametrize("host", ["127.0.0.2", "::1"])
def test_a_port_is_held_at_the_pods_address_alone(host: str) -> None:
    bound = _bound_socket(host, 0, "GRPC_PORT", shared=True)
    bound.listen()
    port = bound.getsockname()[1]
    socket.create_connection((host, port), CONNECT_LIMIT_SECONDS).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), CONNECT_LIMIT_SECONDS)
    with pytest.raises(ConfigError, match=f"INTERNAL_PORT {port} on POD_IP {host}: "):
        _bound_socket(host, port, "INTERNAL_PORT", shared=False)
    bound.close()


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"GRPC_PORT 0 on POD_IP 192\.0\.2\.1: "):
        _bound_socket("192.0.2.1", 0, "GRPC_PORT", shared=True)


class Recorder:
    """A service that records its calls, and fails in the call that the test names."""

    def __init__(self, *, fails_in: str = "", at_start: Callable[[], None]) -> None:
        self.calls: list[str] = []
        self._fails_in = fails_in
        self._at_start = at_start

    async def start(self) -> None:
        self._note("start")
        await asyncio.to_thread(self._at_start)

    def ready(self) -> bool:
        return True

    async def drain(self) -> None:
        self._note("drain")

    async def stop(self) -> None:
        self._note("stop")

    async def close(self) -> None:
        self._note("close")

    def _note(self, what: str) -> None:
        self.calls.append(what)
        if what == self._fails_in:
            raise StorageError(f"{what} fails")


Live = Callable[[ServiceFactory], ExitCode]


@pytest.fixture
def live(prepared: str, make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch) -> Live:
    """Provide a function that runs a BrokerProcess with a given service in this process."""
    program = make_broker()
    monkeypatch.setenv("KUBECONFIG", program.environment()["KUBECONFIG"])
    config = load_broker_config(program.config_path, program.environment())

    async def run(make_service: ServiceFactory) -> ExitCode:
        async with asyncio.timeout(LIFE_LIMIT_SECONDS):
            return await BrokerProcess(config, make_service, log_format=BrokerLogFormatter()).run()

    return lambda make_service: asyncio.run(run(make_service))


def stop_by_signal() -> None:
    signal.raise_signal(signal.SIGTERM)


@pytest.fixture
def be_superseded(control_plane: ControlPlane, prepared: str) -> Callable[[], None]:
    """Provide a function that registers another broker under the same id."""
    return lambda: objects.patch_status(
        control_plane, prepared, "broker/demo-0", {"brokerEpoch": 7}
    )


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), CONNECT_LIMIT_SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("fails_in", "end", "calls"),
    [
        pytest.param("", ExitCode.STOPPED, ["start", "drain", "stop", "close"], id="stop"),
        pytest.param("start", ExitCode.LOG_DIRECTORY_FAILED, ["start", "close"], id="start fails"),
        pytest.param(
            "drain", ExitCode.LOG_DIRECTORY_FAILED, ["start", "drain", "close"], id="drain fails"
        ),
        pytest.param(
            "stop",
            ExitCode.LOG_DIRECTORY_FAILED,
            ["start", "drain", "stop", "close"],
            id="stop fails",
        ),
    ],
)
def test_service_is_closed_once_wherever_its_life_fails(
    live: Live, fails_in: str, end: ExitCode, calls: list[str]
) -> None:
    recorder = Recorder(fails_in=fails_in, at_start=stop_by_signal)
    assert live(lambda *_: recorder) == end
    assert recorder.calls == calls


def test_both_event_loops_call_the_protocol_of_tls_by_one_name() -> None:
    assert vars(uvloop.loop)[TLS_PROTOCOL].__name__ == sslproto.SSLProtocol.__name__


@pytest.mark.parametrize(
    ("error", "of_tls", "end", "calls"),
    [
        (
            ssl.SSLError(1, "application data after close notify"),
            False,
            ExitCode.STOPPED,
            ["start", "drain", "stop", "close"],
        ),
        (
            RuntimeError("unable to perform operation; the handler is closed"),
            True,
            ExitCode.STOPPED,
            ["start", "drain", "stop", "close"],
        ),
        (ValueError("a bug"), False, ExitCode.FAILED, ["start", "close"]),
        (InvariantViolation("a promise"), False, ExitCode.INVARIANT_VIOLATED, ["start", "close"]),
    ],
    ids=["a broken connection", "a closed connection", "a bug", "a broken promise"],
)
def test_error_that_no_task_awaited_ends_a_broker_unless_tls_had_it(
    live: Live, error: Exception, of_tls: bool, end: ExitCode, calls: list[str]
) -> None:
    class Disturbed(Recorder):
        async def start(self) -> None:
            loop = asyncio.get_running_loop()
            context: dict[str, object] = {"message": "Fatal error on SSL protocol"}
            context["exception"] = error
            if of_tls:
                context["protocol"] = object.__new__(sslproto.SSLProtocol)
            loop.call_exception_handler(context)
            await super().start()

    recorder = Disturbed(at_start=stop_by_signal if end is ExitCode.STOPPED else lambda: None)
    assert live(lambda *_: recorder) is end
    assert recorder.calls == calls


@pytest.fixture
def unmarkable(prepared: str, make_broker: MakeBroker) -> Path:
    """Provide the data directory of the broker; the failed mark cannot be written into it."""
    data_dir = make_broker().data_dir
    (data_dir / (FAILED_FILE + ".tmp")).mkdir(parents=True)
    return data_dir


def stored_boot_id(control_plane: ControlPlane, namespace: str) -> str:
    status = control_plane.get("broker/demo-0", "-n", namespace)["status"]
    return str(status.get("bootId", ""))


@pytest.mark.parametrize("fails_in", ["start", "stop"])
def test_a_storage_failure_leaves_a_mark_for_the_next_start(
    control_plane: ControlPlane, prepared: str, live: Live, fails_in: str, make_broker: MakeBroker
) -> None:
    recorder = Recorder(fails_in=fails_in, at_start=stop_by_signal)
    assert live(lambda *_: recorder) is ExitCode.LOG_DIRECTORY_FAILED
    assert (make_broker().data_dir / FAILED_FILE).exists()
    assert stored_boot_id(control_plane, prepared) == "boot-1"


def test_a_storage_failure_behind_an_orderly_stop_leaves_a_mark(
    prepared: str, live: Live, make_broker: MakeBroker
) -> None:
    contexts: list[Context] = []

    class FailsWhileStopping(Recorder):
        async def stop(self) -> None:
            await super().stop()
            contexts[0].fail(StorageError("an fsync failed"))

    def make_service(context: Context, *_: object) -> FailsWhileStopping:
        contexts.append(context)
        return FailsWhileStopping(at_start=stop_by_signal)

    assert live(make_service) is ExitCode.LOG_DIRECTORY_FAILED
    assert (make_broker().data_dir / FAILED_FILE).exists()


def test_where_no_mark_can_be_written_the_registration_loses_its_boot_id(
    control_plane: ControlPlane, prepared: str, live: Live, unmarkable: Path
) -> None:
    recorder = Recorder(fails_in="start", at_start=lambda: None)
    assert live(lambda *_: recorder) is ExitCode.LOG_DIRECTORY_FAILED
    assert not (unmarkable / FAILED_FILE).exists()
    assert stored_boot_id(control_plane, prepared) == ""


def test_service_of_a_superseded_broker_is_closed_without_a_stop(
    live: Live, be_superseded: Callable[[], None]
) -> None:
    recorder = Recorder(at_start=be_superseded)
    assert live(lambda *_: recorder) is ExitCode.SUPERSEDED
    assert recorder.calls == ["start", "close"]


def test_a_superseded_broker_takes_no_calls_when_its_event_loop_ends(
    live: Live, be_superseded: Callable[[], None]
) -> None:
    # gRPC would write a call that it took later into memory that it no longer owns.
    seen: list[bool] = []

    class Watched(BrokerService):
        """The shipped service; a client tries its port after its start and after its close."""

        def __init__(
            self, context: Context, registration: Registration, loaded: LoadedStore
        ) -> None:
            super().__init__(context, registration, loaded)
            self._port = context.grpc_socket.getsockname()[1]

        async def start(self) -> None:
            await super().start()
            await self._look()
            await asyncio.to_thread(be_superseded)

        async def close(self) -> None:
            await super().close()
            await self._look()

        async def _look(self) -> None:
            seen.append(await asyncio.to_thread(accepts, self._port))

    assert live(Watched) is ExitCode.SUPERSEDED
    assert seen == [True, False]

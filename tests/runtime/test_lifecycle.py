"""How the life of a broker ends: whatever ended it, its services are closed, and closed last."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest

from strandline.config.broker import load_broker_config
from strandline.errors import StorageError
from strandline.model import Registration
from strandline.runtime.lifecycle import BrokerProcess, Context, ExitCode
from strandline.runtime.logs import JsonLines
from tests.runtime.conftest import MakeBroker
from tests.support import strandline_objects as objects
from tests.support.control_plane import ControlPlane

pytestmark = pytest.mark.processes

LIFE_LIMIT_SECONDS = 20


class Recorder:
    """A service that writes down what it is asked for, and fails where it is told to."""

    def __init__(self, *, fails_in: str, at_start: Callable[[], None]) -> None:
        self.asked: list[str] = []
        self._fails_in = fails_in
        self._at_start = at_start

    async def load(self, *, clean: bool) -> bool:  # noqa: ARG002 - its signature
        self._note("load")
        return False

    async def start(self, registration: Registration) -> None:  # noqa: ARG002 - its signature
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
        self.asked.append(what)
        if what == self._fails_in:
            raise StorageError(f"{what} fails")


def live(
    make_broker: MakeBroker,
    monkeypatch: pytest.MonkeyPatch,
    *,
    fails_in: str = "",
    at_start: Callable[[], None],
) -> tuple[ExitCode, list[str]]:
    """Live one life with a recording service; return how it ended and what was asked for."""
    program = make_broker()
    monkeypatch.setenv("KUBECONFIG", program.environment()["KUBECONFIG"])
    config = load_broker_config(program.config_path, program.environment())
    recorders: list[Recorder] = []

    def make_services(_: Context) -> list[Recorder]:
        recorders.append(Recorder(fails_in=fails_in, at_start=at_start))
        return recorders

    async def run() -> ExitCode:
        async with asyncio.timeout(LIFE_LIMIT_SECONDS):
            return await BrokerProcess(config, make_services, log_format=JsonLines()).run()

    end = asyncio.run(run())
    return end, recorders[0].asked


def be_told_to_stop() -> None:
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("fails_in", "end", "asked"),
    [
        pytest.param("", ExitCode.STOPPED, ["load", "start", "drain", "stop", "close"], id="stop"),
        pytest.param("start", ExitCode.FAILED, ["load", "start", "close"], id="start fails"),
        pytest.param(
            "drain", ExitCode.FAILED, ["load", "start", "drain", "close"], id="drain fails"
        ),
        pytest.param(
            "stop", ExitCode.FAILED, ["load", "start", "drain", "stop", "close"], id="stop fails"
        ),
    ],
)
def test_services_are_closed_once_after_whatever_was_asked_of_them(
    prepared: str,
    make_broker: MakeBroker,
    monkeypatch: pytest.MonkeyPatch,
    fails_in: str,
    end: ExitCode,
    asked: list[str],
) -> None:
    assert live(make_broker, monkeypatch, fails_in=fails_in, at_start=be_told_to_stop) == (
        end,
        asked,
    )


def test_services_of_a_superseded_broker_are_closed_without_a_stop(
    control_plane: ControlPlane,
    prepared: str,
    make_broker: MakeBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def register_another() -> None:
        objects.patch_status(control_plane, prepared, "broker/demo-0", {"brokerEpoch": 7})

    ended = live(make_broker, monkeypatch, at_start=register_another)
    assert ended == (ExitCode.SUPERSEDED, ["load", "start", "close"])

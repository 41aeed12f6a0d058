"""The controller's shell when reads and watches of the API server fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from strandline.config.kubernetes import KubernetesConfig
from strandline.controller.controller import Controller
from strandline.controller.effects import LoadCluster, ReadLease
from strandline.controller.events import ControllerEvent
from strandline.controller.store_events import (
    BrokerObserved,
    ClusterLoaded,
    LeaseResponseReceived,
    WatchLost,
)
from strandline.errors import (
    CoordinationError,
    InvariantViolation,
    ObjectMalformed,
    StoreForbidden,
    StoreNotFound,
    StoreRefused,
    StoreUnavailable,
    WatchExpired,
)
from strandline.kube.api import Listed
from strandline.kube.cluster_store import ClusterStore
from strandline.kube.lease import LeaseStore
from strandline.kube.watch import Change
from strandline.model import BrokerId, StoredBroker, StoredPartition, StoredTopic
from strandline.rpc.session_server import SessionServer
from strandline.runtime.event_loop.clock import Clock
from strandline.runtime.shells import controller_shell
from strandline.runtime.shells.controller_shell import ControllerShell
from tests.support.eventually import aeventually
from tests.support.world.timings import demo_timing

LIMIT_MS = 5_000
BROKER = StoredBroker(name="demo-0", resource_version="8", broker_id=BrokerId(0), registration=None)


class EmptyStore:
    """Lists nothing; the watch of Brokers shows one and ends with an error, the others go on."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.lists = 0

    async def get_cluster_record(self) -> None:
        return None

    async def list_partitions(self) -> Listed[StoredPartition]:
        self.lists += 1
        return Listed(items=(), resource_version="7")

    async def list_brokers(self) -> Listed[StoredBroker]:
        return Listed(items=(), resource_version="7")

    async def list_topics(self) -> Listed[StoredTopic]:
        return Listed(items=(), resource_version="7")

    async def watch_partitions(self, _: str) -> AsyncGenerator[Change[StoredPartition], None]:
        await asyncio.Event().wait()
        yield Change(name="never", resource_version="8", value=None)

    async def watch_topics(self, _: str) -> AsyncGenerator[Change[StoredTopic], None]:
        await asyncio.Event().wait()
        yield Change(name="never", resource_version="8", value=None)

    async def watch_brokers(self, _: str) -> AsyncGenerator[Change[StoredBroker], None]:
        yield Change(name=BROKER.name, resource_version="8", value=BROKER)
        raise self.failure


class NoLease:
    """The Lease does not exist, so no controller becomes active; some reads of it fail."""

    def __init__(self) -> None:
        self.is_readable = True

    async def get(self, _: str) -> None:
        if not self.is_readable:
            raise StoreUnavailable("as planned")


class RunningShell:
    """An inactive controller over an EmptyStore, and every event that it took."""

    def __init__(self, failure: Exception) -> None:
        self.events: list[ControllerEvent] = []
        self.broken: list[InvariantViolation] = []
        self.uncaught: list[BaseException] = []
        self.store = EmptyStore(failure)
        self.leases = NoLease()
        self.shell = ControllerShell(
            Controller(broker_id=BrokerId(0), identity="broker-0/x", rank=0, timing=demo_timing()),
            store=cast(ClusterStore, self.store),
            leases=cast(LeaseStore, self.leases),
            lease_name="demo-controller",
            sessions=cast(SessionServer, None),
            live_broker=lambda _: None,
            clock=Clock(),
            kubernetes=KubernetesConfig(),
            on_notice=lambda _: None,
            on_lease_written=lambda _: None,
            on_step=lambda event, _: self.events.append(event),
            on_broken_promise=self.broken.append,
        )

    def count(self, kind: type) -> int:
        return sum(isinstance(event, kind) for event in self.events)

    async def load(self) -> None:
        """Perform LoadCluster: the shell lists everything and begins its watches."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.uncaught.append(context["exception"]))
        self.shell._perform([LoadCluster(request_id=1)])
        await aeventually(lambda: self.count(ClusterLoaded) > 0, LIMIT_MS, "the lists")


@pytest.mark.parametrize(
    "failure",
    [WatchExpired, StoreForbidden, ObjectMalformed, StoreNotFound, StoreRefused],
)
def test_the_controller_hears_of_every_end_of_a_watch_and_lives(
    failure: type[CoordinationError],
) -> None:
    async def scenario() -> None:
        running = RunningShell(failure("as planned"))
        await running.load()
        await aeventually(lambda: running.count(WatchLost) == 1, LIMIT_MS, "the loss")
        assert running.count(BrokerObserved) == 1
        await running.shell.stop()
        assert running.uncaught == []

    asyncio.run(scenario())


def test_an_unexpected_error_is_not_hidden() -> None:
    async def scenario() -> None:
        running = RunningShell(InvariantViolation("a promise"))
        await running.load()
        await aeventually(lambda: bool(running.uncaught), LIMIT_MS, "the error")
        assert running.count(WatchLost) == 0
        await running.shell.stop()

    asyncio.run(scenario())


def test_lost_watch_is_reported_only_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a watch that always fails at once would flood the API server with lists."""

    async def scenario() -> None:
        monkeypatch.setattr(controller_shell, "WATCH_RESTART_SECONDS", LIMIT_MS)
        running = RunningShell(StoreForbidden("as planned"))
        await running.load()
        await aeventually(lambda: "watch lost" in caplog.messages, LIMIT_MS, "the loss")
        assert running.count(WatchLost) == 0
        await running.shell.stop()

    asyncio.run(scenario())


def test_outage_is_reported_once_an_interval_and_anew_after_a_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        running = RunningShell(StoreForbidden("as planned"))
        reported = []
        for number, is_readable in enumerate([False, False, True, False], start=1):
            running.leases.is_readable = is_readable
            running.shell._perform([ReadLease(request_id=number)])
            await running.shell.settled()
            reported.append(caplog.messages.count("waiting"))
        assert running.count(LeaseResponseReceived) >= 4
        assert reported == [1, 1, 1, 2]
        await running.shell.stop()

    asyncio.run(scenario())

"""The API client against a real API server that also refuses, falls silent and restarts."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import (
    ConfigError,
    StoreConflict,
    StoreForbidden,
    StoreNotFound,
    StoreRefused,
    StoreUnavailable,
    WatchExpired,
)
from strandline.kube.api import ApiClient, RequestDone, Resource, WatchEvent
from strandline.kube.lease import LEASES
from strandline.kube.watch import follow
from tests.support.control_plane import ControlPlane
from tests.support.eventually import aeventually

pytestmark = pytest.mark.processes

CONFIG_MAPS = Resource(group="", version="v1", plural="configmaps")
NAMESPACES = Resource(group="", version="v1", plural="namespaces")
SETTINGS = KubernetesConfig(
    connect_timeout_ms=1_000, request_timeout_ms=2_000, backoff_ms=20, backoff_max_ms=100
)
LIMIT_SECONDS = 30
Result = TypeVar("Result")
Connect = Callable[..., Any]


@pytest.fixture
def connect(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Connect:
    @asynccontextmanager
    async def connected(
        settings: KubernetesConfig = SETTINGS,
        kubeconfig: Path = control_plane.kubeconfig,
        on_request: Callable[[RequestDone], None] = lambda _: None,
        manager: str = "test",
    ) -> AsyncIterator[ApiClient]:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        client = await ApiClient.open(settings, field_manager=manager, on_request=on_request)
        async with client:
            yield client

    return connected


def run(work: Awaitable[Result]) -> Result:
    async def bounded() -> Result:
        return await asyncio.wait_for(work, LIMIT_SECONDS)

    return asyncio.run(bounded())


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"size": "large" if data else "none"}},
        "data": data,
    }


def test_reads_writes_and_their_refusals(
    control_plane: ControlPlane, connect: Connect, namespace: str
) -> None:
    async def scenario() -> None:
        seen: list[RequestDone] = []
        async with connect(on_request=seen.append) as api:
            assert await api.get(CONFIG_MAPS, namespace, "absent") is None
            created = await api.create(CONFIG_MAPS, namespace, config_map("a"))
            with pytest.raises(StoreConflict, match="already exists"):
                await api.create(CONFIG_MAPS, namespace, config_map("a"))
            changed = {**created, "data": {"k": "1"}}
            await api.put(CONFIG_MAPS, namespace, changed)
            with pytest.raises(StoreConflict, match="modified"):
                await api.put(CONFIG_MAPS, namespace, {**created, "data": {"k": "2"}})
            read = await api.get(CONFIG_MAPS, namespace, "a")
            assert read["data"] == {"k": "1"}
            # The API server refuses a PUT of a deleted object, with its uid and without.
            delete = partial(control_plane.kubectl, "delete", "configmap", "-n", namespace)
            await asyncio.to_thread(delete, "a")
            for metadata in ({**created["metadata"]}, {**created["metadata"], "uid": ""}):
                with pytest.raises((StoreConflict, StoreNotFound)):
                    await api.put(CONFIG_MAPS, namespace, {**created, "metadata": metadata})
            with pytest.raises(StoreRefused, match="unknown field"):
                await api.create(CONFIG_MAPS, namespace, {**config_map("b"), "datum": {}})
            with pytest.raises(StoreRefused, match="Invalid value"):
                await api.create(CONFIG_MAPS, namespace, config_map("Not A Name"))
            assert (await api.get(NAMESPACES, "", namespace))["kind"] == "Namespace"
        codes = [(item.verb, item.resource, item.code) for item in seen[:4]]
        assert codes == [
            ("get", "configmaps", "404"),
            ("create", "configmaps", "201"),
            ("create", "configmaps", "409"),
            ("update", "configmaps", "200"),
        ]

    run(scenario())


def test_server_side_apply_creates_and_takes_over_fields_of_other_owners(
    connect: Connect, namespace: str
) -> None:
    async def scenario() -> None:
        async with connect(manager="one") as one, connect(manager="two") as two:
            await one.apply(CONFIG_MAPS, namespace, config_map("a", k="1"))
            forced = await two.apply(CONFIG_MAPS, namespace, config_map("a", k="2"))
            assert forced["data"] == {"k": "2"}

    run(scenario())


def test_a_list_is_whole_across_pages(connect: Connect, namespace: str) -> None:
    async def scenario() -> None:
        seen: list[RequestDone] = []
        settings = replace(SETTINGS, list_page_size=2)
        async with connect(settings, on_request=seen.append) as api:
            for at in range(5):
                await api.create(
                    CONFIG_MAPS, namespace, config_map(f"m{at}", **{"k": "v"} if at else {})
                )
            seen.clear()
            found = await api.list(CONFIG_MAPS, namespace)
            names = {item["metadata"]["name"] for item in found.items}
            assert {f"m{at}" for at in range(5)} <= names
            assert len(names) == len(found.items)
            assert len(seen) == (len(names) + 1) // 2
            by_label = {"labelSelector": "size=large"}
            large = await api.list(CONFIG_MAPS, namespace, selector=by_label)
            assert len(large.items) == 4
            by_name = {"fieldSelector": "metadata.name=m3"}
            one = await api.list(CONFIG_MAPS, namespace, selector=by_name)
            assert len(one.items) == 1

    run(scenario())


def test_no_permission_names_verb_and_resource(
    control_plane: ControlPlane, connect: Connect, namespace: str
) -> None:
    control_plane.kubectl("create", "serviceaccount", "powerless", "-n", namespace)
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "powerless")

    async def scenario() -> None:
        async with connect(kubeconfig=kubeconfig) as api:
            with pytest.raises(StoreForbidden, match=r"get .*leases/x.*cannot get resource"):
                await api.get(LEASES, namespace, "x")
            with pytest.raises(StoreForbidden, match="watch leases"):
                async for _ in api.watch(LEASES, namespace, resource_version="0"):
                    pass

    run(scenario())


def test_a_missing_or_odd_kubeconfig_is_a_configuration_error(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "odd"
    odd.write_text("a: [")

    async def scenario(path: Path) -> None:
        async with connect(kubeconfig=path):
            pass

    for path in (tmp_path / "absent", odd):
        with pytest.raises(ConfigError, match="KUBECONFIG"):
            run(scenario(path))
    monkeypatch.delenv("KUBECONFIG")
    with pytest.raises(ConfigError, match="ServiceAccount"):
        run(ApiClient.open(SETTINGS, field_manager="test"))


async def added(watch: AsyncGenerator[WatchEvent, None], name: str) -> None:
    """Wait until a watch shows that an object was added.

    Bookmarks may come before it, and the ConfigMap that Kubernetes puts into each namespace.
    """
    async for event in watch:
        if event.type == "ADDED" and event.object["metadata"]["name"] == name:
            return
    raise AssertionError("the watch ended")


async def to_its_end(watch: AsyncGenerator[WatchEvent, None]) -> None:
    """Take what was under way, until the watch raises."""
    async for _ in watch:
        pass


def test_a_silent_api_server_costs_the_timeout_and_no_more(
    control_plane: ControlPlane, connect: Connect, namespace: str
) -> None:
    async def scenario() -> None:
        settings = replace(
            SETTINGS, request_timeout_ms=500, watch_timeout_seconds=1, watch_grace_ms=500
        )
        async with connect(settings) as api:
            version = (await api.list(CONFIG_MAPS, namespace)).resource_version
            watch = api.watch(CONFIG_MAPS, namespace, resource_version=version)
            await api.create(CONFIG_MAPS, namespace, config_map("a"))
            await added(watch, "a")
            await asyncio.to_thread(control_plane.freeze_api)
            try:
                begun = time.monotonic()
                with pytest.raises(StoreUnavailable, match="watch configmaps"):
                    await to_its_end(watch)
                with pytest.raises(StoreUnavailable, match="configmaps/a"):
                    await api.get(CONFIG_MAPS, namespace, "a")
                assert time.monotonic() - begun < 5
            finally:
                await asyncio.to_thread(control_plane.thaw_api)
            assert await api.get(CONFIG_MAPS, namespace, "a")

    run(scenario())


async def give_up_a_watch(api: ApiClient, namespace: str, freeze: Callable[[], None]) -> None:
    version = (await api.list(CONFIG_MAPS, namespace)).resource_version
    async with aclosing(api.watch(CONFIG_MAPS, namespace, resource_version=version)) as watch:
        await api.create(CONFIG_MAPS, namespace, config_map("a"))
        await added(watch, "a")
        await asyncio.to_thread(freeze)


async def give_up_a_request(api: ApiClient, namespace: str, freeze: Callable[[], None]) -> None:
    assert await api.get(CONFIG_MAPS, namespace, "a") is None
    await asyncio.to_thread(freeze)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await api.get(CONFIG_MAPS, namespace, "a")


@pytest.mark.parametrize("give_up", [give_up_a_watch, give_up_a_request])
def test_what_is_given_up_waits_for_no_server_to_close_its_connection(
    control_plane: ControlPlane,
    connect: Connect,
    namespace: str,
    give_up: Callable[[ApiClient, str, Callable[[], None]], Awaitable[None]],
) -> None:
    async def scenario() -> None:
        async with connect() as api:
            await give_up(api, namespace, control_plane.freeze_api)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            run(scenario())
        finally:
            control_plane.thaw_api()
        gc.collect()
    assert [str(warning.message) for warning in seen] == []


def test_following_misses_nothing_when_watches_end(
    control_plane: ControlPlane, connect: Connect, namespace: str
) -> None:
    async def scenario() -> None:
        seen: list[RequestDone] = []
        settings = replace(SETTINGS, watch_timeout_seconds=1)
        async with connect(settings, on_request=seen.append) as api:
            version = (await api.list(CONFIG_MAPS, namespace)).resource_version
            events = follow(
                api,
                CONFIG_MAPS,
                namespace,
                resource_version=version,
                settings=settings,
                selector={"labelSelector": "size=none"},
            )
            async with aclosing(events):
                for at in range(3):
                    following = asyncio.ensure_future(anext(events))
                    await aeventually(
                        partial(watched_more_than, seen, at + 1), 10_000, "another watch"
                    )
                    await api.create(CONFIG_MAPS, namespace, config_map(f"m{at}"))
                    event = await following
                    assert (event.type, event.object["metadata"]["name"]) == ("ADDED", f"m{at}")
                delete = partial(control_plane.kubectl, "delete", "configmap", "-n", namespace)
                await asyncio.to_thread(delete, "m0")
                assert (await anext(events)).type == "DELETED"

    run(scenario())


def watched_more_than(seen: list[RequestDone], times: int) -> bool:
    return len([item for item in seen if item.verb == "watch"]) > times


def test_a_watch_of_a_version_that_the_store_has_not_reached_has_expired(
    connect: Connect, namespace: str
) -> None:
    """The API server takes such a watch, after a restored backup for example, and stays silent."""

    async def scenario() -> None:
        async with connect() as api:
            reached = (await api.list(CONFIG_MAPS, namespace)).resource_version
            later = str(int(reached) + 1_000_000)
            events = follow(api, CONFIG_MAPS, namespace, resource_version=later, settings=SETTINGS)
            with pytest.raises(WatchExpired, match="the store went back to"):
                await anext(events)

    run(scenario())


def test_a_watch_from_before_the_server_started_has_expired(
    control_plane: ControlPlane, connect: Connect, namespace: str
) -> None:
    async def scenario() -> None:
        async with connect() as api:
            await asyncio.to_thread(control_plane.kill_api)
            with pytest.raises(StoreUnavailable):
                await api.get(CONFIG_MAPS, namespace, "a")
            await asyncio.to_thread(control_plane.start_api)
            events = follow(api, CONFIG_MAPS, namespace, resource_version="1", settings=SETTINGS)
            with pytest.raises(WatchExpired):
                await anext(events)

    run(scenario())

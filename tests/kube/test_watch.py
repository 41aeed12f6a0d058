"""A watch that cannot go on is logged; one that can go on is not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, cast

import pytest

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import StoreUnavailable, WatchExpired
from strandline.kube import waiting
from strandline.kube.api import ApiClient, Object, Resource, WatchEvent
from strandline.kube.watch import follow
from strandline.log_fields import fields_of

from .test_waiting import SetTime

THINGS = Resource(group="", version="v1", plural="things")
NAMED = {"fieldSelector": "metadata.name=a"}
SETTINGS = KubernetesConfig(backoff_ms=1_000, backoff_max_ms=1_000)
"""With these settings each attempt is a second after the last one."""
UNREACHABLE = "unreachable"
SILENT = "silent"
"""An outcome: the API server accepts the watch, sends nothing and breaks the connection."""


class Api:
    """An API server with one outcome for each watch."""

    def __init__(self, *outcomes: str) -> None:
        self.outcomes = list(outcomes)

    async def watch(
        self, _: Resource, __: str, *, on_open: Callable[[], None], **___: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        outcome = self.outcomes.pop(0)
        if outcome != UNREACHABLE:
            on_open()
        if outcome in {UNREACHABLE, SILENT}:
            raise StoreUnavailable(outcome)
        changed: Object = {"metadata": {"resourceVersion": outcome}}
        yield WatchEvent(type="MODIFIED", object=changed)


def logged_order(api: Api, events: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Follow until `events` events came; return events and log lines in their order."""
    clock = SetTime(monkeypatch)
    order: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            line = fields_of(record)
            assert (record.levelname, record.getMessage()) == ("WARNING", "waiting")
            order.append(f"{line['waiting_for']} {line['waited_seconds']:g}: {line['cause']}")

    async def sleep(seconds: float) -> None:
        clock.seconds += seconds

    async def scenario() -> None:
        changes = follow(
            cast(ApiClient, api),
            THINGS,
            "somewhere",
            resource_version="1",
            settings=SETTINGS,
            selector=NAMED,
        )
        async with aclosing(changes):
            for _ in range(events):
                event = await anext(changes)
                order.append(event.resource_version)

    handler = Lines()
    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(waiting._log, "handlers", [handler])
    asyncio.run(scenario())
    return order


def test_outage_is_logged_at_once_and_then_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Api("2", *[UNREACHABLE] * 25, "3", UNREACHABLE, "4")
    watch = "watch of things with metadata.name=a"
    assert logged_order(api, 3, monkeypatch) == [
        "2",
        *(f"{watch} {seconds}: unreachable" for seconds in (0, 10, 20)),
        "3",
        f"{watch} 0: unreachable",
        "4",
    ]


def test_accepted_watch_ends_the_outage_without_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Api(*[UNREACHABLE] * 5, SILENT, UNREACHABLE, UNREACHABLE, "2")
    watch = "watch of things with metadata.name=a"
    assert logged_order(api, 1, monkeypatch) == [
        f"{watch} 0: unreachable",
        f"{watch} 0: silent",
        "2",
    ]


def test_watches_that_end_in_order_log_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert logged_order(Api("2", "3", "4"), 3, monkeypatch) == ["2", "3", "4"]


def followed(api: Api, told: list[str]) -> AsyncGenerator[WatchEvent, None]:
    return follow(
        cast(ApiClient, api),
        THINGS,
        "somewhere",
        resource_version="1",
        settings=KubernetesConfig(backoff_ms=1, backoff_max_ms=1),
        on_sign_of_life=lambda plural: told.append(f"{plural} alive"),
        on_end=lambda plural: told.append(f"{plural} ended"),
    )


def test_an_opening_is_a_sign_of_life_and_an_end_is_told_when_the_caller_wants_it() -> None:
    told: list[str] = []

    async def scenario() -> None:
        async with aclosing(followed(Api(UNREACHABLE, SILENT, "2"), told)) as changes:
            await anext(changes)
            assert told == ["things alive"] * 3

    asyncio.run(scenario())
    assert told[3:] == ["things ended"]


def test_a_watch_that_is_cancelled_while_it_waits_has_ended() -> None:
    told: list[str] = []

    async def scenario() -> None:
        waiting = asyncio.create_task(anext(followed(Api(*[UNREACHABLE] * 1_000), told)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())
    assert told == ["things ended"]


def test_a_watch_that_cannot_go_on_has_not_ended() -> None:
    """Its caller lists and watches anew; meanwhile it shows nothing, and that must be told."""
    told: list[str] = []

    class Expired(Api):
        async def watch(
            self, _: Resource, __: str, *, on_open: Callable[[], None], **___: Any
        ) -> AsyncGenerator[WatchEvent, None]:
            on_open()
            if not self.outcomes:
                raise WatchExpired("too old")
            yield WatchEvent(type="MODIFIED", object={})

    async def scenario() -> None:
        with pytest.raises(WatchExpired):
            await anext(followed(Expired(), told))

    asyncio.run(scenario())
    assert told == ["things alive"]

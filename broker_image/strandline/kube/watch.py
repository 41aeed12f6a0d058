"""Follow a collection without gaps: each watch starts where the last one ended.

Changes are hints: a caller reads the object again before it decides. A watch that cannot go
on raises `WatchExpired`, and the caller must list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import StoreUnavailable

from .api import ApiClient, Object, Resource, WatchEvent
from .waiting import Pauses, WaitingReport

_BOOKMARK: Final = "BOOKMARK"
_DELETED: Final = "DELETED"
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[Value]):
    """A hint that an object changed; value None means it was deleted, or is not usable yet."""

    name: str
    resource_version: str
    value: Value | None


def change_of(event: WatchEvent, read: Callable[[Object], Value | None]) -> Change[Value]:
    """Return the change that a watch event shows; raises ObjectMalformed as `read` does."""
    return Change(
        name=str(event.object["metadata"]["name"]),
        resource_version=event.resource_version,
        value=None if event.type == _DELETED else read(event.object),
    )


async def follow(
    api: ApiClient,
    resource: Resource,
    namespace: str,
    *,
    resource_version: str,
    settings: KubernetesConfig,
    selector: Mapping[str, str] = {},
    timeout_seconds: int = 0,
    on_sign_of_life: Callable[[str], None] = lambda _: None,
    on_end: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[WatchEvent, None]:
    """Yield every change after a resourceVersion, across ended and broken watches.

    While the API server takes no watch, a log line says so at once and then at an interval.
    on_sign_of_life gets the plural of the resource at each opening, event and bookmark, and on_end
    when the caller follows no longer, not when it cannot. Each watch lasts timeout_seconds, by
    default those of the settings.

    Raises:  WatchExpired if changes may have been missed; StoreForbidden
    """
    watched = " with ".join([f"watch of {resource.plural}", *selector.values()])
    report, pauses = WaitingReport(settings), Pauses(settings)

    def opened() -> None:
        report.reset()
        on_sign_of_life(resource.plural)

    try:
        while True:
            watch = api.watch(
                resource,
                namespace,
                resource_version=resource_version,
                selector=selector,
                on_open=opened,
                timeout_seconds=timeout_seconds,
            )
            try:
                async with aclosing(watch):
                    async for event in watch:
                        pauses.reset()
                        resource_version = event.resource_version
                        on_sign_of_life(resource.plural)
                        if event.type != _BOOKMARK:
                            yield event
                pauses.reset()
            except StoreUnavailable as error:
                report.waiting_for(watched, error)
            # Pause after an orderly end, too: the API server may end each watch at once.
            await pauses.pause()
    except (GeneratorExit, asyncio.CancelledError):
        on_end(resource.plural)
        raise

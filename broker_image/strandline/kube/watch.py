"""Follow a collection without gaps: each watch starts where the last one ended.

Changes are hints: a caller reads the object again before it decides. A watch that cannot go
on raises `WatchExpired`, and the caller must list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from strandline.backoff import Backoff
from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import StoreUnavailable

from .api import ApiClient, Resource, WatchEvent

_BOOKMARK = "BOOKMARK"


async def follow(
    api: ApiClient,
    resource: Resource,
    namespace: str,
    *,
    resource_version: str,
    settings: KubernetesConfig,
    label_selector: str = "",
    field_selector: str = "",
    on_sign_of_life: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[WatchEvent, None]:
    """Yield every change after a resourceVersion, across ended and broken watches.

    on_sign_of_life gets the plural of the resource at each event and bookmark.

    Raises:  WatchExpired if changes may have been missed; StoreForbidden
    """
    backoff = Backoff(first_ms=settings.backoff_ms, max_ms=settings.backoff_max_ms)
    failures = 0
    while True:
        watch = api.watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        try:
            async with aclosing(watch):
                async for event in watch:
                    failures = 0
                    resource_version = event.resource_version
                    on_sign_of_life(resource.plural)
                    if event.type != _BOOKMARK:
                        yield event
        except StoreUnavailable:
            failures += 1
        # Pause after an orderly end, too: the API server may end each watch at once.
        await asyncio.sleep(backoff.after_ms(failures + 1) / 1000)

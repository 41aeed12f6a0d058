"""Compares the definitions that the API server serves with the fields that this version needs.

Called by `main` before anything is watched, and again and again while the operator works. A field
that a definition lacks would be dropped from every object without an error: records could be kept,
deleted or rebuilt as nobody asked for. The OpenAPI document shows the definitions to every account,
so no right in the whole cluster is needed.

`needed_fields.txt` is made of the chart's definitions by `python -m tests.chart.needed_fields`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import CoordinationError, StoreForbidden, StoreNotFound
from strandline.kube.api import ApiClient
from strandline.kube.objects import API_VERSION
from strandline.kube.waiting import Pauses, WaitingReport
from strandline.log_fields import fields

_log = logging.getLogger(__name__)

NEEDED_FILE: Final = "needed_fields.txt"
"""Lines of a kind and the path of one of its fields, beside this module."""
FIELDS_NAMED_MAX: Final = 10
"""Fields that the sentence names; an old definition can lack dozens."""
CURE: Final = "helm upgrade --install strandline-crds helm/strandline-crds"

_DOCUMENT: Final = f"/openapi/v3/apis/{API_VERSION}"
_KIND: Final = "x-kubernetes-group-version-kind"

Fields = Mapping[str, frozenset[str]]
"""Paths of fields for each kind, as in `spec.storage.size`; lists end in `[]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What the served definitions lack; nothing, if it is false."""

    kinds: tuple[str, ...]
    fields: tuple[str, ...]
    """`Kind path`, sorted; of kinds that are served."""

    def __bool__(self) -> bool:
        return bool(self.kinds or self.fields)

    @property
    def count(self) -> int:
        """Return how many kinds and fields are lacking."""
        return len(self.kinds) + len(self.fields)

    def __str__(self) -> str:
        """Return the sentence that tells a person what is old, and what to run."""
        parts = []
        if self.kinds:
            parts.append(f"missing definitions: {', '.join(self.kinds)}")
        if self.fields:
            named = ", ".join(self.fields[:FIELDS_NAMED_MAX])
            more = len(self.fields) - FIELDS_NAMED_MAX
            rest = f" and {more} more" if more > 0 else ""
            parts.append(f"definitions are older than this operator and lack: {named}{rest}")
        return f"{'; '.join(parts)}; run {CURE}"


def needed_fields() -> Fields:
    """Return the fields that the operator and the brokers of this version need."""
    text = resources.files(__package__).joinpath(NEEDED_FILE).read_text()
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        kind, path = line.split()
        found.setdefault(kind, set()).add(path)
    return {kind: frozenset(paths) for kind, paths in found.items()}


def paths_of(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path and schema of a value and of everything in it; `any` is the keys of a map."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from paths_of(inner, f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from paths_of(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from paths_of(schema["additionalProperties"], f"{path}.any")


def served_fields(document: Mapping[str, Any]) -> Fields:
    """Return the fields of all kinds that an OpenAPI document of our group describes."""
    found = {}
    for schema in document.get("components", {}).get("schemas", {}).values():
        for each in schema.get(_KIND, []):
            if f"{each['group']}/{each['version']}" == API_VERSION:
                found[each["kind"]] = frozenset(path for path, _ in paths_of(schema))
    return found


def lacking(needed: Fields, served: Fields) -> Lacking:
    """Return what is needed and not served; fields of later versions do no harm."""
    return Lacking(
        kinds=tuple(sorted(needed.keys() - served.keys())),
        fields=tuple(
            f"{kind} {path}"
            for kind in sorted(needed.keys() & served.keys())
            for path in sorted(needed[kind] - served[kind])
        ),
    )


async def wait_until_served(
    api: ApiClient,
    tell: Callable[[str], None],
    count: Callable[[int], None] = lambda _: None,
) -> None:
    """Wait while definitions are missing or too old; `tell` gets the sentence of each look.

    `count` gets how many kinds and fields are lacking. An API server that hides its document cannot
    be checked; the operator says so and goes on.
    """
    settings = KubernetesConfig()
    pauses, report = Pauses(settings), WaitingReport(settings)
    while True:
        try:
            found = await _look(api)
        except StoreForbidden as error:
            _log.warning("definitions were not checked", extra=fields(cause=str(error)))
            return
        except CoordinationError as error:
            tell(f"the API server does not show its definitions: {error}")
            report.waiting_for("the API server", error)
            await pauses.pause()
            continue
        count(found.count)
        if not found:
            return
        tell(str(found))
        report.waiting_for("definitions", found)
        await pauses.pause()


async def keep_looking(
    api: ApiClient,
    *,
    every_seconds: int,
    pause: Callable[[], None],
    tell: Callable[[str], None],
    count: Callable[[int], None],
    resume: Callable[[], None],
) -> None:
    """Look again and again; between `pause` and `resume` definitions are too old.

    `tell` and `count` are those of `wait_until_served`. An API server that is away, or hides its
    document, is no news of the definitions; one that begins to hide it meanwhile ends the wait, as
    it does at the start. Never returns.
    """
    while True:
        await asyncio.sleep(every_seconds)
        try:
            found = await _look(api)
        except CoordinationError as error:
            _log.debug("definitions were not looked at", extra=fields(cause=str(error)))
            continue
        if not found:
            continue
        pause()
        tell(str(found))
        count(found.count)
        await wait_until_served(api, tell, count)
        count(0)
        resume()


async def _look(api: ApiClient) -> Lacking:
    """Return what the served definitions lack.

    Raises:  StoreForbidden if the API server hides its document, CoordinationError if it is away
    """
    needed = needed_fields()
    try:
        return lacking(needed, served_fields(await api.document(_DOCUMENT)))
    except StoreNotFound:
        return lacking(needed, {})

"""The verbs of the Kubernetes API over plain dicts, with short timeouts and our own errors.

Used by brokers and by the operator; no kind of object is known here. Reads carry no
resourceVersion and are therefore quorum reads. Calls are not retried here, because only the
caller knows whether its decision is still right.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import (
    CoordinationError,
    ObjectMalformed,
    StoreConflict,
    StoreForbidden,
    StoreNotFound,
    StoreRefused,
    StoreUnavailable,
    WatchExpired,
)

from .connection import Connection, unavailable

Object = dict[str, Any]
Value = TypeVar("Value")

ERROR_TEXT_MAX: Final = 2_000
_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"
_ERRORS: Final[dict[int, type[CoordinationError]]] = {
    401: StoreForbidden,
    403: StoreForbidden,
    404: StoreNotFound,
    408: StoreUnavailable,
    409: StoreConflict,
    410: WatchExpired,
    429: StoreUnavailable,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind of object as its address in the API; group "" is the core group."""

    group: str
    version: str
    plural: str

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection, of an object, or of its subresource.

        The namespace is "" for objects outside namespaces.
        """
        root = f"/apis/{self.group}" if self.group else "/api"
        within = ("namespaces", namespace) if namespace else ()
        parts = (*within, self.plural, name, subresource)
        return "/".join([root, self.version, *(quote(part, safe="") for part in parts if part)])


_PODS: Final = Resource(group="", version="v1", plural="pods")
_DOCUMENT: Final = Resource(group="", version="", plural="document")
"""How calls that are about no kind of object are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[Value]):
    """A complete quorum list and the resourceVersion from which to watch on."""

    items: tuple[Value, ...]
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """ADDED, MODIFIED, DELETED, or BOOKMARK, whose object has only a resourceVersion."""

    type: str
    object: Object

    @property
    def resource_version(self) -> str:
        """Return the resourceVersion from which a watch may go on after this event."""
        return str(self.object["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDone:
    """One finished request, for metrics; code is the HTTP status, "timeout" without an answer."""

    verb: str
    resource: str
    code: str
    seconds: float


class ApiClient:
    """One authenticated client; safe for concurrent use on one event loop.

    Raises:  from every call StoreUnavailable without a usable answer, StoreForbidden for 401
             and 403, StoreRefused for a request that the API server finds wrong
    """

    def __init__(
        self,
        connection: Connection,
        settings: KubernetesConfig,
        *,
        field_manager: str,
        on_request: Callable[[RequestDone], None] = lambda _: None,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._field_manager = field_manager
        self._on_request = on_request

    @classmethod
    async def open(
        cls,
        settings: KubernetesConfig,
        *,
        field_manager: str,
        on_request: Callable[[RequestDone], None] = lambda _: None,
    ) -> Self:
        """Find the API server (KUBECONFIG, else in-cluster), or ConfigError; sends nothing yet."""
        connection = await Connection.open(settings)
        return cls(connection, settings, field_manager=field_manager, on_request=on_request)

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Read one object with quorum; None if it does not exist."""
        try:
            return await self._call("get", "GET", resource, resource.path(namespace, name))
        except StoreNotFound:
            return None

    async def document(self, path: str) -> Object:
        """Read a document of the API server that is no object, such as its OpenAPI schema."""
        timeout_ms = self._settings.list_timeout_ms
        return await self._call("get", "GET", _DOCUMENT, path, timeout_ms=timeout_ms)

    async def list(
        self, resource: Resource, namespace: str, *, selector: Mapping[str, str] = {}
    ) -> Listed[Object]:
        """Read a whole collection with quorum: all pages of one snapshot.

        selector holds the API's labelSelector and fieldSelector.

        Raises:  WatchExpired if at every attempt the snapshot expired between two pages
        """
        for _ in range(self._settings.list_attempts - 1):
            with suppress(WatchExpired):
                return await self._list_once(resource, resource.path(namespace), selector)
        return await self._list_once(resource, resource.path(namespace), selector)

    async def create(self, resource: Resource, namespace: str, body: Object) -> Object:
        """Create an object; StoreConflict if it exists."""
        path = resource.path(namespace)
        query = self._written()
        return await self._call("create", "POST", resource, path, query=query, body=body)

    async def put(
        self, resource: Resource, namespace: str, body: Object, *, subresource: str = ""
    ) -> Object:
        """Replace an object or its subresource: a compare-and-swap on metadata.resourceVersion.

        Raises:  StoreConflict if it changed meanwhile, StoreNotFound if it is gone
        """
        path = resource.path(namespace, body["metadata"]["name"], subresource)
        query = self._written()
        return await self._call("update", "PUT", resource, path, query=query, body=body)

    async def apply(
        self, resource: Resource, namespace: str, body: Object, *, subresource: str = ""
    ) -> Object:
        """Apply the given fields server-side, creating the object if it does not exist.

        Fields that another manager owns are taken over.

        Raises:  StoreConflict if metadata.resourceVersion is given and differs
        """
        path = resource.path(namespace, body["metadata"]["name"], subresource)
        query = {**self._written(), "force": "true"}
        return await self._call(
            "apply", "PATCH", resource, path, query=query, body=body, content_type=_APPLY
        )

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str, propagation: str = ""
    ) -> None:
        """Delete this very object; one that is gone is no error, StoreConflict if it is another.

        propagation is Kubernetes' own, Orphan leaves what the object owns; "" is the kind's way.
        """
        body: Object = {"preconditions": {"uid": uid}}
        if propagation:
            body["propagationPolicy"] = propagation
        with suppress(StoreNotFound):
            path = resource.path(namespace, name)
            await self._call("delete", "DELETE", resource, path, body=body)

    async def evict(
        self, namespace: str, name: str, *, uid: str, resource_version: str = ""
    ) -> None:
        """Evict this very pod, as of a resource_version if given; one that is gone is no error.

        Raises:  StoreConflict if it is another or changed since, StoreUnavailable also if a
                 disruption budget does not allow it now

        Source: Kubernetes, API-initiated eviction; 429 is a budget's refusal
        """
        seen = {"resourceVersion": resource_version} if resource_version else {}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid, **seen}},
        }
        with suppress(StoreNotFound):
            path = _PODS.path(namespace, name, "eviction")
            await self._call("evict", "POST", _PODS, path, body=body)

    async def watch(
        self,
        resource: Resource,
        namespace: str,
        *,
        resource_version: str,
        selector: Mapping[str, str] = {},
        on_open: Callable[[], None] = lambda: None,
        timeout_seconds: int = 0,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes after a resourceVersion until the API server ends the watch.

        Bookmarks are yielded too: the next watch may start at their resourceVersion. on_open runs
        when the API server has taken the watch, maybe long before the first change. The API server
        ends the watch after timeout_seconds, by default those of the settings: silence for
        longer means that the connection is broken.

        A store that was restored from a backup may not have reached the resourceVersion yet. The
        API server takes such a watch and shows no change before that, so each watch begins with
        a read of what the store has reached.

        Raises:  WatchExpired if the resourceVersion is too old, or higher than the store's, so
                 that the caller must list; StoreUnavailable if the connection broke or stayed
                 silent
        """
        lasts_seconds = timeout_seconds or self._settings.watch_timeout_seconds
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(lasts_seconds),
            **selector,
        }
        path = f"{resource.path(namespace)}?{urlencode(query)}"
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=self._settings.connect_timeout_ms / 1000,
            sock_read=lasts_seconds + self._settings.watch_grace_ms / 1000,
        )
        what = f"watch {resource.plural}"
        begun = time.monotonic()
        try:
            response = await self._connection.send("GET", path, limits=timeout)
        except StoreUnavailable:
            self._observe("watch", resource, "timeout", begun)
            raise
        self._observe("watch", resource, str(response.status), begun)
        async with response:
            if response.status != 200:
                raise _error(what, response.status, await _body_text(response, what))
            on_open()
            # After the opening: a store that is restored later breaks this connection.
            await self._check_reached(resource, namespace, resource_version)
            async for event in _events(response, what):
                yield event

    async def _check_reached(self, resource: Resource, namespace: str, version: str) -> None:
        path = resource.path(namespace)
        page = await self._call("list", "GET", resource, path, query={"limit": "1"})
        reached = str(page["metadata"]["resourceVersion"])
        if is_before(reached, version):
            raise WatchExpired(f"watch {resource.plural}: the store went back to {reached}")

    async def _list_once(
        self, resource: Resource, path: str, selector: Mapping[str, str]
    ) -> Listed[Object]:
        items: list[Object] = []
        query = {**selector, "limit": str(self._settings.list_page_size)}
        timeout_ms = self._settings.list_timeout_ms
        while True:
            page = await self._call(
                "list", "GET", resource, path, query=query, timeout_ms=timeout_ms
            )
            items += page.get("items") or []
            metadata = page["metadata"]
            if not metadata.get("continue"):
                version = str(metadata["resourceVersion"])
                return Listed(items=tuple(items), resource_version=version)
            query["continue"] = metadata["continue"]

    async def _call(
        self,
        verb: str,
        method: str,
        resource: Resource,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = _JSON,
        timeout_ms: int = 0,
    ) -> Object:
        """Send one request, read its answer, and turn refusals into our errors."""
        settings = self._settings
        timeout = aiohttp.ClientTimeout(
            total=(timeout_ms or settings.request_timeout_ms) / 1000,
            sock_connect=settings.connect_timeout_ms / 1000,
        )
        url = f"{path}?{urlencode(query)}" if query else path
        what = f"{verb} {path}"
        begun = time.monotonic()
        code = "timeout"
        try:
            response = await self._connection.send(
                method, url, body=body, content_type=content_type, limits=timeout
            )
            async with response:
                text = await _body_text(response, what)
            code = str(response.status)
        finally:
            self._observe(verb, resource, code, begun)
        if response.status >= 300:
            raise _error(what, response.status, text)
        return _decoded(text, what)

    def _written(self) -> dict[str, str]:
        return {"fieldManager": self._field_manager, "fieldValidation": "Strict"}

    def _observe(self, verb: str, resource: Resource, code: str, begun: float) -> None:
        seconds = time.monotonic() - begun
        self._on_request(
            RequestDone(verb=verb, resource=resource.plural, code=code, seconds=seconds)
        )


async def _events(response: aiohttp.ClientResponse, what: str) -> AsyncGenerator[WatchEvent, None]:
    """Yield the event of each line; raise the error that an ERROR event carries."""
    with unavailable(what, ValueError, KeyError):
        async for line in response.content:
            if not line.strip():
                continue
            event = _decoded(line, what)
            if event.get("type") == "ERROR":
                status = event.get("object") or {}
                raise _error(what, int(status.get("code") or 500), json.dumps(status))
            yield WatchEvent(type=str(event["type"]), object=event["object"])


async def _body_text(response: aiohttp.ClientResponse, what: str) -> bytes:
    with unavailable(what):
        return await response.read()


def _decoded(text: bytes, what: str) -> Object:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise StoreUnavailable(f"{what}: the answer is not JSON") from error
    if not isinstance(value, dict):
        raise ObjectMalformed(f"{what}: the answer is not an object")
    return value


def is_before(version: str, other: str) -> bool:
    """Tell whether a resourceVersion is lower than another one of the same kind of object.

    Versions that are not decimal numbers cannot be compared.

    Source: Kubernetes, comparable resource versions (KEP-5504)
    """
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


def _error(what: str, status: int, body: bytes | str) -> CoordinationError:
    """Return our error for an HTTP status; any other 4xx is StoreRefused, which is final."""
    final = 400 <= status < 500
    kind = _ERRORS.get(status, StoreRefused if final else StoreUnavailable)
    return kind(f"{what}: {status} {_message(body)}")


def _message(body: bytes | str) -> str:
    """Return the sentence of a Kubernetes Status, or the beginning of any other answer."""
    try:
        status = json.loads(body)
        message = status["message"] if isinstance(status, dict) else ""
    except (ValueError, KeyError):
        message = body.decode(errors="replace") if isinstance(body, bytes) else body
    return str(message)[:ERROR_TEXT_MAX]

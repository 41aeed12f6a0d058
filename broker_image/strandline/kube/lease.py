"""Leases as records: read, replace by compare-and-swap, watch.

Whether a Lease may be taken is not decided here. A PUT replaces the whole object, so the
store keeps the metadata of the last read (owner, labels, uid) and sends it back. The uid
matters: without it, a PUT of a Lease that was deleted meanwhile would create it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import StoreConflict, StoreNotFound
from strandline.log_fields import fields
from strandline.model import LeaseRecord

from .api import ApiClient, Listed, Object, Resource
from .objects import CONTROLLER_EPOCH_ANNOTATION, lease_from_object, lease_spec
from .watch import Change, change_of, follow

_log = logging.getLogger(__name__)
LEASES: Final = Resource(group="coordination.k8s.io", version="v1", plural="leases")


@dataclass(slots=True, eq=False)
class LeaseStore:
    """The Leases of one namespace."""

    api: ApiClient
    settings: KubernetesConfig
    _: KW_ONLY
    namespace: str
    on_sign_of_life: Callable[[str], None] = lambda _: None
    on_watch_end: Callable[[str], None] = lambda _: None
    _metadata: Object = field(default_factory=dict, init=False)

    async def get(self, name: str) -> LeaseRecord | None:
        """Read a Lease with quorum, None if it does not exist."""
        found = await self.api.get(LEASES, self.namespace, name)
        return None if found is None else self._remembered(found)

    async def list(self, name: str) -> Listed[LeaseRecord]:
        """List one Lease, if it exists, with the version from which to watch it."""
        found = await self.api.list(LEASES, self.namespace, selector=_only(name))
        items = tuple(self._remembered(item) for item in found.items)
        return Listed(items=items, resource_version=found.resource_version)

    async def put(self, record: LeaseRecord) -> LeaseRecord:
        """Replace the Lease that was read at record.resource_version.

        Returns: the record with its new resourceVersion
        Raises:  StoreConflict if it changed since; StoreNotFound if it is gone;
                 StoreUnavailable if it may or may not have been written
        """
        if not self._is_last_read(record):
            await self._read_again(record)
        metadata = self._metadata
        annotations = dict(metadata.get("annotations") or {})
        if record.controller_epoch or CONTROLLER_EPOCH_ANNOTATION in annotations:
            annotations[CONTROLLER_EPOCH_ANNOTATION] = str(record.controller_epoch)
        body: Object = {
            "apiVersion": f"{LEASES.group}/{LEASES.version}",
            "kind": "Lease",
            "metadata": {**metadata, "annotations": annotations},
            "spec": lease_spec(record),
        }
        return self._remembered(await self.api.put(LEASES, self.namespace, body))

    async def watch(
        self, name: str, resource_version: str, *, timeout_seconds: int = 0
    ) -> AsyncGenerator[Change[LeaseRecord], None]:
        """Yield changes of one Lease after a resourceVersion; see `follow`."""
        events = follow(
            self.api,
            LEASES,
            self.namespace,
            resource_version=resource_version,
            settings=self.settings,
            selector=_only(name),
            timeout_seconds=timeout_seconds,
            on_sign_of_life=self.on_sign_of_life,
            on_end=self.on_watch_end,
        )
        async with aclosing(events):
            async for event in events:
                yield change_of(event, self._remembered)

    async def _read_again(self, record: LeaseRecord) -> None:
        found = await self.api.get(LEASES, self.namespace, record.name)
        if found is None:
            raise StoreNotFound(f"leases/{record.name} does not exist")
        self._remembered(found)
        if not self._is_last_read(record):
            raise StoreConflict(f"leases/{record.name} changed since it was read")

    def _is_last_read(self, record: LeaseRecord) -> bool:
        read = self._metadata.get("name"), self._metadata.get("resourceVersion")
        return read == (record.name, record.resource_version)

    def _remembered(self, found: Object) -> LeaseRecord:
        record = lease_from_object(found)
        annotations = found["metadata"].get("annotations") or {}
        written = annotations.get(CONTROLLER_EPOCH_ANNOTATION, "")
        if written and written != str(record.controller_epoch):
            cause = "not a controller epoch, 0 to 2147483647"
            ignored = {"name": record.name, "annotation": CONTROLLER_EPOCH_ANNOTATION}
            _log.warning("annotation ignored", extra=fields(**ignored, value=written, cause=cause))
        # The API server keeps managedFields itself: a PUT must not overwrite them.
        self._metadata = {k: v for k, v in found["metadata"].items() if k != "managedFields"}
        return record


def _only(name: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={name}"}

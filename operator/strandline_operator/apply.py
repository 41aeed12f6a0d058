"""Applies the actions of a plan to the API server, in order.

Called by `reconcile`. Decides nothing: an action that must not happen twice is a compare-and-swap
or a create. Any refusal or outage ends the pass; the next pass plans anew.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Final, assert_never

from strandline.errors import CoordinationError, StoreConflict, StoreUnavailable
from strandline.kube.api import ApiClient, Object
from strandline.log_fields import fields

from . import kinds, operator_config, resources
from .actions import (
    Action,
    ApplyObject,
    ApplyStatus,
    CreateCluster,
    EvictPod,
    GrowClaim,
    InitialisePartitions,
    MovePartition,
    PostEvent,
    RecreatePartitions,
    ReleasePods,
    RemoveConfigMaps,
    RemoveServices,
)
from .disruption import not_in_sync
from .observe import Cache
from .reading import read_partition

_log = logging.getLogger(__name__)

CREATES_AT_ONCE: Final = 16
"""Partitions created side by side: a large topic takes seconds, and does not flood the server."""

_PLANNED_FROM: Final = (kinds.PARTITION, kinds.CLUSTER, kinds.TOPIC)
"""Kinds of which the next plan must know what the last pass wrote, before a watch shows it.

It counts what each broker has, and must not miss a move; it compares with the reason in the status,
and must not tell again what the last pass told.
"""


class PartitionNotCreated(StoreUnavailable):
    """A new Partition could not be created; the next pass creates it to be recovered."""

    def __init__(self, name: str, cause: CoordinationError) -> None:
        super().__init__(f"Partition {name}: {cause}")
        self.cause = cause


def selector_of(labels: Mapping[str, str]) -> str:
    """Return labels as a query of the API server."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


class Applier:
    """Turns actions into calls of the API server."""

    def __init__(
        self, api: ApiClient, cache: Cache, *, namespace: str, now: Callable[[], str]
    ) -> None:
        self._api = api
        self._cache = cache
        self._namespace = namespace
        self._now = now

    async def apply(self, action: Action) -> None:
        """Apply one action.

        Raises:  CoordinationError if the API server refused it or did not answer
        """
        match action:
            case ApplyObject(body=body) | GrowClaim(body=body) | MovePartition(body=body):
                await self._apply(body)
            case ReleasePods(stateful_set=found):
                await self._api.delete(
                    *(found.kind.resource, self._namespace, found.name),
                    uid=found.uid,
                    propagation="Orphan",
                )
            case ApplyStatus(body=body):
                await self._apply(body, subresource="status")
            case RemoveConfigMaps():
                await self._remove_config_maps(action)
            case RemoveServices(services=services):
                for each in services:
                    resource = each.kind.resource
                    await self._api.delete(resource, self._namespace, each.name, uid=each.uid)
            case EvictPod():
                await self._evict(action)
            case InitialisePartitions():
                await self._initialise(action)
            case RecreatePartitions():
                await self._recreate(action)
            case CreateCluster(body=body):
                await self._create_if_absent(body)
            case PostEvent():
                await self._post(action)
            case _:
                assert_never(action)

    async def _apply(self, body: Object, *, subresource: str = "") -> Object:
        kind = kinds.KIND_OF[body["kind"]]
        applied = await self._api.apply(
            kind.resource, self._namespace, body, subresource=subresource
        )
        if kind in _PLANNED_FROM:
            self._cache.put_written(kind, applied)
        return applied

    async def _remove_config_maps(self, action: RemoveConfigMaps) -> None:
        """Delete what no pod, no revision of the StatefulSet and not itself names, as read now."""
        selector = selector_of(action.selector)
        revisions = await self._listed(kinds.CONTROLLER_REVISION, selector)
        pods = await self._listed(kinds.POD, selector)
        sets = await self._listed(kinds.STATEFUL_SET, selector)
        specs = [
            *(each["data"]["spec"]["template"]["spec"] for each in revisions),
            *(each["spec"] for each in pods),
            *(each["spec"]["template"]["spec"] for each in sets),
        ]
        named = {name for spec in specs for name in resources.config_maps_named(spec)}
        for former in action.former:
            if former.name not in named:
                resource = former.kind.resource
                await self._api.delete(resource, self._namespace, former.name, uid=former.uid)

    async def _listed(self, kind: kinds.Kind, selector: str) -> tuple[Object, ...]:
        chosen = {"labelSelector": selector}
        return (await self._api.list(kind.resource, self._namespace, selector=chosen)).items

    async def _evict(self, action: EvictPod) -> None:
        """Evict a pod; watches of Partitions may have been silent, so these are read anew."""
        pod, behind = action.pod, ""
        if action.in_sync:
            found = await self._listed(kinds.PARTITION, selector_of(action.in_sync))
            behind = not_in_sync(read_partition(each).stored for each in found)
        if behind:
            raise StoreConflict(f"replicas are behind that were in sync when last seen: {behind}")
        await self._api.evict(
            self._namespace, pod.name, uid=pod.uid, resource_version=action.resource_version
        )
        self._cache.evicted(pod)

    async def _initialise(self, action: InitialisePartitions) -> None:
        """Raise the number, then create the new Partitions, in this order and in one pass."""
        raised = await self._apply(action.status_body, subresource="status")
        self._cache.put(kinds.TOPIC, raised)
        limit = asyncio.Semaphore(CREATES_AT_ONCE)

        async def create(body: Object) -> PartitionNotCreated | None:
            async with limit:
                return await self._create_new(body)

        # A failed create must not stop the others: only this pass may create them as new.
        failed = [each for each in await asyncio.gather(*map(create, action.bodies)) if each]
        if failed:
            raise failed[0]

    async def _create_new(self, body: Object) -> PartitionNotCreated | None:
        """Create a Partition, new in this pass alone; return the error if it was refused."""
        cause: CoordinationError
        for attempt in range(1, operator_config.CREATE_ATTEMPTS + 1):
            try:
                created = await self._api.create(kinds.PARTITION.resource, self._namespace, body)
                self._cache.put_new(kinds.PARTITION, created)
                return None
            except StoreConflict as error:
                cause = error
                if await self._is_already(body):
                    return None
            except StoreUnavailable as error:
                cause = error
            except CoordinationError as error:
                # Forbidden or wrong: a pass that repeats it would only keep a worker.
                cause = error
                break
            await asyncio.sleep(operator_config.CREATE_BACKOFF.after_ms(attempt) / 1000)
        return PartitionNotCreated(kinds.name_of(body), cause)

    async def _is_already(self, body: Object) -> bool:
        """Tell whether the existing Partition is the one to create."""
        resource, name = kinds.PARTITION.resource, kinds.name_of(body)
        try:
            found = await self._api.get(resource, self._namespace, name)
        except CoordinationError:
            return False
        topic_id = body["spec"]["topicId"]
        return found is not None and read_partition(found).stored.tp.topic_id == topic_id

    async def _recreate(self, action: RecreatePartitions) -> None:
        """Create the Partitions that are missing; tell of no other, also if one is refused."""
        created: list[int] = []
        try:
            for body in action.bodies:
                is_new = await self._create_if_absent(body)
                created += [body["spec"]["partition"]] if is_new else []
        finally:
            if created:
                await self._post(action.event(created))

    async def _create_if_absent(self, body: Object) -> bool:
        """Create an object, and tell whether it was missing; the cache then has what there is."""
        kind, is_new = kinds.KIND_OF[body["kind"]], True
        try:
            found: Object | None = await self._api.create(kind.resource, self._namespace, body)
        except StoreConflict:
            # The view was old. Without this read the next plan would be made from the same view.
            is_new = False
            found = await self._api.get(kind.resource, self._namespace, kinds.name_of(body))
        if found is not None:
            self._cache.put_new(kind, found)
        return is_new

    async def _post(self, event: PostEvent) -> None:
        words = f"{event.about.uid} {event.reason} {event.message} {event.once}"
        suffix = uuid.uuid5(uuid.NAMESPACE_OID, words).hex if event.once else uuid.uuid4().hex
        body = resources.event(
            event, namespace=self._namespace, now=self._now(), suffix=suffix[:16]
        )
        try:
            await self._api.create(kinds.EVENT.resource, self._namespace, body)
        except CoordinationError as error:
            if event.once and isinstance(error, StoreConflict):
                return  # it is there: an operator was killed right after it
            # The status says the same; an Event that is refused must not end the pass before it.
            _log.warning("event not posted", extra=fields(about=str(event), cause=str(error)))

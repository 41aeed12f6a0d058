"""The objects of one cluster as values: quorum reads, compare-and-swap writes, changes.

Used by the controller's shell and by a broker's registration. Every read is a quorum read.
Every write carries the resourceVersion of the read that its decision used, and raises
`StoreConflict` if the object changed since. Writes are not retried here.

The controller's lists and watches leave a malformed object out and log it: one such object
must not keep every candidate from becoming active. A topic that is left out keeps its data:
only `list_topic_ids`, which reads uids alone, proves a deletion. Reads and watches of a single
object are strict and raise `ObjectMalformed`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import ObjectMalformed, StoreConflict
from strandline.log_fields import fields
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    ControllerRecord,
    PartitionState,
    Registration,
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
)

from .api import ApiClient, Object, Resource, WatchEvent
from .objects import (
    API_VERSION,
    CLUSTER_LABEL,
    broker_from_object,
    broker_status,
    controller_record_from_object,
    controller_status,
    format_micro_time,
    partition_from_object,
    partition_status,
    topic_cluster,
    topic_from_object,
)
from .watch import follow

_log = logging.getLogger(__name__)

_GROUP, _VERSION = API_VERSION.split("/")
PARTITIONS: Final = Resource(group=_GROUP, version=_VERSION, plural="partitions")
BROKERS: Final = Resource(group=_GROUP, version=_VERSION, plural="brokers")
TOPICS: Final = Resource(group=_GROUP, version=_VERSION, plural="replicatedtopics")
CLUSTERS: Final = Resource(group=_GROUP, version=_VERSION, plural="brokerclusters")

_DELETED: Final = "DELETED"
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Generic[Value]):
    """A complete quorum list and the resourceVersion from which to watch on."""

    values: tuple[Value, ...]
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[Value]):
    """A hint that an object changed; value None means it was deleted, or is not usable yet."""

    name: str
    resource_version: str
    value: Value | None


class ClusterStore:
    """The objects of one cluster in one namespace."""

    def __init__(
        self,
        api: ApiClient,
        settings: KubernetesConfig,
        *,
        namespace: str,
        cluster: str,
        wall_time_us: Callable[[], int],
        on_sign_of_life: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._settings = settings
        self._namespace = namespace
        self._cluster = cluster
        self._wall_time_us = wall_time_us
        self._on_sign_of_life = on_sign_of_life
        self._of_cluster = f"{CLUSTER_LABEL}={cluster}"

    # --- partitions ----------------------------------------------------------------------

    async def list_partitions(self) -> Listed[StoredPartition]:
        """List the Partitions of this cluster, malformed ones left out.

        A new controller takes an epoch above all it finds, and misses those of malformed
        Partitions. That is safe: the Lease and the BrokerCluster also hold the controller
        epoch, and the CRD never lets it fall (ADR 0003).
        """
        found = await self._api.list(PARTITIONS, self._namespace, label_selector=self._of_cluster)
        return Listed(
            values=_readable(found.items, partition_from_object),
            resource_version=found.resource_version,
        )

    async def get_partition(self, name: str) -> StoredPartition | None:
        """Read one Partition, None if it does not exist."""
        found = await self._api.get(PARTITIONS, self._namespace, name)
        return None if found is None else partition_from_object(found)

    async def put_partition_status(
        self, name: str, resource_version: str, state: PartitionState
    ) -> StoredPartition:
        """Replace the status of the Partition that was read at a resourceVersion.

        Raises:  StoreConflict if it changed since; StoreRefused if a rule of the CRD forbids
                 it; StoreUnavailable if it may or may not have been written
        """
        status = partition_status(state, changed_at=format_micro_time(self._wall_time_us()))
        body = self._status_body("Partition", name, resource_version, status)
        answer = await self._api.put_status(PARTITIONS, self._namespace, body)
        return partition_from_object(answer)

    def watch_partitions(
        self, resource_version: str
    ) -> AsyncGenerator[Change[StoredPartition], None]:
        """Yield changes of this cluster's Partitions after a resourceVersion; see `follow`."""
        return self._watch_readable(
            PARTITIONS, partition_from_object, resource_version, label_selector=self._of_cluster
        )

    async def highest_entry_epoch(self, broker_id: BrokerId) -> BrokerEpoch:
        """Return the highest broker epoch in this broker's ISR entries, 0 if it has none.

        Reads every Partition of the namespace, labelled or not: an epoch that is too high
        costs nothing, one that is too low makes an old ISR entry look present. A malformed
        Partition does not stop a broker from starting: its readable entries count. The other
        entries are safe to miss: a controller cannot use them either, and the Broker object
        and meta.json also hold this broker's epochs.
        """
        found = await self._api.list(PARTITIONS, self._namespace)
        return max((_entry_epoch(item, broker_id) for item in found.items), default=BrokerEpoch(0))

    # --- brokers -------------------------------------------------------------------------

    async def list_brokers(self) -> Listed[StoredBroker]:
        """List the Brokers of this cluster, malformed ones left out."""
        found = await self._api.list(BROKERS, self._namespace, label_selector=self._of_cluster)
        return Listed(
            values=_readable(found.items, broker_from_object),
            resource_version=found.resource_version,
        )

    async def get_broker(self, name: str) -> StoredBroker | None:
        """Read one Broker, None if it does not exist."""
        found = await self._api.get(BROKERS, self._namespace, name)
        return None if found is None else broker_from_object(found)

    async def find_broker(self, broker_id: BrokerId) -> StoredBroker | None:
        """Read the Broker of an id, None if it does not exist."""
        return await self.get_broker(f"{self._cluster}-{broker_id}")

    async def put_broker_status(
        self, stored: StoredBroker, registration: Registration
    ) -> StoredBroker:
        """Replace the status of the Broker that was read as `stored`; see put_partition_status."""
        status = broker_status(registration)
        body = self._status_body("Broker", stored.name, stored.resource_version, status)
        return broker_from_object(await self._api.put_status(BROKERS, self._namespace, body))

    def watch_brokers(self, resource_version: str) -> AsyncGenerator[Change[StoredBroker], None]:
        """Yield changes of this cluster's Brokers after a resourceVersion; see `follow`."""
        return self._watch_readable(
            BROKERS, broker_from_object, resource_version, label_selector=self._of_cluster
        )

    def watch_broker(
        self, name: str, resource_version: str
    ) -> AsyncGenerator[Change[StoredBroker], None]:
        """Yield changes of one Broker after a resourceVersion; see `follow`."""
        return self._watch(
            BROKERS, broker_from_object, resource_version, field_selector=f"metadata.name={name}"
        )

    # --- topics --------------------------------------------------------------------------

    async def list_topics(self) -> Listed[StoredTopic]:
        """List the ReplicatedTopics of this cluster that have an effective configuration.

        Malformed ones are left out, but never by `list_topic_ids`.
        """
        found = await self._api.list(TOPICS, self._namespace)
        return Listed(
            values=_readable(found.items, self._own_topic),
            resource_version=found.resource_version,
        )

    async def list_topic_ids(self) -> frozenset[TopicId]:
        """Return the uid of every ReplicatedTopic of the namespace, malformed ones included.

        Only this list proves that a topic is deleted, so that brokers may delete its data.
        """
        found = await self._api.list(TOPICS, self._namespace)
        return frozenset(TopicId(item["metadata"]["uid"]) for item in found.items)

    def watch_topics(self, resource_version: str) -> AsyncGenerator[Change[StoredTopic], None]:
        """Yield changes of this cluster's topics after a resourceVersion; see `follow`."""
        return self._watch_readable(TOPICS, self._own_topic, resource_version)

    # --- the controller's record ---------------------------------------------------------

    async def get_controller_record(self) -> ControllerRecord | None:
        """Read which broker recorded itself as controller.

        Returns: an empty holder and epoch 0 if no broker ever did; None without a BrokerCluster
        """
        found = await self._api.get(CLUSTERS, self._namespace, self._cluster)
        return None if found is None else controller_record_from_object(found)

    async def put_controller_record(self, record: ControllerRecord) -> ControllerRecord:
        """Record a controller in the BrokerCluster that was read at record.resource_version.

        The other fields of the status belong to the operator and are kept as they were.

        Raises:  StoreConflict if the object changed since; StoreRefused if the epoch does
                 not rise; StoreUnavailable if it may or may not have been written
        """
        current = await self._api.get(CLUSTERS, self._namespace, self._cluster)
        version = None if current is None else current["metadata"]["resourceVersion"]
        if current is None or version != record.resource_version:
            raise StoreConflict(f"brokerclusters/{self._cluster} changed since it was read")
        status = {**(current.get("status") or {}), "controller": controller_status(record)}
        body = self._status_body("BrokerCluster", self._cluster, version, status)
        answer = await self._api.put_status(CLUSTERS, self._namespace, body)
        return controller_record_from_object(answer)

    # --- shared --------------------------------------------------------------------------

    def _own_topic(self, item: Object) -> StoredTopic | None:
        return topic_from_object(item) if topic_cluster(item) == self._cluster else None

    def _status_body(self, kind: str, name: str, resource_version: str, status: Object) -> Object:
        """Return the body of a status PUT; the API server keeps spec and labels as stored."""
        return {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "resourceVersion": resource_version,
            },
            "status": status,
        }

    def _follow(
        self,
        resource: Resource,
        resource_version: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncGenerator[WatchEvent, None]:
        return follow(
            self._api,
            resource,
            self._namespace,
            resource_version=resource_version,
            settings=self._settings,
            label_selector=label_selector,
            field_selector=field_selector,
            on_sign_of_life=self._on_sign_of_life,
        )

    async def _watch(
        self,
        resource: Resource,
        read: Callable[[Object], Value | None],
        resource_version: str,
        *,
        field_selector: str,
    ) -> AsyncGenerator[Change[Value], None]:
        async with aclosing(
            self._follow(resource, resource_version, field_selector=field_selector)
        ) as events:
            async for event in events:
                yield _change(event, read)

    async def _watch_readable(
        self,
        resource: Resource,
        read: Callable[[Object], Value | None],
        resource_version: str,
        *,
        label_selector: str = "",
    ) -> AsyncGenerator[Change[Value], None]:
        async with aclosing(
            self._follow(resource, resource_version, label_selector=label_selector)
        ) as events:
            async for event in events:
                try:
                    change = _change(event, read)
                except ObjectMalformed as error:
                    # Yield nothing: a change without a value would mean a deletion.
                    _log_malformed(event.object, error)
                else:
                    yield change


def _change(event: WatchEvent, read: Callable[[Object], Value | None]) -> Change[Value]:
    return Change(
        name=str(event.object["metadata"]["name"]),
        resource_version=event.resource_version,
        value=None if event.type == _DELETED else read(event.object),
    )


def _readable(items: Iterable[Object], read: Callable[[Object], Value | None]) -> tuple[Value, ...]:
    """Return the values that are there and can be read."""
    values: list[Value] = []
    for item in items:
        try:
            value = read(item)
        except ObjectMalformed as error:
            _log_malformed(item, error)
        else:
            if value is not None:
                values.append(value)
    return tuple(values)


def _log_malformed(item: Object, error: ObjectMalformed) -> None:
    name = item["metadata"]["name"]
    _log.warning("malformed object left out", extra=fields(object=name, cause=str(error)))


def _entry_epoch(item: Object, broker_id: BrokerId) -> BrokerEpoch:
    """Return the broker epoch of an id's ISR entry in a Partition, 0 without one."""
    try:
        state = partition_from_object(item).state
    except ObjectMalformed as error:
        _log_malformed(item, error)
        return _entry_epoch_of_malformed(item, broker_id)
    entry = state.entry_of(broker_id) if state else None
    return entry.broker_epoch if entry else BrokerEpoch(0)


def _entry_epoch_of_malformed(item: Object, broker_id: BrokerId) -> BrokerEpoch:
    status = item.get("status")
    if not isinstance(status, dict):
        return BrokerEpoch(0)
    ids, epochs = status.get("isr"), status.get("isrBrokerEpochs")
    # Only in lists of equal length does an epoch belong to the id at its index.
    if not isinstance(ids, list) or not isinstance(epochs, list) or len(ids) != len(epochs):
        return BrokerEpoch(0)
    own = [epoch for member, epoch in zip(ids, epochs, strict=True) if member == broker_id]
    return BrokerEpoch(max((epoch for epoch in own if type(epoch) is int), default=0))

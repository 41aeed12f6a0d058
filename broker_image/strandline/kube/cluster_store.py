"""The objects of one cluster as values: quorum reads, compare-and-swap writes, changes.

Used by the controller's shell and by a broker's registration. Every read is a quorum read.
Every write carries the resourceVersion of the read that its decision used, and raises
`StoreConflict` if the object changed since. Writes are not retried here.

The controller's lists and watches leave a malformed object out and log it: one such object
must not keep every candidate from becoming active. A topic that is left out keeps its data:
only `list_topic_ids`, which reads ids alone, proves a deletion. Reads and watches of a single
object are strict and raise `ObjectMalformed`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass
from typing import Final, TypeVar

from strandline.config.kubernetes import KubernetesConfig
from strandline.errors import ObjectMalformed, StoreConflict
from strandline.log_fields import fields
from strandline.model import (
    AppliedConfig,
    BrokerEpoch,
    BrokerId,
    ClusterRecord,
    ControllerRecord,
    PartitionState,
    Registration,
    StoredBroker,
    StoredPartition,
    StoredTopic,
    TopicId,
)

from .api import ApiClient, Listed, Object, Resource
from .cluster_records import cluster_record_from_object, cluster_record_status
from .objects import (
    API_VERSION,
    CLUSTER_LABEL,
    applied_config_status,
    broker_from_object,
    broker_status,
    controller_record_from_object,
    controller_status,
    format_micro_time,
    partition_from_object,
    partition_status,
    topic_cluster,
    topic_from_object,
    topic_id_of,
)
from .watch import Change, change_of, follow

_log = logging.getLogger(__name__)

_GROUP, _VERSION = API_VERSION.split("/")
PARTITIONS: Final = Resource(group=_GROUP, version=_VERSION, plural="partitions")
BROKERS: Final = Resource(group=_GROUP, version=_VERSION, plural="brokers")
TOPICS: Final = Resource(group=_GROUP, version=_VERSION, plural="replicatedtopics")
CLUSTERS: Final = Resource(group=_GROUP, version=_VERSION, plural="brokerclusters")

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, eq=False)
class ClusterStore:
    """The objects of one cluster in one namespace."""

    api: ApiClient
    settings: KubernetesConfig
    _: KW_ONLY
    namespace: str
    cluster: str
    wall_time_us: Callable[[], int]
    on_sign_of_life: Callable[[str], None] = lambda _: None
    on_watch_end: Callable[[str], None] = lambda _: None

    @property
    def _of_cluster(self) -> dict[str, str]:
        return {"labelSelector": f"{CLUSTER_LABEL}={self.cluster}"}

    async def list_partitions(self) -> Listed[StoredPartition]:
        """List the Partitions of this cluster, malformed ones left out.

        A new controller takes an epoch above all it finds, and misses those of malformed
        Partitions. That is safe: the Lease and the BrokerCluster also hold the controller
        epoch, and the CRD never lets it fall (ADR 0003).
        """
        return await self._list(PARTITIONS, partition_from_object, self._of_cluster)

    async def get_partition(self, name: str) -> StoredPartition | None:
        """Read one Partition, None if it does not exist."""
        return await self._get(PARTITIONS, partition_from_object, name)

    async def put_partition_status(
        self, name: str, resource_version: str, state: PartitionState
    ) -> StoredPartition:
        """Replace the status of the Partition that was read at a resourceVersion.

        Raises:  StoreConflict if it changed since; StoreRefused if a rule of the CRD forbids
                 it; StoreUnavailable if it may or may not have been written
        """
        status = partition_status(state, changed_at=format_micro_time(self.wall_time_us()))
        stored = await self._put_status(PARTITIONS, "Partition", name, resource_version, status)
        return partition_from_object(stored)

    def watch_partitions(
        self, resource_version: str
    ) -> AsyncGenerator[Change[StoredPartition], None]:
        """Yield changes of this cluster's Partitions after a resourceVersion; see `follow`."""
        return self._watch(PARTITIONS, partition_from_object, resource_version, self._of_cluster)

    async def highest_entry_epoch(self, broker_id: BrokerId) -> BrokerEpoch:
        """Return the highest broker epoch in this broker's ISR and ELR entries, 0 without one.

        Reads every Partition of the namespace, labelled or not: an epoch that is too high
        costs nothing, one that is too low makes an old ISR entry look present. A malformed
        Partition does not stop a broker from starting: its readable entries count. The other
        entries are safe to miss: a controller cannot use them either, and the Broker object
        and meta.json also hold this broker's epochs.
        """
        found = await self.api.list(PARTITIONS, self.namespace)
        return max((_entry_epoch(item, broker_id) for item in found.items), default=BrokerEpoch(0))

    async def list_brokers(self) -> Listed[StoredBroker]:
        """List the Brokers of this cluster, malformed ones left out."""
        return await self._list(BROKERS, broker_from_object, self._of_cluster)

    async def get_broker(self, name: str) -> StoredBroker | None:
        """Read one Broker, None if it does not exist."""
        return await self._get(BROKERS, broker_from_object, name)

    async def list_broker(self, name: str) -> Listed[StoredBroker]:
        """List one Broker, if it exists, with the version from which to watch it.

        The version of the object itself may be older than what an API server can watch from.
        """
        found = await self.api.list(BROKERS, self.namespace, selector=_only(name))
        items = tuple(broker_from_object(item) for item in found.items)
        return Listed(items=items, resource_version=found.resource_version)

    async def find_broker(self, broker_id: BrokerId) -> StoredBroker | None:
        """Read the Broker of an id, None if it does not exist."""
        return await self.get_broker(f"{self.cluster}-{broker_id}")

    async def put_broker_status(
        self, stored: StoredBroker, registration: Registration
    ) -> StoredBroker:
        """Replace the status of the Broker that was read as `stored`; see put_partition_status."""
        status = broker_status(registration)
        return broker_from_object(
            await self._put_status(BROKERS, "Broker", stored.name, stored.resource_version, status)
        )

    def watch_brokers(self, resource_version: str) -> AsyncGenerator[Change[StoredBroker], None]:
        """Yield changes of this cluster's Brokers after a resourceVersion; see `follow`."""
        return self._watch(BROKERS, broker_from_object, resource_version, self._of_cluster)

    def watch_broker(
        self, name: str, resource_version: str
    ) -> AsyncGenerator[Change[StoredBroker], None]:
        """Yield changes of one Broker after a resourceVersion; see `follow`."""
        return self._watch(BROKERS, broker_from_object, resource_version, _only(name))

    async def list_topics(self) -> Listed[StoredTopic]:
        """List this cluster's topics with an effective configuration, malformed ones left out."""
        return await self._list(TOPICS, self._own_topic, {})

    async def list_topic_ids(self) -> frozenset[TopicId]:
        """Return the id of every ReplicatedTopic of the namespace, malformed ones included.

        Only this list proves that a topic is deleted, so that brokers may delete its data.
        """
        found = await self.api.list(TOPICS, self.namespace)
        return frozenset(map(topic_id_of, found.items))

    def watch_topics(self, resource_version: str) -> AsyncGenerator[Change[StoredTopic], None]:
        """Yield changes of this cluster's topics after a resourceVersion; see `follow`."""
        return self._watch(TOPICS, self._own_topic, resource_version, {})

    async def apply_applied_config(
        self, name: str, resource_version: str, applied: AppliedConfig
    ) -> None:
        """Say in the ReplicatedTopic that was read at a resourceVersion who applied its settings.

        The other fields of the status belong to the operator.

        Raises:  as put_partition_status does; StoreForbidden under an earlier Role of the brokers
        """
        body = self._status_body(
            "ReplicatedTopic",
            name,
            resource_version,
            {"appliedConfig": applied_config_status(applied)},
        )
        await self.api.apply(TOPICS, self.namespace, body, subresource="status")

    async def get_controller_record(self) -> ControllerRecord | None:
        """Read who is recorded as controller: no holder at first; None without a BrokerCluster."""
        return await self._get(CLUSTERS, controller_record_from_object, self.cluster)

    async def put_controller_record(self, record: ControllerRecord) -> ControllerRecord:
        """Record a controller in the BrokerCluster that was read at record.resource_version.

        The other fields of the status belong to the operator and are kept as they were.

        Raises:  StoreConflict if the object changed since; StoreRefused if the epoch does
                 not rise; StoreUnavailable if it may or may not have been written
        """
        written = {"controller": controller_status(record)}
        stored = await self._put_into_cluster_status(record.resource_version, written)
        return controller_record_from_object(stored)

    async def get_cluster_record(self) -> ClusterRecord | None:
        """Read the controller's lists in the BrokerCluster; None without a BrokerCluster."""
        return await self._get(CLUSTERS, cluster_record_from_object, self.cluster)

    async def put_cluster_record(self, record: ClusterRecord) -> ClusterRecord:
        """Replace the controller's lists in the BrokerCluster read at record.resource_version.

        An empty deleted_at becomes the present time; see put_controller_record.
        """
        now = format_micro_time(self.wall_time_us())
        written = cluster_record_status(record, now=now)
        stored = await self._put_into_cluster_status(record.resource_version, written)
        return cluster_record_from_object(stored)

    async def _put_into_cluster_status(self, resource_version: str, written: Object) -> Object:
        """Replace these fields of the BrokerCluster's status; the others stay as they were."""
        current = await self.api.get(CLUSTERS, self.namespace, self.cluster)
        version = None if current is None else current["metadata"]["resourceVersion"]
        if current is None or version != resource_version:
            raise StoreConflict(f"brokerclusters/{self.cluster} changed since it was read")
        status = {**(current.get("status") or {}), **written}
        return await self._put_status(
            CLUSTERS, "BrokerCluster", self.cluster, resource_version, status
        )

    def _own_topic(self, item: Object) -> StoredTopic | None:
        return topic_from_object(item) if topic_cluster(item) == self.cluster else None

    async def _get(
        self, resource: Resource, read: Callable[[Object], Value], name: str
    ) -> Value | None:
        found = await self.api.get(resource, self.namespace, name)
        return None if found is None else read(found)

    async def _list(
        self,
        resource: Resource,
        read: Callable[[Object], Value | None],
        selector: Mapping[str, str],
    ) -> Listed[Value]:
        """List the objects that have a value, malformed ones left out."""
        found = await self.api.list(resource, self.namespace, selector=selector)
        values: list[Value] = []
        for item in found.items:
            try:
                value = read(item)
            except ObjectMalformed as error:
                _log_malformed(item, error)
            else:
                values += [] if value is None else [value]
        return Listed(items=tuple(values), resource_version=found.resource_version)

    async def _put_status(
        self, resource: Resource, kind: str, name: str, resource_version: str, status: Object
    ) -> Object:
        """Replace a status; the API server keeps spec and labels as stored."""
        body = self._status_body(kind, name, resource_version, status)
        return await self.api.put(resource, self.namespace, body, subresource="status")

    def _status_body(self, kind: str, name: str, resource_version: str, status: Object) -> Object:
        return {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "resourceVersion": resource_version,
            },
            "status": status,
        }

    async def _watch(
        self,
        resource: Resource,
        read: Callable[[Object], Value | None],
        resource_version: str,
        selector: Mapping[str, str],
    ) -> AsyncGenerator[Change[Value], None]:
        events = follow(
            self.api,
            resource,
            self.namespace,
            resource_version=resource_version,
            settings=self.settings,
            selector=selector,
            on_sign_of_life=self.on_sign_of_life,
            on_end=self.on_watch_end,
        )
        async with aclosing(events):
            async for event in events:
                try:
                    change = change_of(event, read)
                except ObjectMalformed as error:
                    if "fieldSelector" in selector:
                        raise
                    # Yield nothing: a change without a value would mean a deletion.
                    _log_malformed(event.object, error)
                else:
                    yield change


def _only(name: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={name}"}


def _log_malformed(item: Object, error: ObjectMalformed) -> None:
    name = item["metadata"]["name"]
    _log.warning("malformed object left out", extra=fields(object=name, cause=str(error)))


def _entry_epoch(item: Object, broker_id: BrokerId) -> BrokerEpoch:
    """Return the broker epoch of an id's ISR or ELR entry in a Partition, 0 without one."""
    try:
        state = partition_from_object(item).state
    except ObjectMalformed as error:
        _log_malformed(item, error)
        return _entry_epoch_of_malformed(item, broker_id)
    entries = state.candidates if state else ()
    epochs = (entry.broker_epoch for entry in entries if entry.broker_id == broker_id)
    return max(epochs, default=BrokerEpoch(0))


def _entry_epoch_of_malformed(item: Object, broker_id: BrokerId) -> BrokerEpoch:
    status = item.get("status")
    if not isinstance(status, dict):
        return BrokerEpoch(0)
    own: list[int] = []
    for members in ("isr", "elr"):
        ids, epochs = status.get(members), status.get(f"{members}BrokerEpochs")
        # Only in lists of equal length does an epoch belong to the id at its index.
        if isinstance(ids, list) and isinstance(epochs, list) and len(ids) == len(epochs):
            found = (epoch for each, epoch in zip(ids, epochs, strict=True) if each == broker_id)
            own.extend(epoch for epoch in found if type(epoch) is int)
    return BrokerEpoch(max(own, default=0))

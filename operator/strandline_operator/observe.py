"""The operator's cache: the last object seen of each name, and snapshots of it for plans.

`registry` fills the cache from watches, and the resync from lists. The cache may be old: an action
that must be right is a compare-and-swap or a create, which the API server judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from strandline.kube.api import Object, is_before
from strandline.kube.objects import applied_config, broker_from_object
from strandline.model import PartitionState, StoredPartition, TopicId

from . import analysis, external, kinds
from .kinds import Kind, name_of
from .observed import (
    ConditionSample,
    DesiredCluster,
    DesiredTopic,
    FoundClaim,
    FoundObject,
    FoundPartition,
    FoundPod,
    FoundStatus,
    ObjectRef,
    ObservedCluster,
    ObservedTopic,
    Ownership,
)
from .ownership import may_be_part, ownership_of, partition_ownership_of
from .pods import evictions_allowed, is_seen
from .reading import holder_of, read, read_topic, status_in, version_of
from .topic_settings import effective_config


class Cache:
    """The last seen object of each kind and name."""

    def __init__(self) -> None:
        self._topics: dict[str, tuple[DesiredTopic, FoundStatus]] = {}
        self._clusters: dict[str, tuple[DesiredCluster, FoundStatus]] = {}
        self._partitions: dict[str, FoundPartition] = {}
        self._pods: dict[str, FoundPod | None] = {}
        self._claims: dict[str, FoundClaim | None] = {}
        self._objects: dict[str, dict[str, FoundObject]] = {
            kind.kind: {} for kind in kinds.CHILDREN
        }
        self._by_kind: dict[str, dict[str, Any]] = {
            kinds.TOPIC.kind: self._topics,
            kinds.CLUSTER.kind: self._clusters,
            kinds.PARTITION.kind: self._partitions,
            kinds.POD.kind: self._pods,
            kinds.CLAIM.kind: self._claims,
            **self._objects,
        }
        self._versions: dict[str, dict[str, str]] = {kind: {} for kind in self._by_kind}
        self._uids: dict[tuple[str, str], str] = {}
        self._written: dict[tuple[str, str], str] = {}
        """Versions that own writes gave, of which watches have shown none as late yet."""
        self._gone: dict[str, set[str]] = {}
        self._evicted: dict[str, str] = {}

    def put(self, kind: Kind, value: Object) -> None:
        """Remember an object, unless a later one of its name is known.

        kopf keeps the order of what happens to one uid, and not between a pod and the next one of
        its name. Of one uid the last word counts: a restored store has lower versions.

        Raises:  ObjectMalformed; the cache then keeps the earlier object
        """
        name = name_of(value)
        if self._is_past(kind, value):
            return
        self._by_kind[kind.kind][name] = self._newer(kind, value)
        self._versions[kind.kind][name] = version_of(value)
        self._uids[kind.kind, name] = value["metadata"]["uid"]
        self._written.pop((kind.kind, name), None)
        self._gone.get(kind.kind, set()).discard(name)

    def put_written(self, kind: Kind, value: Object) -> None:
        """Remember what an own write made, unless a watch was faster; earlier states may follow."""
        name, version = name_of(value), version_of(value)
        if not is_before(version, self._versions[kind.kind].get(name, "")):
            self.put(kind, value)
            self._written[kind.kind, name] = version

    def put_new(self, kind: Kind, value: Object) -> None:
        """Remember an object that the operator just created, unless a watch was faster."""
        if not self.has(kind, name_of(value)):
            self.put(kind, value)

    def evicted(self, pod: ObjectRef) -> None:
        """Remember that this very pod goes, which watches may show only after the next plan."""
        self._evicted[pod.name] = pod.uid

    def went(self, kind: Kind, value: Object) -> None:
        """Forget an object that a watch showed as deleted, unless a later one has its name."""
        if not self._is_past(kind, value):
            self.remove(kind, name_of(value))

    def _is_past(self, kind: Kind, value: Object) -> bool:
        name, version = name_of(value), version_of(value)
        if self._uids.get((kind.kind, name)) == value["metadata"]["uid"]:
            return is_before(version, self._written.get((kind.kind, name), ""))
        return is_before(version, self._versions[kind.kind].get(name, ""))

    def remove(self, kind: Kind, name: str) -> None:
        """Forget an object that is gone."""
        self._by_kind[kind.kind].pop(name, None)
        self._versions[kind.kind].pop(name, None)
        self._uids.pop((kind.kind, name), None)
        self._written.pop((kind.kind, name), None)
        if kind.kind in self._gone:
            self._gone[kind.kind].add(name)

    @contextmanager
    def listing(self, kind: Kind) -> Iterator[None]:
        """Note what goes while a list of a kind is read, for `replace` at the end of it."""
        self._gone[kind.kind] = set()
        try:
            yield
        finally:
            del self._gone[kind.kind]

    def replace(self, kind: Kind, values: Iterable[Object], *, version: str = "") -> None:
        """Remember the objects of a list of a kind; version is the resourceVersion of the list.

        A list is a view of the time at which it began. What watches have shown since then holds:
        an object that is newer than its entry or than the list stays, and one that went is gone.

        Raises:  ObjectMalformed; the cache then keeps what it has
        """
        known, versions = self._by_kind[kind.kind], self._versions[kind.kind]
        gone = self._gone.get(kind.kind, set())
        listed = {name_of(value): value for value in values if name_of(value) not in gone}
        read = {
            name: self._newer(kind, value)
            for name, value in listed.items()
            if not is_before(version_of(value), versions.get(name, ""))
        }
        for name in list(known):
            if name not in listed and not is_before(version, versions[name]):
                self.remove(kind, name)
        known.update(read)
        versions.update({name: version_of(listed[name]) for name in read})
        self._uids.update({(kind.kind, each): listed[each]["metadata"]["uid"] for each in read})

    def _newer(self, kind: Kind, value: Object) -> object:
        """Read an object; return the known topic if this one is from before its initialisation."""
        found, known = read(kind, value), self._topics.get(name_of(value))
        if kind is not kinds.TOPIC or known is None:
            return found
        topic = read_topic(value)
        is_same = known[0].ref.uid == topic.ref.uid
        return known if is_same and known[0].is_initialised and not topic.is_initialised else found

    def has(self, kind: Kind, name: str) -> bool:
        """Tell whether an object is known."""
        return name in self._by_kind[kind.kind]

    def topics_behind(self, cluster: str) -> list[str]:
        """Return the topics whose status shows other settings than the cluster gives them."""
        if cluster not in self._clusters:
            return []
        wanted = self._clusters[cluster][0]
        return [
            name
            for name, (topic, status) in sorted(self._topics.items())
            if topic.cluster == cluster
            and status.written.get("effectiveConfig") != effective_config(topic, wanted)
        ]

    def partition_state(self, name: str) -> PartitionState | None:
        """Return what a Partition's status holds, None without a status or a Partition."""
        found = self._partitions.get(name)
        return None if found is None else found.stored.state

    def cluster_ref(self, name: str) -> ObjectRef | None:
        """Return the identity of a cluster, None if it does not exist."""
        found = self._clusters.get(name)
        return None if found is None else found[0].ref

    def conditions(self) -> Iterator[ConditionSample]:
        """Yield all conditions of all clusters and topics, for the metrics."""
        for kind, found in ((kinds.CLUSTER, self._clusters), (kinds.TOPIC, self._topics)):
            for name in sorted(found):
                for condition, each in sorted(found[name][1].conditions.items()):
                    yield ConditionSample(
                        kind=kind.kind,
                        name=name,
                        condition=condition,
                        status=each.status,
                        reason=each.reason,
                    )

    def analyses(self) -> Iterator[analysis.AnalysisSample]:
        """Yield what each cluster's status tells of its analysis, for the metrics."""
        for name, (_, status) in sorted(self._clusters.items()):
            if sample := analysis.sample_of(name, status.written.get(analysis.FIELD)):
                yield sample

    def clusters(self) -> list[DesiredCluster]:
        """Return all clusters in the order of their names."""
        return [cluster for _, (cluster, _) in sorted(self._clusters.items())]

    def topics(self) -> list[DesiredTopic]:
        """Return all topics in the order of their names."""
        return [topic for _, (topic, _) in sorted(self._topics.items())]

    def topic_of(self, partition: StoredPartition) -> str | None:
        """Return the name of the topic of a Partition, by its id; None if there is none."""
        topic_id, named = partition.tp.topic_id, partition.name.rpartition("-")[0]
        first = self._topics.get(named)
        if first is not None and first[0].topic_id == topic_id:
            return named
        return next((t.ref.name for t in self.topics() if t.topic_id == topic_id), None)

    def topics_of(self, topic_id: TopicId) -> set[str]:
        """Return the names of all topics that have an id; one alone may have Partitions."""
        return {topic.ref.name for topic in self.topics() if topic.topic_id == topic_id}

    def cluster(self, name: str) -> tuple[DesiredCluster, ObservedCluster] | None:
        """Return the desired and the observed cluster, None if it does not exist."""
        if name not in self._clusters:
            return None
        cluster, status = self._clusters[name]
        parts = {
            (kind, child): (ownership_of(found, cluster.ref), found)
            for kind, objects in self._objects.items()
            for child, found in objects.items()
            if may_be_part(child, name)
        }
        registrations = [
            broker_from_object(found.whole).registration
            for (kind, _), (_, found) in parts.items()
            if kind == kinds.BROKER.kind and found.cluster == name
        ]
        pods = self._objects[kinds.STATEFUL_SET.kind].get(name)
        set_status = {} if pods is None else status_in(pods.whole)
        lease = self._objects[kinds.LEASE.kind].get(f"{name}-controller")
        budget = self._objects[kinds.POD_DISRUPTION_BUDGET.kind].get(f"{name}-brokers")
        summaries = list(self._summaries_of(name))
        return cluster, ObservedCluster(
            status=status,
            has_controller=status.written.get("controller") is not None,
            services={
                child: external.read_service(found.whole)
                for (kind, child), (_, found) in parts.items()
                if kind == kinds.SERVICE.kind
            },
            parts=parts,
            ready_brokers=int(set_status.get("readyReplicas") or 0),
            topic_count=sum(topic.cluster == name for topic in self.topics()),
            partitions=tuple(self._partitions_of(name)),
            pods=tuple(
                replace(pod, is_terminating=True) if self._evicted.get(key) == pod.uid else pod
                for key, pod in sorted(self._pods.items())
                if pod is not None and pod.cluster == name
            ),
            claims=tuple(
                each for _, each in sorted(self._claims.items()) if each and each.cluster == name
            ),
            revision=str(set_status.get("updateRevision") or ""),
            is_revision_current=pods is not None and is_seen(pods.whole),
            controller_id=None if lease is None else holder_of(lease.whole),
            registrations={each.broker_id: each for each in registrations if each},
            evictions_allowed=evictions_allowed(budget.whole) if budget is not None else 0,
            spread_over=int(status.written.get("spreadOver") or 0),
            missing_partitions=tuple(self._missing_partitions_of(name)),
            has_summary=bool(summaries),
            summary=analysis.newest([each for each in summaries if each is not None]),
        )

    def _summaries_of(self, cluster: str) -> Iterator[Object | None]:
        """Yield what each ConfigMap about a cluster's analysis tells, None if it tells nothing."""
        for found in self._objects[kinds.CONFIG_MAP.kind].values():
            if analysis.cluster_of(found) == cluster:
                yield analysis.summary_or_none(found)

    def _partitions_of(self, cluster: str) -> Iterator[StoredPartition]:
        """Yield the Partitions with a cluster's label, without those that have no effect."""
        names: dict[TopicId, set[str]] = {}
        for topic in self.topics():
            names.setdefault(topic.topic_id, set()).add(topic.ref.name)
        for found in self._partitions.values():
            named = found.stored.name.rpartition("-")[0]
            if found.cluster == cluster and named in names.get(found.stored.tp.topic_id, {named}):
                yield found.stored

    def _missing_partitions_of(self, cluster: str) -> Iterator[str]:
        """Yield the Partitions that topics of a cluster had, and that are not there."""
        for topic, status in self._topics.values():
            initialised = int(status.written.get("partitionsInitialised") or 0)
            names = (f"{topic.ref.name}-{number}" for number in range(initialised))
            if topic.cluster == cluster:
                yield from (each for each in names if each not in self._partitions)

    def topic(self, name: str) -> tuple[DesiredTopic, ObservedTopic] | None:
        """Return the desired and the observed topic, None if it does not exist."""
        if name not in self._topics:
            return None
        topic, status = self._topics[name]
        partitions, leftovers = {}, []
        for number in range(topic.partitions):
            found = self._partitions.get(f"{name}-{number}")
            if found is None:
                continue
            if partition_ownership_of(found, topic) is Ownership.OURS:
                partitions[number] = found.stored
            else:
                leftovers.append(found)
        elsewhere = self._elsewhere(topic)
        # Before it has Partitions they are an earlier topic's; after that they are copies.
        waits = topic.adopts and not topic.is_initialised
        leftovers += elsewhere if waits else []
        cluster, found_cluster = self._clusters.get(topic.cluster, (None, None))
        return topic, ObservedTopic(
            status=status,
            partitions_initialised=status.written.get("partitionsInitialised"),
            effective_config=status.written.get("effectiveConfig"),
            applied=applied_config(status.written),
            cluster=cluster,
            topics=tuple(self.topics()),
            partitions=partitions,
            leftovers=tuple(leftovers),
            copies=() if waits else tuple(sorted(found.stored.name for found in elsewhere)),
            logs=found_cluster.logs_of(topic.topic_id) if found_cluster is not None else {},
            led_partitions=tuple(
                sorted(
                    found.stored.name
                    for found in self._partitions.values()
                    if found.cluster == topic.cluster and found.stored.state is not None
                )
            ),
        )

    def _elsewhere(self, topic: DesiredTopic) -> list[FoundPartition]:
        """Return the Partitions that have the topic's id under names of their own."""
        return [
            found
            for name, found in self._partitions.items()
            if found.stored.tp.topic_id == topic.topic_id
            and name != f"{topic.ref.name}-{found.stored.tp.partition}"
        ]

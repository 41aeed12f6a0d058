"""Observe, plan, apply: one pass over one cluster or topic, and the passes that a change needs.

Called by `registry` with every change and by `main` for the resync. `plan` alone decides about
objects.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from weakref import WeakValueDictionary

from strandline.errors import CoordinationError, StoreForbidden
from strandline.kube.api import ApiClient, Object
from strandline.log_fields import fields

from . import analysis, events, external, kinds, operator_config, pod_settings, racks
from .actions import Action, PostEvent
from .apply import Applier
from .causes import CauseReader
from .conditions import Readiness
from .events import PartitionNews
from .nodes import Nodes
from .observe import Cache
from .observed import DesiredTopic, FoundObject, FoundPartition
from .operator_config import OperatorConfig
from .operator_metrics import OperatorMetrics
from .ownership import may_be_part
from .placement import NOWHERE, Racks
from .plan import plan_cluster
from .plan_topics import plan_topic, waits_for_racks
from .pods import read_claim, read_pod
from .reading import read_object, read_partition, read_topic
from .refusals import refusal_of
from .work_queue import ReconcileKey, WorkQueue

_log = logging.getLogger(__name__)

_DELETED = "DELETED"
_MODIFIED = "MODIFIED"


def now_text() -> str:
    """Return the present time as Kubernetes writes it, whole seconds."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Reconciler:
    """Keeps the cache, routes changes to keys, and works on keys."""

    def __init__(self, api: ApiClient, config: OperatorConfig, metrics: OperatorMetrics) -> None:
        self._api = api
        self._config = config
        self.cache = Cache()
        self._causes = CauseReader(api, config.namespace)
        self._nodes = Nodes(api)
        self._metrics = metrics
        self.queue = WorkQueue(self._work, on_begun=metrics.waited)
        self._news = PartitionNews()
        self._failures: dict[ReconcileKey, int] = {}
        self._told: dict[ReconcileKey, str] = {}
        self._resync_due = asyncio.Event()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._applier = Applier(api, self.cache, namespace=config.namespace, now=now_text)

    def on_change(self, kind: kinds.Kind, change: str, value: Object) -> None:
        """Remember a change and queue every cluster and topic that it may concern."""
        if change == _DELETED:
            self.cache.went(kind, value)
        else:
            self.remember(kind, value)
        if kind is kinds.TOPIC:
            self._topic_changed(change, read_topic(value))
        elif kind is kinds.CLUSTER:
            self._cluster_changed(change, kinds.name_of(value))
        elif kind is kinds.PARTITION:
            self._partition_changed(change, read_partition(value))
        elif kind in (kinds.POD, kinds.CLAIM):
            self._labelled_changed(kind, value)
        else:
            self._object_changed(change, read_object(kind, value))

    def remember(self, kind: kinds.Kind, value: Object) -> None:
        """Remember an object that a watch showed, and what changed of a Partition as news.

        kopf shows each object twice, first to the index: the second time nothing has changed.
        """
        before = (
            self.cache.partition_state(kinds.name_of(value)) if kind is kinds.PARTITION else None
        )
        self.cache.put(kind, value)
        if before is None or not self.queue.has_lease:
            return
        after = self.cache.partition_state(kinds.name_of(value))
        cluster = self.cache.cluster_ref(read_partition(value).cluster)
        if after is not None and cluster is not None:
            ref = read_object(kind, value).ref
            self._news.observe(ref, cluster, before, after, now_ms=_now_ms())

    async def tell_news(self) -> None:
        """Post the Events of elections and ISR changes; never returns."""
        while True:
            await asyncio.sleep(events.SETTLE_MS / 1000)
            for event in self._news.due(_now_ms()):
                await self._applier.apply(event)

    def _topic_changed(self, change: str, topic: DesiredTopic) -> None:
        self._add(kinds.TOPIC, topic.ref.name)
        if change != _MODIFIED:
            self._add(kinds.CLUSTER, topic.cluster)
            for other in self.cache.topics():
                if other.topic_name == topic.topic_name or other.topic_id == topic.topic_id:
                    self._add(kinds.TOPIC, other.ref.name)

    def _cluster_changed(self, change: str, name: str) -> None:
        self._add(kinds.CLUSTER, name)
        for behind in self.cache.topics_behind(name):
            self._add(kinds.TOPIC, behind)
        if change != _MODIFIED:
            for topic in self.cache.topics():
                if topic.cluster == name:
                    self._add(kinds.TOPIC, topic.ref.name)

    def _partition_changed(self, change: str, partition: FoundPartition) -> None:
        named = partition.stored.name.rpartition("-")[0]
        pause = operator_config.SETTLE_MS if change == _MODIFIED else 0
        concerned = {named, self.cache.topic_of(partition.stored) or named}
        if change == _DELETED:
            concerned |= self.cache.topics_of(partition.stored.tp.topic_id)
        for topic in sorted(concerned):
            if self.cache.has(kinds.TOPIC, topic):
                self._add(kinds.TOPIC, topic, after_ms=pause)
        if self.cache.has(kinds.CLUSTER, partition.cluster):
            self._add(kinds.CLUSTER, partition.cluster, after_ms=operator_config.SETTLE_MS)

    def _labelled_changed(self, kind: kinds.Kind, value: Object) -> None:
        """Queue the cluster of a pod or of a volume claim, which have its label."""
        found = read_claim(value) if kind is kinds.CLAIM else read_pod(value)
        if found is not None and self.cache.has(kinds.CLUSTER, found.cluster):
            self._add(kinds.CLUSTER, found.cluster, after_ms=operator_config.SETTLE_MS)

    def _object_changed(self, change: str, found: FoundObject) -> None:
        """Queue the clusters that the object may be a part of, by its name: labels may be lost."""
        is_marked = found.is_applied and found.cluster
        if found.ref.kind is kinds.LEASE and change == _MODIFIED and is_marked:
            # Renewals of Leases are most of the changes, and never concern a plan.
            return
        pause = 0 if change == _DELETED else operator_config.SETTLE_MS
        about = self._summary_changed(change, found)
        for cluster in self.cache.clusters():
            if cluster.ref.name == about or may_be_part(found.ref.name, cluster.ref.name):
                self._add(kinds.CLUSTER, cluster.ref.name, after_ms=pause)

    def _summary_changed(self, change: str, found: FoundObject) -> str:
        """Return the cluster that the object holds a summary about, ""; tell of a broken one."""
        about = analysis.cluster_of(found) if found.ref.kind is kinds.CONFIG_MAP else ""
        if about and change != _DELETED:
            try:
                analysis.summary_of(found)
            except analysis.SummaryBroken as error:
                _log.warning(
                    "analysis summary ignored",
                    extra=fields(object=str(found.ref), cluster=about, cause=str(error)),
                )
        return about

    def _add(self, kind: kinds.Kind, name: str, *, after_ms: int = 0) -> None:
        self.queue.add(ReconcileKey(kind=kind.kind, name=name), after_ms=after_ms)

    async def _work(self, key: ReconcileKey) -> bool:
        """Make one pass, and measure it."""
        begun = time.monotonic()
        is_done = await self._in_turn(key)
        seconds = time.monotonic() - begun
        self._metrics.pass_ended(key.kind, is_done=is_done, seconds=seconds)
        return is_done

    async def _in_turn(self, key: ReconcileKey) -> bool:
        """Make one pass; of topics with one name or id one after the other: one alone gets it."""
        topic = self.cache.topic(key.name) if key.kind == kinds.TOPIC.kind else None
        if topic is None:
            return await self._pass(key)
        desired, _ = topic
        name = self._turn(f"{desired.cluster}/{desired.topic_name}")
        async with name, self._turn(desired.topic_id):
            return await self._pass(key)

    def _turn(self, wanted: str) -> asyncio.Lock:
        """Return the lock of what one topic alone may have; it is forgotten when no pass holds it.

        A topic id never contains the "/" of a cluster and a name.
        """
        return self._turns.setdefault(wanted, asyncio.Lock())

    async def _pass(self, key: ReconcileKey) -> bool:
        """Make one pass; tell whether every action succeeded."""
        try:
            nodes = await self._schedulable_nodes(key)
            await self._look_for_nodes(key)
        except CoordinationError as error:
            # An outage decides nothing: the next pass lists them.
            _log.warning("nodes not listed", extra=fields(object=str(key), cause=str(error)))
            return False
        causes = await self._ask_causes(key)
        for action in self._plan(key, nodes=nodes, causes=causes):
            failure = await self._apply(key, action)
            if failure is not None:
                self._failures[key] = self._failures.get(key, 0) + 1
                refusal = refusal_of(action, failure, self._failures[key])
                if refusal is not None:
                    await self._tell(key, refusal, causes)
                return False
        self._failures.pop(key, None)
        self._told.pop(key, None)
        return True

    async def _apply(self, key: ReconcileKey, action: Action) -> CoordinationError | None:
        """Apply an action; return the error of one that failed."""
        try:
            await self._applier.apply(action)
        except CoordinationError as error:
            _log.warning(
                "action failed",
                extra=fields(object=str(key), action=str(action), cause=str(error)),
            )
            return error
        _log.info("action done", extra=fields(object=str(key), action=str(action)))
        return None

    async def _ask_causes(self, key: ReconcileKey) -> tuple[str, ...]:
        """Return why brokers of a cluster are not ready; ask again later, as Events may follow."""
        cluster = self.cache.cluster(key.name) if key.kind == kinds.CLUSTER.kind else None
        if cluster is None or cluster[1].ready_brokers >= cluster[0].replicas:
            return ()
        self.queue.add(key, after_ms=operator_config.CAUSES_MS)
        return await self._causes.read(*cluster)

    async def _tell(self, key: ReconcileKey, refusal: Readiness, causes: tuple[str, ...]) -> None:
        """Write a refused action into the object's status, and post an Event that is new.

        The status itself may be what is refused: then it cannot remember that an Event was posted.
        """
        is_known = self._told.get(key) == refusal.reason
        self._told[key] = refusal.reason
        for action in self._plan(key, refusal=refusal, causes=causes):
            if not (is_known and isinstance(action, PostEvent)):
                await self._apply(key, action)

    def _plan(
        self,
        key: ReconcileKey,
        *,
        nodes: int | None = None,
        refusal: Readiness | None = None,
        causes: tuple[str, ...] = (),
    ) -> list[Action]:
        now = now_text()
        if key.kind == kinds.CLUSTER.kind:
            found = self.cache.cluster(key.name)
            if found is None:
                return []
            cluster, observed = found
            observed = replace(
                observed,
                schedulable_nodes=nodes,
                external_ips=self._nodes.external_ips,
                node_labels=self._nodes.labels,
                causes=causes,
            )
            return plan_cluster(cluster, observed, self._config, now=now, refusal=refusal)
        topic = self.cache.topic(key.name)
        if topic is None:
            return []
        desired, seen = topic
        seen = replace(seen, racks=self._racks_of(desired))
        if waits_for_racks(desired, seen, now):
            self.queue.add(key, after_ms=operator_config.RACKS_MS)
        return plan_topic(desired, seen, self._config, now=now, refusal=refusal)

    def _racks_of(self, topic: DesiredTopic) -> Racks:
        """Return the racks of a topic's cluster, none where nobody asks for them."""
        found = self.cache.cluster(topic.cluster) if self._wants_racks(topic) else None
        if found is None:
            return NOWHERE
        return racks.racks_of(found[0], replace(found[1], node_labels=self._nodes.labels))

    def _wants_racks(self, topic: DesiredTopic) -> bool:
        """Tell whether the brokers of a topic's cluster have racks."""
        return any(
            each.ref.name == topic.cluster and each.rack_key for each in self.cache.clusters()
        )

    async def _schedulable_nodes(self, key: ReconcileKey) -> int | None:
        """Count the nodes that may take a new cluster's brokers.

        Return None where that is forbidden, or nothing depends on it.
        """
        found = self.cache.cluster(key.name) if key.kind == kinds.CLUSTER.kind else None
        if found is None or not pod_settings.needs_nodes(*found):
            return None
        try:
            nodes = await self._api.list(kinds.NODE.resource, "")
        except StoreForbidden:
            return None
        return pod_settings.schedulable_nodes(nodes.items, found[0])

    async def _look_for_nodes(self, key: ReconcileKey) -> None:
        """Learn what addresses or labels the nodes have where brokers run, if anyone asks."""
        name = key.name
        if key.kind == kinds.TOPIC.kind:
            topic = self.cache.topic(key.name)
            name = topic[0].cluster if topic and self._wants_racks(topic[0]) else ""
        nodes = self._nodes_asked_for(name)
        if nodes is not None:
            await self._nodes.look_for(nodes)

    def _nodes_asked_for(self, cluster: str) -> set[str] | None:
        """Return the nodes of a cluster's brokers, None if nobody asks what they are like."""
        found = self.cache.cluster(cluster)
        if found is None:
            return None
        for_addresses, for_racks = external.nodes_asked_for(*found), racks.nodes_asked_for(*found)
        return for_racks if for_addresses is None else for_addresses

    async def follow_nodes(self) -> None:
        """Read the nodes of brokers again and again, as no watch shows them; never returns."""
        while True:
            await asyncio.sleep(operator_config.NODES_MS / 1000)
            if not self.queue.has_lease:
                continue
            names = (each.ref.name for each in self.cache.clusters())
            asked = {each: nodes for each in names if (nodes := self._nodes_asked_for(each))}
            try:
                is_changed = await self._nodes.have_changed(set().union(*asked.values()))
            except CoordinationError as error:
                _log.debug("nodes not read", extra=fields(cause=str(error)))
                continue
            for cluster in asked if is_changed else ():
                self._add(kinds.CLUSTER, cluster)

    def resync_now(self) -> None:
        """List everything again soon: watches may have missed something."""
        self._resync_due.set()

    async def resync(self) -> None:
        """List and queue everything again, from time to time and when it is due; never returns."""
        while True:
            pause_ms = operator_config.RESYNC_MS * random.uniform(0.8, 1.2)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):
                    await self._resync_due.wait()
            self._resync_due.clear()
            try:
                for kind in kinds.WATCHED:
                    with self.cache.listing(kind):
                        found = await self._api.list(kind.resource, self._config.namespace)
                        self.cache.replace(kind, found.items, version=found.resource_version)
            except CoordinationError as error:
                _log.warning("resync failed", extra=fields(cause=str(error)))
                continue
            self._nodes.list_again()
            for cluster in self.cache.clusters():
                self._add(kinds.CLUSTER, cluster.ref.name)
            for topic in self.cache.topics():
                self._add(kinds.TOPIC, topic.ref.name)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000

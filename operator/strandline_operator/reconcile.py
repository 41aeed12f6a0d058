"""Observe, plan, apply: one pass over one cluster or topic, and which change asks for which.

Called by `registry` with every change and by `main` with the resync. Decides nothing
about objects; that is `plan`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import UTC, datetime

from strandline.errors import CoordinationError
from strandline.kube.api import ApiClient, Object
from strandline.log_fields import fields

from . import kinds, operator_config
from .actions import Action
from .apply import Applier
from .observe import Cache
from .operator_config import OperatorConfig
from .plan import plan_cluster, plan_topic, topic_name
from .work_queue import ReconcileKey, WorkQueue

_log = logging.getLogger(__name__)

_DELETED = "DELETED"
_MODIFIED = "MODIFIED"


def now_text() -> str:
    """Return the present time as Kubernetes writes it, whole seconds."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Reconciler:
    """Keeps the cache, routes changes to keys, and works on keys."""

    def __init__(self, api: ApiClient, config: OperatorConfig) -> None:
        self._api = api
        self._config = config
        self.cache = Cache()
        self.queue = WorkQueue(self._work)
        self._applier = Applier(api, self.cache, namespace=config.namespace, now=now_text)

    # --- changes -------------------------------------------------------------------------

    def on_listed(self, kind: kinds.Kind, value: Object) -> None:
        """Remember an object of the initial lists; nothing is worked on before they are whole."""
        self.cache.put(kind, value)

    def on_change(self, kind: kinds.Kind, change: str, value: Object) -> None:
        """Remember a change and have everything it may concern worked on."""
        if change == _DELETED:
            self.cache.remove(kind, kinds.name_of(value))
        else:
            self.cache.put(kind, value)
        if kind is kinds.TOPIC:
            self._topic_changed(change, value)
        elif kind is kinds.CLUSTER:
            self._cluster_changed(change, value)
        elif kind is kinds.PARTITION:
            self._partition_changed(change, value)
        elif not (kind is kinds.LEASE and change == _MODIFIED and _is_owned(value)):
            # Renewals of Leases are most of all changes and never concern us.
            pause = 0 if change == _DELETED else operator_config.SETTLE_MS
            for name in self._clusters_of(value):
                self._add(kinds.CLUSTER, name, after_ms=pause)

    def _topic_changed(self, change: str, value: Object) -> None:
        self._add(kinds.TOPIC, kinds.name_of(value))
        if change != _MODIFIED:
            for other in self.cache.all(kinds.TOPIC):
                if topic_name(other) == topic_name(value):
                    self._add(kinds.TOPIC, kinds.name_of(other))

    def _cluster_changed(self, change: str, value: Object) -> None:
        name = kinds.name_of(value)
        self._add(kinds.CLUSTER, name)
        if change != _MODIFIED:
            for topic in self.cache.all(kinds.TOPIC):
                if topic["spec"]["clusterRef"] == name:
                    self._add(kinds.TOPIC, kinds.name_of(topic))

    def _partition_changed(self, change: str, value: Object) -> None:
        pause = operator_config.SETTLE_MS if change == _MODIFIED else 0
        topic = kinds.name_of(value).rpartition("-")[0]
        if self.cache.get(kinds.TOPIC, topic) is not None:
            self._add(kinds.TOPIC, topic, after_ms=pause)
        cluster = kinds.cluster_label(value)
        if self.cache.get(kinds.CLUSTER, cluster) is not None:
            self._add(kinds.CLUSTER, cluster, after_ms=operator_config.SETTLE_MS)

    def _clusters_of(self, value: Object) -> list[str]:
        """Return the clusters an object may be a part of, by name: labels may be gone."""
        name = kinds.name_of(value)
        known = (kinds.name_of(cluster) for cluster in self.cache.all(kinds.CLUSTER))
        return [own for own in known if name == own or name.startswith(f"{own}-")]

    def _add(self, kind: kinds.Kind, name: str, *, after_ms: int = 0) -> None:
        self.queue.add(ReconcileKey(kind=kind.kind, name=name), after_ms=after_ms)

    # --- work ----------------------------------------------------------------------------

    async def _work(self, key: ReconcileKey) -> bool:
        """Make one pass; tell whether it came to its end."""
        for action in self._plan(key):
            try:
                await self._applier.apply(action)
            except CoordinationError as error:
                _log.warning(
                    "action failed",
                    extra=fields(object=str(key), action=str(action), cause=str(error)),
                )
                return False
            _log.info("action done", extra=fields(object=str(key), action=str(action)))
        return True

    def _plan(self, key: ReconcileKey) -> list[Action]:
        now = now_text()
        if key.kind == kinds.CLUSTER.kind:
            cluster = self.cache.cluster(key.name)
            return plan_cluster(cluster, self._config, now=now) if cluster else []
        topic = self.cache.topic(key.name)
        return plan_topic(topic, self._config, now=now) if topic else []

    async def resync(self) -> None:
        """List everything again from time to time and work on all of it; never returns."""
        while True:
            pause_ms = operator_config.RESYNC_MS * random.uniform(0.8, 1.2)
            await asyncio.sleep(pause_ms / 1000)
            try:
                for kind in kinds.WATCHED:
                    found = await self._api.list(kind.resource, self._config.namespace)
                    self.cache.replace(kind, found.items)
            except CoordinationError as error:
                _log.warning("resync failed", extra=fields(cause=str(error)))
                continue
            for kind in (kinds.CLUSTER, kinds.TOPIC):
                for value in self.cache.all(kind):
                    self._add(kind, kinds.name_of(value))


def _is_owned(value: Object) -> bool:
    return bool(kinds.controller_of(value)) and bool(kinds.cluster_label(value))

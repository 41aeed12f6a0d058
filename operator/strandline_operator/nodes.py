"""What the operator knows of nodes: ExternalIPs (ADR 0045), and labels that say racks (ADR 0064).

Kept by `reconcile`. Nodes are in no namespace and change all the time, so they are listed, by the
one verb that the chart's ClusterRole gives, and only if a pod is on a node that is not known yet,
or after a resync. The few nodes that brokers are on are read again from time to time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from strandline.errors import StoreForbidden
from strandline.kube.api import ApiClient, Object

from . import kinds
from .external import EXTERNAL_IP


class Nodes:
    """ExternalIPs, "" without one, and labels by the names of nodes, as they were listed last."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._lock = asyncio.Lock()
        self._is_old = True
        self.external_ips: Mapping[str, str] | None = None
        """None while the operator may not list nodes, or has had no reason to."""
        self.labels: Mapping[str, Mapping[str, str]] | None = None
        """Likewise; it lacks nodes that are gone, of which nobody knows where they were."""

    def list_again(self) -> None:
        """List nodes for the next pass that asks for them: they may have changed."""
        self._is_old = True

    async def look_for(self, nodes: Collection[str]) -> None:
        """List nodes unless these are known.

        Raises:  CoordinationError, but not StoreForbidden; what was known stays
        """
        async with self._lock:
            if not self._is_old and not set(nodes) - (self.external_ips or {}).keys():
                return
            try:
                listed = await self._api.list(kinds.NODE.resource, "")
            except StoreForbidden:
                self.external_ips = self.labels = None
                return
            # A node that is gone has no address either, and nobody lists for it at each pass.
            found = {kinds.name_of(each): external_ip(each) for each in listed.items}
            self.external_ips = dict.fromkeys(nodes, "") | found
            self.labels = {kinds.name_of(each): _labels(each) for each in listed.items}
            self._is_old = False

    async def have_changed(self, nodes: Collection[str]) -> bool:
        """Read these nodes again, if nodes may be listed; tell whether one of them has changed.

        Each is asked for by its name: of a large Kubernetes those few cost no more than of a small
        one. One that is gone is no change: where it was holds until its pod is on another.

        Raises:  CoordinationError; what was known stays
        """
        async with self._lock:
            ips, labels = self.external_ips, self.labels
            if ips is None or labels is None:
                return False
            for name in sorted(nodes):
                chosen = {"fieldSelector": f"metadata.name={name}"}
                found = await self._api.list(kinds.NODE.resource, "", selector=chosen)
                for node in found.items:
                    ips, labels = {**ips, name: external_ip(node)}, {**labels, name: _labels(node)}
            is_changed = (ips, labels) != (self.external_ips, self.labels)
            self.external_ips, self.labels = ips, labels
            return is_changed


def external_ip(node: Object) -> str:
    """Return the first ExternalIP of a node, "" without one."""
    addresses = (node.get("status") or {}).get("addresses") or []
    return next((str(each["address"]) for each in addresses if each["type"] == EXTERNAL_IP), "")


def _labels(node: Object) -> Mapping[str, str]:
    return dict(node["metadata"].get("labels") or {})

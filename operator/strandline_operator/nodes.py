"""What the operator knows of nodes: ExternalIPs (ADR 0045), and labels that say racks (ADR 0064).

Kept by `reconcile`. Nodes are in no namespace and change all the time, so they are listed, by the
one verb that the chart's ClusterRole gives, and only if a pod is on a node that is not known yet,
or after a resync.
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


def external_ip(node: Object) -> str:
    """Return the first ExternalIP of a node, "" without one."""
    addresses = (node.get("status") or {}).get("addresses") or []
    return next((str(each["address"]) for each in addresses if each["type"] == EXTERNAL_IP), "")


def _labels(node: Object) -> Mapping[str, str]:
    return dict(node["metadata"].get("labels") or {})

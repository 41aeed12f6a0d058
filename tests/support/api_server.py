"""kubectl on one API server, which a cluster with nodes and a control plane without share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.commands import COMMAND_LIMIT_SECONDS, kubectl

Manifest = dict[str, Any]


class ApiServer:
    """An API server, as its administrator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"

    def kubectl(
        self, *args: str, stdin: str | None = None, limit_seconds: int = COMMAND_LIMIT_SECONDS
    ) -> str:
        """Run kubectl as cluster administrator and return what it printed.

        Raises: CommandError with kubectl's message
        """
        return kubectl(self.kubeconfig, *args, stdin=stdin, limit_seconds=limit_seconds)

    def apply(self, manifest: Manifest | list[Manifest]) -> None:
        """Apply one object or several, in the order given."""
        manifests = manifest if isinstance(manifest, list) else [manifest]
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def get(self, *args: str) -> Manifest:
        """Return the object or list that `kubectl get ... -o json` prints."""
        found: Manifest = json.loads(self.kubectl("get", *args, "-o", "json"))
        return found

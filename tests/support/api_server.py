"""One API server and its administrator, which a cluster with nodes and a control plane share."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.support.commands import COMMAND_LIMIT_SECONDS, kubectl
from tests.support.object_reader import Manifest, ObjectReader


class ApiServer:
    """An API server, as its administrator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.reader = ObjectReader(self.kubeconfig)

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
        """Return the object or list that `kubectl get ... -o json` prints.

        Raises: CommandError with the server's message
        """
        return self.reader.get(*args)

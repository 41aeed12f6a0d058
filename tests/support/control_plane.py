"""A real etcd, API server and controller manager for tests, without nodes.

This file runs `hack/cluster/control-plane` and knows no object of the project. The programs keep
their files in one folder, listen on 127.0.0.1, end with this process at the latest, and can run
beside any other cluster of the machine.
"""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from tests.support import audited
from tests.support.api_server import ApiServer
from tests.support.commands import CLUSTER_SCRIPTS, run

START_LIMIT_SECONDS = 180
"""Bound of one script call; a start takes about 4 s on an idle machine."""


class ControlPlane(ApiServer):
    """One running control plane; its API server can be stopped, killed and frozen."""

    @classmethod
    def start(cls, folder: Path) -> ControlPlane:
        """Start a control plane in this folder, which `stop` removes."""
        plane = cls(folder)
        plane._script("up", "--while", str(os.getpid()))
        return plane

    def stop(self) -> None:
        """End all processes, keep what the audit log shows, and remove the folder."""
        audited.collect(self.audit_log.parent)
        self.reader.close()
        self._script("down")

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Return a kubeconfig with a fresh token of an existing ServiceAccount."""
        token = self.kubectl("create", "token", name, "-n", namespace, "--duration=24h").strip()
        config = yaml.safe_load(self.kubeconfig.read_text())
        config["users"] = [{"name": name, "user": {"token": token}}]
        config["contexts"][0]["context"].update(user=name, namespace=namespace)
        path = self.folder / f"kubeconfig-{namespace}-{name}"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    def stop_api(self) -> None:
        """End the API server in an orderly way; connections break, data stays."""
        self._script("stop-api")

    def kill_api(self) -> None:
        """End the API server with SIGKILL."""
        self._script("kill-api")

    def start_api(self) -> None:
        """Start the API server again on the same port and wait until it is ready."""
        self._script("start-api")

    def freeze_api(self) -> None:
        """Stop the API server with SIGSTOP: connections stay open, and requests get no response."""
        self._script("freeze-api")

    def thaw_api(self) -> None:
        """Continue a frozen API server."""
        self._script("thaw-api")

    def backup(self) -> None:
        """Keep a copy of etcd's data, the last one only; the API server is away meanwhile."""
        self._script("backup")

    def restore(self) -> None:
        """Start etcd again from the copy, then the API server and the controller manager."""
        self._script("restore")

    @property
    def audit_log(self) -> Path:
        """Return the audit log's path: one JSON object a line for each request, without bodies."""
        return self.folder / "log" / "audit.log"

    def _script(self, verb: str, *args: str) -> str:
        script = str(CLUSTER_SCRIPTS / "control-plane")
        command = [script, verb, "--state", str(self.folder), *args]
        return run(command, limit_seconds=START_LIMIT_SECONDS)

"""Fixture of an operator process under the chart's ServiceAccount, in its own namespace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import strandline_objects as objects
from tests.support.commands import CommandError
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.object_reader import NOT_FOUND, Manifest
from tests.support.ports import free_port

EXIT_LIMIT_SECONDS = 20
WAIT_LIMIT_MS = 60_000
"""Of what takes a second on an idle machine; it says when a test gives up, not what is promised."""


class OperatorProcess:
    """`python -m strandline_operator` with the chart's permissions and configuration."""

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        folder: Path,
        *values: str,
        release: str = "strandline",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.plane = plane
        self.namespace = namespace
        self._release = release
        self.log = folder / "operator.log"
        self._config = folder / "operator.yaml"
        self.upgrade(*values)
        self.http_port = free_port()
        self.metrics_port = free_port()
        account = plane.service_account_kubeconfig(namespace, f"{release}-operator")
        self._env = {
            **os.environ,
            "KUBECONFIG": str(account),
            "NAMESPACE": namespace,
            "CONFIG_FILE": str(self._config),
            "HTTP_PORT": str(self.http_port),
            "METRICS_PORT": str(self.metrics_port),
            "POD_NAME": "operator-1",
            **(environment or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def upgrade(self, *values: str, chart: Path = objects.CHART) -> None:
        """Apply a chart with these values; the next start has its configuration."""
        options = ("-n", self.namespace, *objects.IMAGES, *values)
        rendered = objects.rendered(chart, *options, release=self._release)
        self.plane.apply([item for item in rendered if item["kind"] != "Deployment"])
        self._deployment = next(item for item in rendered if item["kind"] == "Deployment")
        config_map = next(item for item in rendered if item["kind"] == "ConfigMap")
        self._config.write_text(config_map["data"]["operator.yaml"])

    def uninstall(self) -> None:
        """Delete the chart's objects as `helm uninstall` does: without those that it keeps."""
        options = ("-n", self.namespace, *objects.IMAGES)
        for item in objects.rendered(objects.CHART, *options, release=self._release):
            if "helm.sh/resource-policy" not in item["metadata"].get("annotations", {}):
                name = f"{item['kind']}/{item['metadata']['name']}"
                self.kubectl("delete", name, "--ignore-not-found")

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig that the process uses."""
        return Path(self._env["KUBECONFIG"])

    def use_pod_name(self, name: str) -> None:
        """Be another pod from the next start on."""
        self._env["POD_NAME"] = name

    def use_kubeconfig(self, kubeconfig: Path) -> None:
        """Reach the API server in another way from the next start on."""
        self._env["KUBECONFIG"] = str(kubeconfig)

    def start(self) -> None:
        """Start the process; it lists everything before it acts."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "strandline_operator"],
                env=self._env,
                stdout=log,
                stderr=log,
            )

    def runs(self) -> bool:
        """Tell whether the process was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """End the process with SIGTERM, as Kubernetes does; fail if it ends with an error."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(EXIT_LIMIT_SECONDS) == 0, self.log.read_text()[-4000:]
        self.process = None

    def kill(self) -> None:
        """End it with SIGKILL if it still runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(EXIT_LIMIT_SECONDS)

    def apply_deployment(self) -> None:
        """Create the chart's Deployment; there is no node that could run its pods."""
        self.plane.apply(self._deployment)

    def actions(self) -> list[str]:
        """Return the sentences of all actions that the operator has done so far."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]
        return [line["action"] for line in lines if line["message"] == "action done"]

    def messages(self) -> list[str]:
        """Return the messages of all log lines so far."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]
        return [line["message"] for line in lines]

    def failures(self) -> list[str]:
        """Return the causes of all actions that failed so far."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]
        return [line["cause"] for line in lines if line["message"] == "action failed"]

    def probe(self, path: str) -> tuple[int, str]:
        """Return status and text of a probe's answer; status 0 without an answer."""
        url = f"http://127.0.0.1:{self.http_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    # --- objects of the namespace --------------------------------------------------------

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace as administrator."""
        return self.plane.kubectl("-n", self.namespace, *args, stdin=stdin)

    def get(self, kind: str, name: str) -> Manifest | None:
        """Return an object, None if it does not exist."""
        try:
            return self.plane.get(kind, name, "-n", self.namespace)
        except CommandError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def list(self, kind: str) -> list[Manifest]:
        """Return all objects of a kind."""
        items: list[Manifest] = self.plane.get(kind, "-n", self.namespace)["items"]
        return items

    def wait_for(
        self, what: str, condition: Callable[[], Any], within_ms: int = WAIT_LIMIT_MS
    ) -> Any:
        """Return the condition's first truthy result; a failure shows the end of the log.

        A refused kubectl, or a field that an object does not have, counts as not yet.
        """
        try:
            return eventually(condition, within_ms, what, retry_on=(CommandError, KeyError))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log.read_text()[-6000:]}") from error


@pytest.fixture
def operator(
    control_plane: ControlPlane, crds: None, namespace: str, tmp_path: Path
) -> Iterator[OperatorProcess]:
    """Provide a running operator."""
    process = OperatorProcess(control_plane, namespace, tmp_path)
    process.start()
    yield process
    process.kill()

"""A Prometheus Operator's process over a test's API server, and what it makes of our objects.

Without nodes no Prometheus comes up by it: it writes what that Prometheus would read, a Secret with
the configuration and ConfigMaps with the rules.
"""

from __future__ import annotations

import base64
import gzip
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.commands import REPOSITORY, run
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.object_reader import Manifest
from tests.support.ports import free_port

BUILD_SCRIPT = REPOSITORY / "hack" / "prometheus-operator" / "build"
BUILD_LIMIT_SECONDS = 1800
"""Bound of the first build, which takes some minutes."""
WRITTEN_WITHIN_MS = 60_000
STOP_SECONDS = 20
GROUP = "monitoring.coreos.com"
JUDGED = ("PodMonitor", "PrometheusRule")
OF_PROMETHEUS = "operator.prometheus.io/name"
"""Label of what the Prometheus Operator writes for one Prometheus."""


def prepared_operator() -> Path:
    """Return the folder of the program and its CRDs, which the first use fills."""
    printed = run([str(BUILD_SCRIPT)], limit_seconds=BUILD_LIMIT_SECONDS)
    return Path(printed.splitlines()[-1])


def install_definitions(plane: ControlPlane, prepared: Path) -> None:
    """Install the CRDs; server-side, because some are too long for kubectl's annotation."""
    crds = str(prepared / "crds")
    plane.kubectl("apply", "--server-side", "-f", crds)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", crds)


def selecting(namespace: str, name: str, labels: dict[str, str], **spec: Any) -> Manifest:
    """Return a Prometheus that takes what has these labels, in all namespaces.

    Source:  kube-prometheus, manifests/prometheus-prometheus.yaml, which selects everything
    """
    chosen = {"matchLabels": labels}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Prometheus",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "podMonitorSelector": chosen,
            "podMonitorNamespaceSelector": {},
            "ruleSelector": chosen,
            "ruleNamespaceSelector": {},
            **spec,
        },
    }


class PrometheusOperator:
    """One process, as administrator of the API server."""

    def __init__(self, plane: ControlPlane, prepared: Path, folder: Path) -> None:
        self._plane = plane
        self._program = prepared / "operator"
        self._log = folder / "prometheus-operator.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it works on what is there and on what comes."""
        environment = {**os.environ, "KUBECONFIG": str(self._plane.kubeconfig)}
        command = [str(self._program), f"--web.listen-address=127.0.0.1:{free_port()}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def stop(self) -> None:
        """End it with SIGTERM."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_SECONDS)
            self._process = None

    def configuration(self, prometheus: Manifest, jobs: set[str]) -> dict[str, Any]:
        """Wait until the configuration of a Prometheus has these jobs, and return it."""

        def written() -> dict[str, Any]:
            found = self._written(prometheus)
            assert {each["job_name"] for each in found["scrape_configs"]} == jobs, self.complaints()
            return found

        return eventually(written, WRITTEN_WITHIN_MS, f"a configuration (log: {self._log})")

    def _written(self, prometheus: Manifest) -> dict[str, Any]:
        about = prometheus["metadata"]
        name = f"secret/prometheus-{about['name']}"
        found = self._plane.kubectl(
            *("get", name, "-n", about["namespace"], "--ignore-not-found", "-o", "yaml")
        )
        assert found, f"no {name}"
        packed = base64.b64decode(yaml.safe_load(found)["data"]["prometheus.yaml.gz"])
        made: dict[str, Any] = yaml.safe_load(gzip.decompress(packed))
        return made

    def rules(self, prometheus: Manifest) -> dict[str, str]:
        """Return the rule files of a Prometheus by their name."""
        about = prometheus["metadata"]
        maps = self._plane.get(
            *("configmaps", "-n", about["namespace"], "-l", f"prometheus-name={about['name']}")
        )
        return {name: text for each in maps["items"] for name, text in each.get("data", {}).items()}

    def complaints(self) -> list[str]:
        """Return the lines of the log that warn or tell of an error."""
        lines = self._log.read_text().splitlines()
        return [line for line in lines if "level=warn" in line or "level=error" in line]

    def refused(self, namespace: str) -> list[str]:
        """Return, from the Events of a namespace, the PodMonitors and PrometheusRules refused."""
        events = self._plane.get("events", "-n", namespace)["items"]
        return sorted(
            f"{each['involvedObject']['kind']}/{each['involvedObject']['name']}"
            for each in events
            if each["type"] != "Normal" and each["involvedObject"]["kind"] in JUDGED
        )

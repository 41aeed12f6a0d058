"""Writes to the API server, most of them dry runs, and the causes that its refusals name."""

from __future__ import annotations

import json
import ssl
import tempfile
from base64 import b64decode
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

Manifest = dict[str, Any]

PLURALS = {
    "BrokerCluster": "brokerclusters",
    "ReplicatedTopic": "replicatedtopics",
    "Broker": "brokers",
    "Partition": "partitions",
}
LIMIT_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """The status code and, for a refusal, one (field, sentence) for each broken rule."""

    code: int
    value: Manifest

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Return (field, sentence) of each broken rule that the refusal names."""
        causes = (self.value.get("details") or {}).get("causes") or []
        return [(cause.get("field", ""), cause.get("message", "")) for cause in causes]


class DryRuns:
    """Writes as cluster administrator; the methods try_... are dry runs, which store nothing."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cadata=_material(cluster, "certificate-authority"))
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
            pair.write(_material(user, "client-key") + "\n" + _material(user, "client-certificate"))
            pair.flush()
            context.load_cert_chain(pair.name)
        where = urlsplit(cluster["server"])
        self._connection = HTTPSConnection(
            where.hostname or "", where.port, context=context, timeout=LIMIT_SECONDS
        )
        self.namespace = namespace

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def create(self, manifest: Manifest) -> ApiResponse:
        """Create an object and keep it."""
        return self._send("POST", self._path(manifest), manifest)

    def try_create(self, manifest: Manifest, *, validation: str = "Warn") -> ApiResponse:
        """Create an object in a dry run; validation is the API's fieldValidation."""
        query = f"?dryRun=All&fieldValidation={validation}"
        return self._send("POST", self._path(manifest) + query, manifest)

    def put_status(self, manifest: Manifest) -> ApiResponse:
        """Replace a status and keep it."""
        return self._send("PUT", self._path(manifest, named=True) + "/status", manifest)

    def try_update(self, manifest: Manifest, *, status: bool) -> ApiResponse:
        """Replace an object or its status in a dry run."""
        part = "/status" if status else ""
        path = f"{self._path(manifest, named=True)}{part}?dryRun=All"
        return self._send("PUT", path, manifest)

    def _path(self, manifest: Manifest, *, named: bool = False) -> str:
        plural = PLURALS[manifest["kind"]]
        path = f"/apis/strandline.dev/v1alpha1/namespaces/{self.namespace}/{plural}"
        return f"{path}/{manifest['metadata']['name']}" if named else path

    def _send(self, method: str, path: str, body: Manifest) -> ApiResponse:
        headers = {"Content-Type": "application/json"}
        self._connection.request(method, path, json.dumps(body), headers)
        response = self._connection.getresponse()
        return ApiResponse(code=response.status, value=json.loads(response.read()))


def _material(holder: dict[str, str], field: str) -> str:
    if f"{field}-data" in holder:
        return b64decode(holder[f"{field}-data"]).decode()
    return Path(holder[field]).read_text()

"""The settings that the chart gives the operator, and the bounds of its queues and retries.

`main` reads the settings once at start and passes them on.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from strandline.backoff import Backoff
from strandline.config.broker import port_from, required
from strandline.config.declaration import refuse_unknown_keys
from strandline.controller.timing import LeaseTiming
from strandline.errors import ConfigError

FIELD_MANAGER: Final = "strandline-operator"

WORKERS: Final = 4
"""Clusters and topics reconciled at once; each is mostly waiting for the API server."""
BACKOFF: Final = Backoff(first_ms=100, max_ms=30_000)
"""Pauses between two tries of one cluster or topic; the work queue adds jitter."""
SETTLE_MS: Final = 500
"""Changes that only move counts wait this long: one status write instead of many."""
RESYNC_MS: Final = 300_000
"""Interval at which the operator lists everything again, with up to a fifth of jitter, to find a
deletion that a watch missed."""
RACKS_MS: Final = 1_000
"""Pause before a topic that waits for its brokers' racks is looked at again."""
NODES_MS: Final = 10_000
"""Pause before the nodes of brokers are read again, if anyone asks for their labels or addresses:
no watch tells of nodes."""
CAUSES_MS: Final = 10_000
"""Pause before the operator asks again why brokers are not ready: no watch tells of Events."""
CREATE_ATTEMPTS: Final = 40
"""Tries of one new Partition while the API server is away or the name is still taken. After
them the next pass creates it to be recovered, never as new."""
CREATE_BACKOFF: Final = Backoff(first_ms=100, max_ms=2_000)
"""Pauses between these tries."""
LEASE_TIMING: Final = LeaseTiming(
    lease_duration_ms=15_000, renew_deadline_ms=10_000, retry_period_ms=2_000, probe_deadline_ms=0
)
"""The operator's Lease, as Kubernetes' own controllers keep theirs. A second operator works at
least 15 s after the last renewal of one that died, and at once after one that ended."""
CONFIG_MAPS_KEPT: Final = 10
"""Former revisions of a cluster's ConfigMap that are kept without a look at who names them; as many
as Kubernetes keeps of a StatefulSet's revisions."""
WATCH_SERVER_TIMEOUT_SECONDS: Final = 60
"""The API server ends each watch after this time, and kopf opens the next one where it ended.
Short, because a broken network reports no error."""
WATCH_SILENT_MAX_SECONDS: Final = 70
"""Silence after which kopf takes a watch for broken; a healthy one has ended before."""
WATCH_CLIENT_TIMEOUT_SECONDS: Final = 80
"""Time of one watch, whatever it shows."""
WATCH_DOWN_MAX_MS: Final = 20_000
"""Without success for so long a watch is asked for again; then the operator is not ready."""
WATCH_AGE_MAX_MS: Final = 120_000
"""A watch that was not opened again for so long has neither ended nor broken as it should have."""
WATCH_STUCK_MS: Final = 300_000
"""kopf asks for a watch within WATCH_CLIENT_TIMEOUT_SECONDS and a few seconds of back-off; beyond
this time the task is dead that should ask, and liveness fails."""
DEFINITIONS_LOOK_SECONDS: Final = 30
"""Interval at which a working operator compares the served definitions with what it needs, unless
the environment names another one."""
DEFINITIONS_LOOK_SECONDS_MAX: Final = 3_600
REQUEST_TIMEOUT_SECONDS: Final = 10
CONNECT_TIMEOUT_SECONDS: Final = 3

_KNOWN: Final = frozenset(
    {
        *("brokerRole", "brokerImages", "brokerVersion", "brokerImagePullPolicy", "brokerUser"),
        *("imagePullSecrets", "defaultCluster", "watchNamespaces"),
    }
)
VERSION_PATTERN: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?")
"""A version of Strandline: major, minor and patch; the definition of BrokerCluster has it, too."""
USER_MAX: Final = (1 << 32) - 2
"""The greatest user id of Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """Values of the chart; each field names its key in operator.yaml."""

    namespace: str
    """The namespace of one reconciler; as read NAMESPACE of the environment, the operator's own."""
    identity: str
    """POD_NAME of the environment, without it the host's name: who holds the operator's Lease."""
    broker_role: str
    """brokerRole: name of the Role for every cluster's ServiceAccount."""
    broker_images: Mapping[str, str]
    """brokerImages: the image of each version that clusters may have (ADR 0054)."""
    broker_version: str
    """brokerVersion: the version of new clusters that name none; brokerImages has it."""
    broker_image_pull_policy: str = "IfNotPresent"
    """brokerImagePullPolicy, as Kubernetes spells it."""
    broker_user: int | None = None
    """brokerUser: user and group of all brokers; None leaves them to the platform."""
    image_pull_secrets: tuple[str, ...] = ()
    """imagePullSecrets: names of Secrets of the namespace."""
    default_cluster: Mapping[str, Any] | None = None
    """defaultCluster: spec of the BrokerCluster `default`; None if it is not to be created."""
    metrics_port: int = 8081
    """METRICS_PORT of the environment: the port of /metrics; 0 means none."""
    watched: tuple[str, ...] = ()
    """watchNamespaces: the namespaces that the operator watches; its own one if none is given."""
    http_port: int = 8080
    """HTTP_PORT of the environment: the port of /ready and /live; 0 means none."""
    definitions_look_seconds: int = DEFINITIONS_LOOK_SECONDS
    """DEFINITIONS_LOOK_SECONDS of the environment: pause between two looks at the definitions."""

    def for_namespaces(self) -> dict[str, OperatorConfig]:
        """Return the configuration of each namespace's reconciler."""
        names = self.watched or (self.namespace,)
        return {name: replace(self, namespace=name) for name in names}


def load_operator_config(environ: Mapping[str, str] | None = None) -> OperatorConfig:
    """Read CONFIG_FILE and the environment that the fields of OperatorConfig name.

    Raises:  ConfigError naming the variable or key
    """
    variables = os.environ if environ is None else environ
    path = Path(required(variables, "CONFIG_FILE"))
    try:
        values = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"CONFIG_FILE {path}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"CONFIG_FILE {path}: must be a mapping")
    refuse_unknown_keys(values, _KNOWN)
    default_cluster = values.get("defaultCluster")
    if default_cluster is not None and not isinstance(default_cluster, dict):
        raise ConfigError("defaultCluster: must be the spec of a BrokerCluster")
    return OperatorConfig(
        namespace=required(variables, "NAMESPACE"),
        identity=variables.get("POD_NAME") or socket.gethostname(),
        broker_role=_text(values, "brokerRole"),
        broker_images=_images(values),
        broker_version=_text(values, "brokerVersion"),
        broker_image_pull_policy=_text(values, "brokerImagePullPolicy", default="IfNotPresent"),
        broker_user=_user(values.get("brokerUser")),
        image_pull_secrets=_secret_names(values.get("imagePullSecrets") or []),
        default_cluster=default_cluster,
        metrics_port=port_from(variables, "METRICS_PORT", default=8081),
        watched=_namespaces(values.get("watchNamespaces") or []),
        http_port=port_from(variables, "HTTP_PORT", default=8080),
        definitions_look_seconds=_look_seconds(variables),
    )


def _look_seconds(variables: Mapping[str, str]) -> int:
    name = "DEFINITIONS_LOOK_SECONDS"
    written = variables.get(name) or str(DEFINITIONS_LOOK_SECONDS)
    allowed = range(1, DEFINITIONS_LOOK_SECONDS_MAX + 1)
    if written.isascii() and written.isdigit() and int(written) in allowed:
        return int(written)
    raise ConfigError(
        f"{name}: {written!r} is not accepted; give an integer from 1 to "
        f"{DEFINITIONS_LOOK_SECONDS_MAX}"
    )


def _text(values: Mapping[str, Any], key: str, *, default: str = "") -> str:
    value = values.get(key, default)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{key}: must be a text that is not empty")
    return value


def _images(values: Mapping[str, Any]) -> dict[str, str]:
    images, default = values.get("brokerImages"), _text(values, "brokerVersion")
    if not isinstance(images, dict) or not images:
        raise ConfigError("brokerImages: must be a mapping of versions to images, not empty")
    for version, image in images.items():
        if not isinstance(version, str) or VERSION_PATTERN.fullmatch(version) is None:
            raise ConfigError(f"brokerImages: {version!r} must be a version such as 0.1.0")
        if not isinstance(image, str) or not image:
            raise ConfigError(f"brokerImages: {version} must have an image that is not empty")
    if default not in images:
        raise ConfigError(f"brokerVersion: brokerImages has no image of {default}")
    return dict(images)


def _user(value: Any) -> int | None:
    if value is None or (type(value) is int and 1 <= value <= USER_MAX):
        return value
    raise ConfigError(f"brokerUser: must be a whole number from 1 to {USER_MAX}")


def _namespaces(values: Any) -> tuple[str, ...]:
    if isinstance(values, list) and all(isinstance(item, str) and item for item in values):
        return tuple(dict.fromkeys(values))
    raise ConfigError("watchNamespaces: must be a list of names of namespaces")


def _secret_names(values: Any) -> tuple[str, ...]:
    if isinstance(values, list) and all(
        isinstance(item, dict) and isinstance(item.get("name"), str) for item in values
    ):
        return tuple(item["name"] for item in values)
    raise ConfigError("imagePullSecrets: must be a list of {name: <Secret>}")

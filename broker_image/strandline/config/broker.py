"""All settings of a broker process: one YAML file for a cluster, the environment for a pod.

`runtime.main` calls `load_broker_config` once. The file carries Kafka's keys and is the same
for every broker of a cluster; the environment says which broker this is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import yaml

from strandline.errors import ConfigError
from strandline.model import BrokerId

from .declaration import Setting, build, refuse_unknown_keys, settings_of
from .kubernetes import KubernetesConfig
from .network import GrpcConfig, KafkaListenerConfig, ObservabilityConfig
from .replication import ControllerConfig, ReplicationConfig
from .storage import ConsumerReadConfig, StorageConfig
from .timing import PROFILES, TimingConfig
from .topic import TopicDefaults

TIMING_PROFILE: Final = Setting(key="timing", kind=str, choices=tuple(sorted(PROFILES)))
"""The timing profile, `safe` by default; single keys override its values."""

DEFAULT_PROFILE: Final = "safe"
CLUSTER_NAME_LENGTH_MAX: Final = 40
BROKER_ID_MAX: Final = 99
CONFIG_FILE_BYTES_MAX: Final = 1 << 20
VERSION_MAX: Final = (1 << 31) - 1
FRAME_HEADER_BYTES_MAX: Final = 1024
"""Room in a gRPC message beside the records of one frame: the frame's header and the end of the
answer need far less."""

CONCERNS: Final[dict[str, type]] = {
    "timing": TimingConfig,
    "replication": ReplicationConfig,
    "controller": ControllerConfig,
    "storage": StorageConfig,
    "consumer_reads": ConsumerReadConfig,
    "kafka": KafkaListenerConfig,
    "grpc": GrpcConfig,
    "observability": ObservabilityConfig,
    "kubernetes": KubernetesConfig,
    "topic_defaults": TopicDefaults,
}
"""The parts of a `BrokerConfig` that hold settings, by their field."""

KEYS_SINCE: Final = Setting(key="keys.since", kind=dict)
"""A mapping in the file: the version since which a key exists. The writer of the file marks its
keys so, and a broker of an earlier version leaves those out that it cannot know (ADR 0039)."""

SETTINGS: Final[Mapping[str, Setting]] = {TIMING_PROFILE.key: TIMING_PROFILE} | {
    setting.key: setting for concern in CONCERNS.values() for _, setting, _ in settings_of(concern)
}
"""Every setting of a broker by its key."""

SINCE: Final[Mapping[str, int]] = {key: setting.since for key, setting in SETTINGS.items()}
"""The version since which each key exists."""

KEYS_VERSION: Final = max(SINCE.values())
"""The version of the keys that this code knows."""

KNOWN_KEYS: Final = frozenset(SINCE) | {KEYS_SINCE.key}

_CLUSTER_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """Who this process is; from the environment that the StatefulSet gives a pod."""

    cluster: str
    """CLUSTER_NAME: name of the BrokerCluster."""
    broker_id: BrokerId
    """The ordinal at the end of POD_NAME, which is `<cluster>-<id>`."""
    namespace: str
    """NAMESPACE: where all objects of the cluster live."""
    pod_name: str
    """POD_NAME; also the name of the Broker object."""
    pod_uid: str
    """POD_UID: first half of the incarnation."""
    pod_ip: str
    """POD_IP: the address that other brokers and clients dial; the ports are open there alone, and
    the HTTP port also on loopback."""
    node_ip: str = ""
    """NODE_IP: the address of the pod's node, which clients outside get where no other host is
    given; without it they get none then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports to listen on; 0, for tests, takes any free one."""

    grpc: int = 9090
    """GRPC_PORT: traffic between brokers, controller and operator."""
    internal: int = 9092
    """INTERNAL_PORT: Kafka's protocol, advertised with the pod's address."""
    external: int = 9094
    """EXTERNAL_PORT: Kafka's protocol for clients outside; open while the Broker object names an
    address for them."""
    http: int = 8080
    """HTTP_PORT: /metrics, /ready and /live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The whole configuration of a broker; each part goes to the code that applies it."""

    identity: BrokerIdentity
    ports: Ports = field(default_factory=Ports)
    timing: TimingConfig = field(default_factory=TimingConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    consumer_reads: ConsumerReadConfig = field(default_factory=ConsumerReadConfig)
    kafka: KafkaListenerConfig = field(default_factory=KafkaListenerConfig)
    grpc: GrpcConfig = field(default_factory=GrpcConfig)
    observability: ObservabilityConfig = field(default_factory=ObservabilityConfig)
    kubernetes: KubernetesConfig = field(default_factory=KubernetesConfig)
    topic_defaults: TopicDefaults = field(default_factory=TopicDefaults)
    newer_keys: tuple[str, ...] = ()
    """Keys of the file that a later version knows; they have no effect."""
    given: Mapping[str, object] = field(default_factory=dict)
    """The known settings of the file by key."""

    def check(self) -> None:
        """Refuse combinations of settings that cannot work; the ConfigError names both keys."""
        self.timing.check()
        self.topic_defaults.check()
        fetch_wait = ("replica.fetch.wait.max.ms", self.replication.fetch_wait_max_ms)
        lag_time = ("replica.lag.time.max.ms", self.timing.replica_lag_time_max_ms)
        fetch_timeout = ("replica.socket.timeout.ms", self.replication.fetch_timeout_ms)
        frame = ("grpc.frame.max.bytes", self.grpc.frame_max_bytes)
        message = ("grpc.message.max.bytes", self.grpc.message_max_bytes)
        # A batch that fits no message would stop its partition's replication for ever.
        room = (
            f"grpc.message.max.bytes less {FRAME_HEADER_BYTES_MAX} for the frame's header",
            self.grpc.message_max_bytes - FRAME_HEADER_BYTES_MAX,
        )
        fetch = ("replica.fetch.max.bytes", self.replication.fetch_max_bytes)
        response = ("replica.fetch.response.max.bytes", self.replication.fetch_response_max_bytes)
        # What fits no queue would end the stream each time, and replicate nothing.
        queue = (
            "grpc.queue.max.bytes less grpc.message.max.bytes for a batch beyond the bound",
            self.grpc.queue_max_bytes - self.grpc.message_max_bytes,
        )
        batch = ("message.max.bytes", self.topic_defaults.message_max_bytes)
        for (lower_key, lower), (upper_key, upper) in (
            (fetch_wait, lag_time),
            (fetch_wait, fetch_timeout),
            (frame, message),
            (fetch, room),
            (batch, room),
            (response, queue),
        ):
            if lower >= upper:
                raise ConfigError(f"{lower_key} ({lower}) must be below {upper_key} ({upper})")


def load_broker_config(path: Path, environ: Mapping[str, str] | None = None) -> BrokerConfig:
    """Read the configuration file and the environment; ConfigError names the key or variable."""
    variables = os.environ if environ is None else environ
    written = read_settings_file(path)
    values = dict(written)
    if data_dir := variables.get("DATA_DIR"):
        values["log.dir"] = data_dir
    config = broker_config(values, identity=_identity_from(variables), ports=_ports_from(variables))
    config.check()
    return replace(config, given={key: written[key] for key in written if key in SETTINGS})


def broker_config(
    values: Mapping[str, object], *, identity: BrokerIdentity, ports: Ports
) -> BrokerConfig:
    """Make a configuration from settings by key; ConfigError for an unknown key or wrong value.

    A key that is marked as one of a later version is no error; `newer_keys` names it.
    """
    newer = _newer_keys(values)
    refuse_unknown_keys(values, KNOWN_KEYS.union(newer))
    profile = TIMING_PROFILE.check(values.get(TIMING_PROFILE.key, DEFAULT_PROFILE))
    timing = PROFILES[str(profile)]
    defaults = BrokerConfig(identity=identity, ports=ports, timing=timing, newer_keys=newer)
    built = {name: build(getattr(defaults, name), values) for name in CONCERNS}
    return replace(defaults, **built)


def _newer_keys(values: Mapping[str, object]) -> tuple[str, ...]:
    """Return the unknown keys that the file marks as keys of a later version."""
    marks = values.get(KEYS_SINCE.key, {})
    if not isinstance(marks, dict) or not all(
        isinstance(key, str) and type(version) is int and 1 <= version <= VERSION_MAX
        for key, version in marks.items()
    ):
        raise ConfigError(
            f"{KEYS_SINCE.key}: {marks!r} is not accepted; give a mapping of keys to integers "
            f"from 1 to {VERSION_MAX}"
        )
    unknown = sorted(set(values) - KNOWN_KEYS)
    return tuple(key for key in unknown if marks.get(key, 0) > KEYS_VERSION)


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML in which a repeated key is an error; PyYAML would silently take the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002  PyYAML's signature
        """Build a mapping, refusing a repeated key."""
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key in seen:
                raise ConfigError(f"{key}: given twice in the configuration file")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def read_settings_file(path: Path) -> dict[str, object]:
    """Return the flat mapping of a YAML file; an empty file means all defaults.

    Raises:  ConfigError if the file cannot be read or is not a flat mapping
    """
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"configuration file {path}: {error.strerror}") from error
    if len(content) > CONFIG_FILE_BYTES_MAX:
        raise ConfigError(f"configuration file {path}: larger than {CONFIG_FILE_BYTES_MAX} bytes")
    try:
        loaded = yaml.load(content, Loader=_UniqueKeyLoader)  # noqa: S506  a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"configuration file {path}: not YAML: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise ConfigError(f"configuration file {path}: must be a mapping of keys to values")
    return loaded


def _identity_from(variables: Mapping[str, str]) -> BrokerIdentity:
    """Read this broker's identity; refuse absent variables and a pod name of another cluster."""
    cluster = required(variables, "CLUSTER_NAME")
    if len(cluster) > CLUSTER_NAME_LENGTH_MAX or not _CLUSTER_NAME.fullmatch(cluster):
        raise ConfigError(
            f"CLUSTER_NAME: {cluster!r} is not accepted; give lower-case letters, "
            f"digits and '-', a letter first, at most {CLUSTER_NAME_LENGTH_MAX} characters"
        )
    pod_name = required(variables, "POD_NAME")
    ordinal = pod_name.removeprefix(f"{cluster}-")
    canonical = ordinal.isascii() and ordinal.isdigit() and str(int(ordinal)) == ordinal
    if ordinal == pod_name or not canonical or int(ordinal) > BROKER_ID_MAX:
        raise ConfigError(
            f"POD_NAME: {pod_name!r} is not accepted; give {cluster}-<broker id> with an id "
            f"from 0 to {BROKER_ID_MAX}"
        )
    return BrokerIdentity(
        cluster=cluster,
        broker_id=BrokerId(int(ordinal)),
        namespace=required(variables, "NAMESPACE"),
        pod_name=pod_name,
        pod_uid=required(variables, "POD_UID"),
        pod_ip=_address_from(variables, "POD_IP"),
        node_ip=_address_from(variables, "NODE_IP") if variables.get("NODE_IP") else "",
    )


def _address_from(variables: Mapping[str, str], name: str) -> str:
    """Return the IP address in a variable of the environment; ConfigError if it holds none."""
    written = required(variables, name)
    try:
        return str(ip_address(written))
    except ValueError:
        raise ConfigError(
            f"{name}: {written!r} is not accepted; give an IPv4 or IPv6 address"
        ) from None


def _ports_from(variables: Mapping[str, str]) -> Ports:
    return Ports(
        grpc=port_from(variables, "GRPC_PORT", default=Ports().grpc),
        internal=port_from(variables, "INTERNAL_PORT", default=Ports().internal),
        external=port_from(variables, "EXTERNAL_PORT", default=Ports().external),
        http=port_from(variables, "HTTP_PORT", default=Ports().http),
    )


def port_from(variables: Mapping[str, str], name: str, *, default: int) -> int:
    """Return the port that a variable of the environment names; ConfigError if it names none."""
    written = variables.get(name) or str(default)
    if written.isascii() and written.isdigit() and int(written) <= 65_535:
        return int(written)
    raise ConfigError(f"{name}: {written!r} is not accepted; give an integer from 0 to 65535")


def required(variables: Mapping[str, str], name: str) -> str:
    """Return a variable of the environment; ConfigError if it is absent or empty."""
    value = variables.get(name, "")
    if not value:
        raise ConfigError(f"{name}: the environment variable must be set and not empty")
    return value

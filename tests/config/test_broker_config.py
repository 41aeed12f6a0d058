"""What the configuration file and the environment accept, and what they refuse."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from pathlib import Path
from uuid import UUID

import pytest
import yaml

from strandline.config import broker as broker_module
from strandline.config.broker import (
    CONCERNS,
    FRAME_HEADER_BYTES_MAX,
    KEYS_SINCE,
    KEYS_VERSION,
    KNOWN_KEYS,
    BrokerConfig,
    Ports,
    broker_config,
    load_broker_config,
)
from strandline.config.declaration import Setting, settings_of
from strandline.config.timing import DEMO, SAFE
from strandline.config.topic import effective_min_insync_replicas
from strandline.errors import ConfigError, ErrorCode
from strandline.model import EpochEndOffset, LeaderEpoch, TopicId, TopicPartition
from strandline.rpc.frames import RecordsFrame, encode_end, encode_records
from tests.chart.cases import BOUNDS

ENVIRONMENT = {
    "CLUSTER_NAME": "demo",
    "POD_NAME": "demo-2",
    "POD_UID": "uid",
    "POD_IP": "10.0.0.1",
    "NAMESPACE": "strandline",
}


FRAME_BOUNDS = ("replica.fetch.max.bytes", "message.max.bytes")
"""Keys that bound one frame to a follower."""


def load(tmp_path: Path, text: str, **environment: str) -> BrokerConfig:
    path = tmp_path / "broker.yaml"
    path.write_text(text)
    return load_broker_config(path, {**ENVIRONMENT, **environment})


def test_an_empty_file_means_the_safe_profile(tmp_path: Path) -> None:
    config = load(tmp_path, "")
    assert config.timing == SAFE
    assert config.identity.broker_id == 2
    assert (config.ports.grpc, config.ports.internal, config.ports.http) == (9090, 9092, 8080)


@pytest.mark.parametrize(
    ("profile", "values"),
    [
        (DEMO, (3, 2_000, 500, 500, 2_000, 10_000, 1_000)),
        (SAFE, (15, 10_000, 2_000, 2_000, 9_000, 30_000, 5_000)),
    ],
)
def test_the_values_of_the_shipped_profiles(profile: object, values: tuple[int, ...]) -> None:
    assert tuple(getattr(profile, name) for name, _, _ in settings_of(type(profile))) == values


def test_a_single_value_overrides_its_profile_and_leaves_the_rest(tmp_path: Path) -> None:
    config = load(tmp_path, "timing: demo\nreplica.lag.time.max.ms: 12000\n")
    assert config.timing.replica_lag_time_max_ms == 12_000
    assert config.timing.broker_session_timeout_ms == DEMO.broker_session_timeout_ms


def test_a_fraction_may_be_written_as_an_integer(tmp_path: Path) -> None:
    assert load(tmp_path, "log.dir.fill.max: 1\n").storage.fill_max == 1.0
    assert load(tmp_path, "log.dir.fill.max: 0.5\n").storage.fill_max == 0.5


def test_the_environment_names_data_directory_and_ports(tmp_path: Path) -> None:
    config = load(tmp_path, "log.dir: /elsewhere\n", DATA_DIR="/data", GRPC_PORT="0")
    assert config.storage.data_dir == "/data"
    assert config.ports.grpc == 0


def test_the_environment_names_the_node_and_the_port_for_clients_outside(tmp_path: Path) -> None:
    config = load(tmp_path, "")
    assert (config.identity.node_ip, config.ports.external) == ("", 9094)
    config = load(tmp_path, "", NODE_IP="2001:db8::1", EXTERNAL_PORT="19094")
    assert (config.identity.node_ip, config.ports.external) == ("2001:db8::1", 19094)


@pytest.mark.parametrize(("name", "text"), [("NODE_IP", "a-node"), ("EXTERNAL_PORT", "65536")])
def test_a_wrong_node_or_port_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: '{text}' is not accepted"):
        load(tmp_path, "", **{name: text})


LATER = KEYS_VERSION + 1
MARKS = f"{KEYS_SINCE.key}: {{quick.start: {LATER}, log.roll.ms: {LATER}, old.key: 1}}\n"


def test_a_key_of_a_later_version_is_left_out_and_told(tmp_path: Path) -> None:
    config = load(tmp_path, f"{MARKS}quick.start: {{any: thing}}\nlog.roll.ms: 5\n")
    assert config.newer_keys == ("quick.start",)
    assert config.topic_defaults.roll_ms == 5
    assert load(tmp_path, MARKS).newer_keys == ()


@pytest.mark.parametrize("version", range(1, LATER + 1))
def test_a_file_of_an_operator_of_another_version_is_taken(tmp_path: Path, version: int) -> None:
    settings = [
        (setting, default)
        for concern in CONCERNS.values()
        for _, setting, default in settings_of(concern)
        if setting.since <= version
    ]
    values = {setting.key: default for setting, default in settings}
    marks = {setting.key: setting.since for setting, _ in settings}
    if version == LATER:
        values["of.the.next.version"], marks["of.the.next.version"] = 7, LATER
    config = load(tmp_path, yaml.safe_dump({**values, KEYS_SINCE.key: marks}))
    assert config.newer_keys == (("of.the.next.version",) if version == LATER else ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{MARKS}old.key: 1", ("old.key", "unknown setting")),
        (f"{MARKS}other.key: 1", ("other.key", "unknown setting")),
        (f"{MARKS}quick.start: 1\nlog.roll.ms: 0", ("log.roll.ms", "from 1 to")),
        (f"{KEYS_SINCE.key}: [a]", (KEYS_SINCE.key, "a mapping of keys to integers from 1 to")),
        (f"{KEYS_SINCE.key}: {{a: 0}}", (KEYS_SINCE.key, "'a': 0", "from 1 to 2147483647")),
        (f"{KEYS_SINCE.key}: {{a: yes}}", (KEYS_SINCE.key, "from 1 to 2147483647")),
        (f"{KEYS_SINCE.key}: {{1: 3}}", (KEYS_SINCE.key, "a mapping of keys")),
        (f"{KEYS_SINCE.key}: {{a: 3, a: 4}}", ("a", "twice")),
        ("replica.lag.time.max: 1", ("replica.lag.time.max:", "mean replica.lag.time.max.ms")),
        ("nonsense: 1", ("nonsense", "unknown setting")),
        ("replica.lag.time.max.ms: 99", ("replica.lag.time.max.ms", "from 100 to 86400000")),
        ("replica.lag.time.max.ms: true", ("replica.lag.time.max.ms", "an integer")),
        ("replica.lag.time.max.ms: '5000'", ("replica.lag.time.max.ms", "an integer")),
        ("replica.lag.time.max.ms: null", ("replica.lag.time.max.ms", "an integer")),
        ("log.segment.bytes: 13", ("log.segment.bytes", "from 14 to 2147483647")),
        ("log.dir.fill.max: 1.5", ("log.dir.fill.max", "a fraction from 0.1 to 1.0")),
        ("log.dir.fill.max: 0", ("log.dir.fill.max", "a fraction from 0.1 to 1.0")),
        ("log.dir.fill.max: .nan", ("log.dir.fill.max", "a fraction")),
        ("log.dir.fill.max: '0.9'", ("log.dir.fill.max", "a fraction")),
        ("log.trash.retention.ms: -1", ("log.trash.retention.ms", "from 0 to")),
        ("log.trash.retention.bytes: -2", ("log.trash.retention.bytes", "from -1 to")),
        ("log.retention.ms: -2", ("log.retention.ms", "from -1 to")),
        ("log.retention.bytes: -2", ("log.retention.bytes", "from -1 to")),
        ("log.roll.ms: 0", ("log.roll.ms", "from 1 to")),
        ("log.segment.delete.delay.ms: -1", ("log.segment.delete.delay.ms", "from 0 to 604800000")),
        (
            "log.retention.check.interval.ms: 99",
            ("log.retention.check.interval.ms", "from 100 to 86400000"),
        ),
        ("log.dir: ''", ("log.dir", "1 to 4096 characters")),
        ("timing: fast", ("timing", "demo, safe")),
        ("timing: demo\ntiming: safe", ("timing", "twice")),
        ("- a\n- b", ("mapping",)),
        ("a: [", ("not YAML",)),
        ("1: 2", ("mapping",)),
        ("replica.fetch.wait.max.ms: 30000", ("replica.fetch.wait.max.ms", "must be below")),
        ("broker.session.timeout.ms: 5000", ("broker.session.timeout.ms", "at least 3")),
        ("controller.lease.duration.seconds: 10", ("renew.deadline.ms must be below",)),
        ("controller.lease.retry.ms: 9000", ("controller.lease.retry.ms",)),
        ("grpc.frame.max.bytes: 4194304", ("grpc.frame.max.bytes", "must be below")),
        *(
            (f"{key}: {(4 << 20) - FRAME_HEADER_BYTES_MAX}", (key, "grpc.message.max.bytes"))
            for key in FRAME_BOUNDS
        ),
        (
            "replica.fetch.response.max.bytes: 67108864",
            ("replica.fetch.response.max.bytes", "grpc.queue.max.bytes"),
        ),
        (
            "grpc.queue.max.bytes: 4194304",
            ("replica.fetch.response.max.bytes", "grpc.queue.max.bytes"),
        ),
        ("grpc.message.max.bytes: 1048576", ("message.max.bytes", "grpc.message.max.bytes")),
    ],
)
def test_a_refusal_names_key_and_range(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(tmp_path, text)
    assert all(word in str(refusal.value) for word in words)


def test_a_retention_below_the_size_of_a_segment_is_refused(tmp_path: Path) -> None:
    sizes = "log.segment.bytes: 1000\nlog.retention.bytes: "
    with pytest.raises(ConfigError) as refusal:
        load(tmp_path, f"{sizes}999")
    assert "log.retention.bytes (999) must be -1, or at least log.segment.bytes (1000)" in str(
        refusal.value
    )
    for accepted in (1000, -1):
        config = load(tmp_path, f"{sizes}{accepted}")
        assert config.topic_defaults.settings().retention_bytes == accepted


@pytest.mark.parametrize("key", FRAME_BOUNDS)
def test_a_size_that_fits_a_message_with_its_frame_is_accepted(tmp_path: Path, key: str) -> None:
    load(tmp_path, f"{key}: {(4 << 20) - FRAME_HEADER_BYTES_MAX - 1}\n")


def test_the_largest_batch_that_the_crds_accept_fits(tmp_path: Path) -> None:
    for kind, path in (
        ("BrokerCluster", "spec.config.messageMaxBytes"),
        ("ReplicatedTopic", "spec.config.maxMessageBytes"),
    ):
        accepted, _ = BOUNDS[kind][path]["maximum"]
        load(tmp_path, f"message.max.bytes: {accepted}\n")


def test_the_allowance_holds_every_frame_of_a_response() -> None:
    header = encode_records(
        0,
        RecordsFrame(
            request_id=1,
            tp=TopicPartition(topic_id=TopicId(str(UUID(int=0))), partition=0),
            error=ErrorCode.NONE,
            high_watermark=0,
            log_start_offset=0,
            diverging=EpochEndOffset(leader_epoch=LeaderEpoch(1), end_offset=1),
            records=b"",
        ),
        [],
    )
    assert sum(map(len, header)) + sum(map(len, encode_end(1))) <= FRAME_HEADER_BYTES_MAX


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, "") for name in ENVIRONMENT],
        ("POD_NAME", "other-2"),
        ("POD_NAME", "demo"),
        ("POD_NAME", "demo-"),
        ("POD_NAME", "demo-02"),
        ("POD_NAME", "demo-x"),
        ("POD_NAME", "demo--1"),
        ("POD_NAME", "demo-100"),
        ("POD_NAME", "demo-²"),
        ("CLUSTER_NAME", "Demo"),
        ("CLUSTER_NAME", "0demo"),
        ("CLUSTER_NAME", "d" * 41),
        ("GRPC_PORT", "65536"),
        ("HTTP_PORT", "-1"),
        ("INTERNAL_PORT", "http"),
        ("POD_IP", "somewhere"),
        ("POD_IP", "10.0.0.1:9092"),
    ],
)
def test_a_bad_environment_is_refused_by_name(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        load(tmp_path, "", **{name: value})


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_broker_config(tmp_path / "absent.yaml", ENVIRONMENT)


def test_every_default_is_within_its_own_range_and_keys_are_unique() -> None:
    keys = [setting.key for concern in CONCERNS.values() for _, setting, _ in settings_of(concern)]
    assert len(keys) == len(set(keys)) == len(KNOWN_KEYS) - 2
    for concern in CONCERNS.values():
        for _, setting, default in settings_of(concern):
            assert setting.check(default) == default


def test_every_setting_given_by_key_reaches_its_field(tmp_path: Path) -> None:
    identity = load(tmp_path, "").identity
    values: dict[str, object] = {}
    expected: dict[tuple[type, str], object] = {}
    for concern in CONCERNS.values():
        for name, setting, default in settings_of(concern):
            values[setting.key] = other = _another(setting, default)
            expected[concern, name] = other
    config = broker_config(values, identity=identity, ports=Ports())
    parts = {type(part): part for part in (getattr(config, f.name) for f in fields(config))}
    for (concern, name), value in expected.items():
        assert getattr(parts[concern], name) == value, name


def _another(setting: Setting, default: object) -> object:
    """Return an accepted value that is not the default."""
    if setting.kind is str:
        return f"{default}-other"
    return setting.minimum if default != setting.minimum else setting.minimum + 1


@pytest.mark.parametrize("concern", CONCERNS.values(), ids=lambda concern: concern.__name__)
def test_every_setting_has_a_docstring(concern: type) -> None:
    module = inspect.getmodule(concern) or broker_module
    tree = ast.parse(inspect.getsource(module))
    body = next(
        node.body
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == concern.__name__
    )
    for at, node in enumerate(body):
        if isinstance(node, ast.AnnAssign):
            after = body[at + 1] if at + 1 < len(body) else None
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            assert documented, ast.unparse(node.target)


@pytest.mark.parametrize(
    ("configured", "replicas", "effective"),
    [(None, 3, 2), (None, 1, 1), (2, 3, 2), (5, 3, 3), (1, 3, 1)],
)
def test_min_isr_never_exceeds_the_replicas(
    configured: int | None, replicas: int, effective: int
) -> None:
    assert effective_min_insync_replicas(configured, replicas=replicas) == effective

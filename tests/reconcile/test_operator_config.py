"""The operator reads the settings that the chart writes, and refuses all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.errors import ConfigError
from strandline_operator.main import REFUSED, main
from strandline_operator.operator_config import OperatorConfig, load_operator_config

GOOD = """
brokerRole: strandline-broker
brokerVersion: "0.2.0"
brokerImages: {"0.1.0": "strandline/broker:1", "0.2.0": "strandline/broker:2"}
brokerImagePullPolicy: Never
brokerUser: 1001
imagePullSecrets: [{"name": "secret"}]
defaultCluster: {"replicas": 3}
watchNamespaces: ["one", "two"]
"""


def environment(tmp_path: Path, text: str = GOOD, **variables: str) -> dict[str, str]:
    path = tmp_path / "operator.yaml"
    path.write_text(text)
    return {"CONFIG_FILE": str(path), "NAMESPACE": "here", **variables}


def test_every_setting_of_the_chart_is_read(tmp_path: Path) -> None:
    assert load_operator_config(
        environment(tmp_path, HTTP_PORT="0", POD_NAME="me", DEFINITIONS_LOOK_SECONDS="3600")
    ) == OperatorConfig(
        namespace="here",
        identity="me",
        broker_role="strandline-broker",
        broker_images={"0.1.0": "strandline/broker:1", "0.2.0": "strandline/broker:2"},
        broker_version="0.2.0",
        broker_image_pull_policy="Never",
        broker_user=1001,
        image_pull_secrets=("secret",),
        default_cluster={"replicas": 3},
        watched=("one", "two"),
        http_port=0,
        definitions_look_seconds=3600,
    )


def test_each_namespace_has_a_configuration_and_the_own_one_is_the_default(tmp_path: Path) -> None:
    two = load_operator_config(environment(tmp_path)).for_namespaces()
    assert {name: each.namespace for name, each in two.items()} == {"one": "one", "two": "two"}
    text = GOOD.replace('["one", "two"]', "[]")
    assert set(load_operator_config(environment(tmp_path, text)).for_namespaces()) == {"here"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (GOOD.replace("brokerRole: strandline-broker", ""), "brokerRole"),
        ("brokerRole: r", "brokerVersion"),
        ('brokerRole: r\nbrokerVersion: "0.1.0"', "brokerImages"),
        (GOOD.replace('brokerVersion: "0.2.0"', 'brokerVersion: "0.3.0"'), "no image of 0.3.0"),
        (GOOD.replace('{"0.1.0": ', '{"new": '), "'new' must be a version"),
        (GOOD.replace('"strandline/broker:1"', '""'), "0.1.0 must have an image"),
        (GOOD + "brokerRoles: r", "brokerRoles"),
        (GOOD.replace("1001", "0"), "brokerUser"),
        (GOOD.replace("1001", "true"), "brokerUser"),
        (GOOD.replace('[{"name": "secret"}]', "[secret]"), "imagePullSecrets"),
        (GOOD.replace('{"replicas": 3}', "3"), "defaultCluster"),
        (GOOD.replace('["one", "two"]', "one"), "watchNamespaces"),
        ("- a list", "must be a mapping"),
        ("{", "CONFIG_FILE"),
    ],
)
def test_a_wrong_file_is_refused_by_the_name_of_its_key(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        load_operator_config(environment(tmp_path, text))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("NAMESPACE", ""),
        ("CONFIG_FILE", "/nowhere"),
        ("HTTP_PORT", "x"),
        ("DEFINITIONS_LOOK_SECONDS", "0"),
        ("DEFINITIONS_LOOK_SECONDS", "3601"),
        ("DEFINITIONS_LOOK_SECONDS", "1.5"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(tmp_path: Path, variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        load_operator_config({**environment(tmp_path), variable: value})


def test_a_refused_start_has_its_own_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONFIG_FILE", raising=False)
    assert main() == REFUSED

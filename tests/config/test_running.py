"""What a running broker takes over, what it refuses, and the digest that tells of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.config.broker import SETTINGS, BrokerConfig
from strandline.config.declaration import Applies
from strandline.config.running import (
    settings_digest,
    take_running_settings,
    without_running_settings,
)

from .test_broker_config import load

FILL, INTERVAL = "log.dir.fill.max", "log.retention.check.interval.ms"
RUNNING = {key for key, setting in SETTINGS.items() if setting.applies is Applies.RUNNING}


@pytest.fixture
def file(tmp_path: Path) -> BrokerConfig:
    """Provide the configuration of a file that has one setting of running brokers."""
    return load(tmp_path, f"timing: demo\n{INTERVAL}: 1000\n", DATA_DIR="/elsewhere")


def test_settings_lie_over_the_file_and_go_back_to_it(file: BrokerConfig) -> None:
    first = without_running_settings(file)
    taken = take_running_settings(file, {FILL: 0.5, INTERVAL: 200}, first)
    assert taken.refused == ()
    assert (taken.config.storage.fill_max, taken.config.storage.retention_check_interval_ms) == (
        0.5,
        200,
    )
    assert taken.config.storage.data_dir == "/elsewhere"
    again = take_running_settings(file, {FILL: 0.5}, taken)
    assert again.config.storage.retention_check_interval_ms == 1000
    back = take_running_settings(file, {}, again)
    assert (back.config, back.digest) == (file, first.digest)
    assert len({first.digest, taken.digest, again.digest}) == 3


def test_a_refused_value_keeps_the_former_one_and_the_others_are_taken(file: BrokerConfig) -> None:
    before = take_running_settings(file, {FILL: 0.5}, without_running_settings(file))
    taken = take_running_settings(file, {FILL: 7, INTERVAL: 200}, before)
    assert taken.refused == (
        "log.dir.fill.max: 7.0 is not accepted; give a fraction from 0.1 to 1.0",
    )
    assert taken.config.storage.fill_max == 0.5
    assert taken.config.storage.retention_check_interval_ms == 200
    assert taken.digest == settings_digest({**file.given, FILL: 0.5, INTERVAL: 200})
    first = take_running_settings(file, {FILL: 7}, without_running_settings(file))
    assert first.config == file


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("log.dir.fill.maxx", "unknown setting; did you mean log.dir.fill.max?"),
        ("replica.lag.time.max.ms", "a running broker does not take it over"),
        ("log.retention.ms", "a running broker does not take it over"),
    ],
)
def test_a_key_that_a_running_broker_cannot_take_is_refused(
    file: BrokerConfig, key: str, words: str
) -> None:
    taken = take_running_settings(file, {key: 5_000}, without_running_settings(file))
    assert taken.refused == (f"{key}: {words}",)
    assert taken.config == file


def test_the_digest_counts_what_is_given_and_not_the_folder_of_a_test(tmp_path: Path) -> None:
    given = load(tmp_path, "timing: demo\nlog.roll.ms: 5\nlog.dir.fill.max: 1\n").given
    assert settings_digest(given) == settings_digest({"log.dir.fill.max": 1.0, "timing": "demo"})
    elsewhere = load(tmp_path, "timing: demo\n", DATA_DIR="/elsewhere").given
    assert settings_digest(elsewhere) == settings_digest({"timing": "demo"})
    assert settings_digest(elsewhere) != settings_digest({"timing": "safe"})


def test_a_key_of_a_later_version_is_not_among_the_given_ones(tmp_path: Path) -> None:
    config = load(tmp_path, "timing: demo\nnew.key: 5\nkeys.since: {new.key: 99}\n")
    assert config.newer_keys == ("new.key",)
    assert config.given == {"timing": "demo"}


def test_no_combination_of_settings_that_apply_while_running_is_refused(tmp_path: Path) -> None:
    """A combination is checked at the start alone, so none may hold a key of a running broker."""
    for key in sorted(RUNNING):
        for value in (SETTINGS[key].minimum, SETTINGS[key].maximum):
            load(tmp_path, f"{key}: {value}\n")

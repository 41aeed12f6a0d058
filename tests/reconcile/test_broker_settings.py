"""Which way a setting goes to the brokers, and what ConfigApplied says of it."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.config.broker import SETTINGS
from strandline.config.declaration import Applies
from strandline_operator import kinds
from strandline_operator.actions import ApplyObject, ApplyStatus
from strandline_operator.broker_settings import BROKER_KEYS, wanted_digest
from strandline_operator.reading import read_cluster

from .samples import World, cluster, pod, registered
from .test_conditions import conditions_after, led, planned, running

RUNNING = {"logDirFillMax": 0.5, "logTrashRetentionMs": 5}
RESTART = {"replicaLagTimeMaxMs": 5_000}
TOPIC = {"logRetentionMs": 5}


def changed(world: World, **config: Any) -> dict[str, ApplyObject]:
    """Change spec.config; return what the operator applies, by kind, once for each name."""
    before = world.get(kinds.CLUSTER, "default")
    world.put({**before, "spec": {**before["spec"], "config": config}})
    applied = [each for each in planned(world) if isinstance(each, ApplyObject)]
    return {f"{each.body['kind']} {each.body['metadata']['name']}": each for each in applied}


def test_a_setting_of_running_brokers_goes_into_each_broker_object_and_into_nothing_else() -> None:
    applied = changed(running(led(0, isr=[0, 1, 2])), **RUNNING)
    assert set(applied) == {f"Broker default-{number}" for number in range(3)}
    for number in range(3):
        spec = applied[f"Broker default-{number}"].body["spec"]
        assert spec["config"] == {"log.dir.fill.max": 0.5, "log.trash.retention.ms": 5}


def test_a_setting_that_needs_a_restart_changes_the_template_and_no_broker_object() -> None:
    applied = changed(running(led(0, isr=[0, 1, 2])), **RESTART)
    kinds_applied = {name.split()[0] for name in applied}
    assert kinds_applied == {"ConfigMap", "StatefulSet"}


def test_a_setting_of_topics_changes_neither() -> None:
    assert changed(running(led(0, isr=[0, 1, 2])), **TOPIC) == {}


def test_a_setting_that_is_not_wanted_any_more_leaves_the_broker_objects() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    world.perform(list(changed(world, **RUNNING).values()))
    applied = changed(world)
    assert {"config" in each.body["spec"] for each in applied.values()} == {False}
    assert len(applied) == 3


@pytest.mark.parametrize("field", sorted(BROKER_KEYS))
def test_every_setting_of_brokers_counts_and_those_of_topics_do_not(field: str) -> None:
    digests = {wanted_digest(read_cluster(cluster(config={field: 1 + n}))) for n in range(2)}
    is_of_brokers = SETTINGS[BROKER_KEYS[field]].applies is not Applies.TOPIC
    assert len(digests) == 1 + is_of_brokers


def test_applied_is_true_when_each_broker_reports_the_wanted_digest_and_names_the_others() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    world.perform(list(changed(world, **RUNNING).values()))
    wanted = wanted_digest(read_cluster(world.get(kinds.CLUSTER, "default")))
    for number in range(3):
        found = conditions_after(world, planned(world))["ConfigApplied"]
        assert (found["status"], found["reason"]) == ("False", "NotApplied")
        behind = [f"broker {each}" for each in range(3) if f"broker {each} " in found["message"]]
        assert behind == [f"broker {each}" for each in range(number, 3)]
        assert wanted in found["message"]
        world.put(registered(world, number, configDigest=wanted))
    found = conditions_after(world, planned(world))["ConfigApplied"]
    assert (found["status"], found["reason"]) == ("True", "Applied")
    status = world.get(kinds.CLUSTER, "default")["status"]
    assert status["configDigest"] == wanted
    assert [each["configDigest"] for each in status["brokers"]] == [wanted] * 3


def test_a_refusal_of_a_broker_is_told_in_its_words() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    why = "log.dir.fill.max: 7 is not accepted; give a fraction from 0.1 to 1.0"
    digest = world.get(kinds.BROKER, "default-1")["status"]["configDigest"]
    world.put(registered(world, 1, configDigest=digest, configRefused=why))
    found = conditions_after(world, planned(world))["ConfigApplied"]
    assert (found["status"], found["reason"]) == ("False", "SettingsRefused")
    assert found["message"].endswith(f": broker 1: {why}")


def test_brokers_that_never_registered_are_not_judged() -> None:
    world = World(cluster())
    world.perform(planned(world))
    world.put(pod("default-0"))
    (status,) = (each for each in planned(world) if isinstance(each, ApplyStatus))
    held = {each["type"]: each for each in status.body["status"]["conditions"]}
    assert (held["ConfigApplied"]["status"], held["ConfigApplied"]["reason"]) == (
        "Unknown",
        "NotRegistered",
    )

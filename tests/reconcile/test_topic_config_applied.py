"""What ConfigApplied says of a topic, from its Partitions and what the controller told."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.kube.objects import effective_digest
from strandline_operator import kinds

from .samples import Manifest, World
from .test_conditions import conditions_after, led, running, topic_planned


def planned(world: World) -> Manifest:
    return conditions_after(world, topic_planned(world), "orders")["ConfigApplied"]


def judged(world: World) -> tuple[str, str]:
    found = planned(world)
    return f"{found['status']} {found['reason']}", str(found["message"])


def tell(world: World, *brokers: int, of: dict[str, Any] | None = None) -> None:
    """Say in the topic's status that these brokers work with its effective settings, or others.

    The store of these tests has one owner of a status, so each plan that is performed removes it.
    """
    found = world.get(kinds.TOPIC, "orders")
    digest = effective_digest(found["status"]["effectiveConfig"] | (of or {}))
    applied = {"appliedConfig": {"digest": digest, "brokers": list(brokers)}}
    world.put({**found, "status": found["status"] | applied})


def test_brokers_without_the_present_settings_are_named_until_all_have_them() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    assert judged(world)[0] == "Unknown NotTold"
    tell(world, 0, 2)
    reason, message = judged(world)
    assert (reason, "broker 1;" in message) == ("False NotApplied", True)
    assert not any(f"broker {each}" in message for each in (0, 2))
    tell(world, 0, 1, 2)
    assert judged(world)[0] == "True Applied"
    tell(world, 0, 1, 2)
    assert topic_planned(world) == [], "an unchanged situation writes nothing"


def test_what_was_told_of_other_settings_does_not_count() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    judged(world)
    tell(world, 0, 1, 2, of={"retentionMs": 5})
    reason, message = judged(world)
    assert (reason, "broker 0, broker 1, broker 2;" in message) == ("False NotApplied", True)


def test_a_changed_setting_is_not_applied_in_the_same_write_that_passes_it_on() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    judged(world)
    tell(world, 0, 1, 2)
    assert judged(world)[0] == "True Applied"
    tell(world, 0, 1, 2)
    found = world.get(kinds.TOPIC, "orders")
    world.put({**found, "spec": found["spec"] | {"config": {"retentionMs": 5}}})
    assert judged(world)[0] == "False NotApplied"
    assert world.get(kinds.TOPIC, "orders")["status"]["effectiveConfig"]["retentionMs"] == 5


def test_a_replica_that_a_partition_gets_counts_from_then_on() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    judged(world)
    tell(world, 0, 1, 2)
    assert judged(world)[0] == "True Applied"
    tell(world, 0, 1, 2)
    moving = led(0, isr=[0, 1, 2], adding=(3,))
    moving["status"]["replicas"] = [0, 1, 2, 3]
    world.put(moving)
    reason, message = judged(world)
    assert (reason, "broker 3;" in message) == ("False NotApplied", True)


def test_without_replicas_nothing_is_known() -> None:
    without = led(0, isr=[0, 1, 2])
    del without["status"]
    assert judged(running(without))[0] == "Unknown NoReplicas"


@pytest.mark.parametrize("field", ["minInsyncReplicas", "segmentBytes", "retentionMs", "segmentMs"])
def test_every_setting_that_reaches_brokers_counts(field: str) -> None:
    world = running(led(0, isr=[0, 1, 2]))
    judged(world)
    effective = world.get(kinds.TOPIC, "orders")["status"]["effectiveConfig"]
    assert effective_digest(effective | {field: 7}) != effective_digest(effective)
    assert effective_digest(effective | {"deleteTopicEnable": 7}) == effective_digest(effective)

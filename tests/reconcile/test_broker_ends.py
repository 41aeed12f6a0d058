"""A broker that ended because of a disk or a bug is named although it runs again."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.errors import (
    ExitCode,
    InvariantViolation,
    LogDirectoryFailed,
    LogDirectoryFull,
    exit_code_of,
)
from strandline_operator import kinds
from strandline_operator.actions import Action, PostEvent
from strandline_operator.plan import plan_cluster
from strandline_operator.pods import read_pod

from .samples import CONFIG, NOW, Manifest, World, cluster, pod

AT = "2026-01-02T03:04:05Z"


def ended(code: int, *, at: str = AT, where: str = "lastState") -> Manifest:
    words = "fsync:\n EIO"
    terminated = {"exitCode": code, "finishedAt": at, "message": words, "reason": "Error"}
    return {"name": "broker", where: {"terminated": terminated}}


def plan(world: World) -> list[Action]:
    found = world.cache.cluster("default")
    assert found is not None
    return plan_cluster(*found, CONFIG, now=NOW)


def shown(world: World) -> dict[str, Any]:
    conditions = world.get(kinds.CLUSTER, "default")["status"]["conditions"]
    return {each["type"]: each for each in conditions}


@pytest.mark.parametrize("where", ["state", "lastState"])
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ExitCode.LOG_DIRECTORY_FAILED, "LogDirectoryFailed"),
        (ExitCode.INVARIANT_VIOLATED, "InvariantViolated"),
    ],
)
def test_the_code_of_a_pods_last_end_gives_the_reason(code: int, reason: str, where: str) -> None:
    found = read_pod(pod("default-0", containerStatuses=[ended(code, where=where)]))
    assert found is not None
    assert found.end is not None
    assert (found.end.reason, found.end.at, found.end.words) == (reason, AT, "fsync: EIO")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 137])
def test_another_end_is_not_told_of(code: int) -> None:
    found = read_pod(pod("default-0", containerStatuses=[ended(code)]))
    assert found is not None
    assert found.end is None


def test_an_error_gives_the_code_of_its_kind() -> None:
    assert exit_code_of(LogDirectoryFailed("EIO")) is ExitCode.LOG_DIRECTORY_FAILED
    assert exit_code_of(InvariantViolation("a promise")) is ExitCode.INVARIANT_VIOLATED
    assert exit_code_of(LogDirectoryFull("ENOSPC")) is ExitCode.FAILED
    assert exit_code_of(ValueError("a bug")) is ExitCode.FAILED


def test_each_end_is_an_event_once_and_a_condition_until_the_pod_goes() -> None:
    world = World(cluster())
    world.perform(plan(world))
    world.perform(plan(world))

    def events() -> list[tuple[str, str, bool]]:
        actions = plan(world)
        world.perform(actions)
        told = [each for each in actions if isinstance(each, PostEvent)]
        return [(each.reason, each.message, each.is_warning) for each in told]

    disk = ended(ExitCode.LOG_DIRECTORY_FAILED)
    world.put(pod("default-1", containerStatuses=[disk]))
    message = f"default-1 at {AT} (LogDirectoryFailed): fsync: EIO"
    assert events() == [("LogDirectoryFailed", message, True)]
    condition = shown(world)["BrokerFailed"]
    assert (condition["status"], condition["reason"]) == ("True", "LogDirectoryFailed")
    assert f"default-1 at {AT}" in condition["message"]
    assert events() == []

    later = "2026-01-02T04:00:00Z"
    bug = ended(ExitCode.INVARIANT_VIOLATED, at=later)
    world.put(pod("default-2", containerStatuses=[bug]))
    ((reason, message, _),) = events()
    assert (reason, message) == (
        "InvariantViolated",
        f"default-2 at {later} (InvariantViolated): fsync: EIO",
    )
    assert shown(world)["BrokerFailed"]["reason"] == "InvariantViolated"

    world.put(pod("default-1"))
    world.put(pod("default-2"))
    assert events() == []
    assert "BrokerFailed" not in shown(world)

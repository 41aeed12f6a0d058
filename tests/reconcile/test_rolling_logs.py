"""A broker that reads its logs after an unclean end is not restarted: it would begin anew."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_operator import kinds

from .samples import World
from .test_conditions import led
from .test_rolling import NEW, OLD, PULL, old_cluster, register, run, said, taken

EARLIER, OF_POD, OF_ANOTHER = "uid-earlier", "uid-default-1", "uid-another"
WAITS, GOES = "True WaitingForLogs", ["default-1"]


def reading(world: World, number: int, uid: str) -> None:
    """Let a process of the pod with that uid say that it reads its logs."""
    found = world.get(kinds.BROKER, f"default-{number}")
    status = {**found["status"], "readingLogs": f"{uid}/next"}
    world.put({**found, "status": status})


@pytest.mark.parametrize("registered_from", [EARLIER, OF_POD])
@pytest.mark.parametrize(
    "partition",
    [
        pytest.param(led(0, isr=[0, 2]), id="it is missed"),
        pytest.param(led(0, isr=[0, 1, 2]), id="nobody misses it"),
    ],
)
def test_a_broker_that_reads_its_logs_is_waited_for_and_named(
    registered_from: str, partition: dict[str, Any]
) -> None:
    """A pod that it never registered from counts as stuck without this, as one that is unready."""
    world = old_cluster(partition)
    run(world, 1, OLD, ready=False)
    register(world, 1, uid=registered_from)
    reading(world, 1, OF_POD)
    assert said(world) == (
        WAITS,
        ("brokers [1] read their logs, which no orderly stop proves; until then default-1 stays"),
    )


@pytest.mark.parametrize(
    ("says", "pod_status"),
    [
        pytest.param("", {}, id="it says nothing, as an earlier version"),
        pytest.param(OF_ANOTHER, {}, id="a process of an earlier pod said it"),
        pytest.param(OF_POD, PULL, id="its container cannot run"),
    ],
)
def test_an_unready_pod_without_a_reading_process_goes_at_once(
    says: str, pod_status: dict[str, Any]
) -> None:
    world = old_cluster(led(0, isr=[0, 2]))
    run(world, 1, OLD, ready=False, **pod_status)
    register(world, 1, uid=EARLIER)
    if says:
        reading(world, 1, says)
    assert taken(world) == GOES


def test_all_others_wait_for_a_new_pod_that_reads() -> None:
    world = old_cluster()
    run(world, 0, NEW, ready=False)
    reading(world, 0, "uid-default-0")
    found, message = said(world)
    assert found == WAITS
    assert "until then default-1 stays" in message or "until then default-2 stays" in message


def test_a_stuck_pod_goes_although_another_broker_reads() -> None:
    """It serves nobody, so the reading broker loses nothing by it."""
    world = old_cluster(led(0, isr=[0]))
    run(world, 1, OLD, ready=False)
    reading(world, 1, OF_POD)
    run(world, 2, OLD, ready=False, **PULL)
    assert taken(world) == ["default-2"]


def test_the_roll_goes_on_when_the_broker_has_registered() -> None:
    world = old_cluster()
    run(world, 1, OLD, ready=False)
    reading(world, 1, OF_POD)
    assert said(world)[0] == WAITS
    register(world, 1)
    run(world, 1, OLD)
    assert taken(world) == GOES

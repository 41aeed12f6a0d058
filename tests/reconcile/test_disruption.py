"""Which brokers may go, and what that makes of the disruption budget."""

from __future__ import annotations

import pytest

from strandline_operator import kinds
from strandline_operator.disruption import not_in_sync
from strandline_operator.reading import read_partition

from .samples import Manifest
from .test_conditions import conditions_after, led, planned, running, shown


def rows(*partitions: Manifest) -> dict[int, tuple[bool, str]]:
    """Return whether each broker may restart, and why, as the cluster's status has it."""
    world = running(*partitions)
    world.perform(planned(world))
    status = world.get(kinds.CLUSTER, "default")["status"]
    return {row["id"]: (row["safeToRestart"], row["because"]) for row in status["brokers"]}


def budget(*partitions: Manifest) -> int:
    world = running(*partitions)
    spec = world.get(kinds.POD_DISRUPTION_BUDGET, "default-brokers")["spec"]
    return int(spec["maxUnavailable"])


def test_with_every_replica_in_sync_each_broker_may_restart() -> None:
    found = rows(led(0, isr=[0, 1, 2]), led(1, isr=[0, 1, 2]))
    because = "the others keep all 2 partitions of it at min ISR"
    assert found == dict.fromkeys(range(3), (True, because))
    assert budget(led(0, isr=[0, 1, 2])) == 1


def test_a_broker_that_is_behind_and_those_that_stand_in_for_it_may_not_restart() -> None:
    found = rows(led(0, isr=[0, 1, 2]), led(1, isr=[0, 1]))
    needed = "without it fewer than min.insync.replicas would be in sync: orders-1"
    assert found == {
        0: (False, needed),
        1: (False, needed),
        2: (False, "it is not in sync yet: orders-1"),
    }


def test_a_broker_without_replicas_may_restart() -> None:
    assert rows()[1] == (True, "it has no replica of a partition")


def test_a_partition_without_a_spare_replica_is_told_and_does_not_close_the_budget() -> None:
    tight = led(0, isr=[0, 1, 2], least=3)
    assert rows(tight)[0][0] is False
    assert budget(tight) == 1


@pytest.mark.parametrize(
    ("isr", "least", "allowed"),
    [
        ([0, 1, 2], 2, 1),
        ([0, 1], 2, 0),
        ([0], 2, 0),
        ([0, 1], 1, 1),
        ([0], 1, 0),
    ],
)
def test_the_budget_is_closed_while_one_more_loss_would_break_a_min_isr(
    isr: list[int], least: int, allowed: int
) -> None:
    assert budget(led(0, isr=[0, 1, 2]), led(1, isr=isr, least=least)) == allowed


def test_the_budget_opens_again_by_the_same_rule() -> None:
    world = running(led(0, isr=[0, 1, 2]))
    for isr, most, status in (([0, 1], 0, "False"), ([0, 1, 2], 1, "True")):
        world.put(led(0, isr=isr))
        found = conditions_after(world, planned(world))
        spec = world.get(kinds.POD_DISRUPTION_BUDGET, "default-brokers")["spec"]
        assert (spec["maxUnavailable"], found["DisruptionAllowed"]["status"]) == (most, status)
        assert planned(world) == []
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_a_closed_budget_names_the_partitions_and_costs_no_readiness() -> None:
    world = running(led(0, isr=[0, 1, 2]), led(1, isr=[1, 2], leader=1))
    found = conditions_after(world, planned(world))
    assert shown(found)["DisruptionAllowed"] == "False WouldBreakMinIsr"
    assert found["DisruptionAllowed"]["message"].endswith(": orders-1")
    assert shown(found)["Ready"] == "True AllBrokersReady"


def test_a_replica_that_is_being_added_is_not_missed() -> None:
    moving, behind = led(0, isr=[0, 1], adding=(2,)), led(1, isr=[0, 1])
    assert budget(led(0, isr=[0, 1], least=1, adding=(2,))) == 1
    assert not not_in_sync([read_partition(moving).stored])
    assert not_in_sync([read_partition(behind).stored]).startswith("orders-1 (ISR [0, 1] of")


def test_a_partition_that_had_no_spare_replica_before_its_move_does_not_close_the_budget() -> None:
    assert budget(led(0, isr=[0, 1], adding=(2,))) == 1
    assert budget(led(0, isr=[0, 1])) == 0

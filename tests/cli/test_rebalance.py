"""What `strandline rebalance` decides on objects, and says of it."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_cli import rebalance
from strandline_cli.assignments import BEFORE_NOTE, ClusterFound

from .test_assignments import broker, cluster, one, partition

FIRST_THREE = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1)]
"""Replicas of partitions on three brokers: a fourth one has none."""


def uneven(brokers: int | list[dict[str, Any]] = 4, **status: Any) -> ClusterFound:
    partitions = [partition(number, each, **status) for number, each in enumerate(FIRST_THREE)]
    return cluster(*partitions, brokers=brokers)


def followed(found: ClusterFound, plan: rebalance.RebalancePlan) -> ClusterFound:
    """Return a cluster whose partitions are where a plan wants them."""
    after = zip(found.partitions.values(), plan.after, strict=True)
    there = list(found.brokers.values())
    numbers = [(each.found["spec"]["partition"], replicas) for each, replicas in after]
    return cluster(*(partition(*each) for each in numbers), brokers=there)


def test_a_new_broker_gets_its_share_and_the_second_plan_is_empty() -> None:
    found = uneven()
    plan = rebalance.planned(found, 4)
    rows = rebalance.broker_rows(plan)
    assert [row[:4] for row in rows] == [
        ("0", "4", "3", "2"),
        ("1", "4", "3", "1"),
        ("2", "4", "3", "1"),
        ("3", "0", "3", "0"),
    ]
    assert [row[4] for row in rows] == ["1"] * 4
    assert [row[5] for row in rows] == ["-"] * 4
    moves = [rebalance.move_row(found.partitions[label], it) for label, it in plan.wanted.items()]
    assert sorted(row[-1] for row in moves) == ["0 to 3", "1 to 3", "2 to 3"]
    again = rebalance.planned(followed(found, plan), 4)
    assert again.wanted == {}
    said = "the brokers that may take replicas are even: nothing is left to move"
    assert rebalance.verdict(again) == said


def test_what_is_written_is_the_object_as_read_with_a_note_of_the_former_order() -> None:
    plan = rebalance.planned(uneven(), 4)
    for written in plan.objects:
        former = FIRST_THREE[written["spec"]["partition"]]
        assert written["metadata"]["resourceVersion"] == "7"
        assert written["metadata"]["annotations"] == {BEFORE_NOTE: ",".join(map(str, former))}


def test_preferred_leaders_even_out_by_another_order_alone() -> None:
    found = cluster(*(partition(number) for number in range(3)), brokers=3)
    plan = rebalance.planned(found, 3)
    assert sorted(each[0] for each in plan.after) == [0, 1, 2]
    rows = [rebalance.move_row(found.partitions[label], it) for label, it in plan.wanted.items()]
    assert [row[-1] for row in rows] == ["another order"] * 2


@pytest.mark.parametrize(
    ("fourth", "size", "why"),
    [
        ({"volumeFull": True}, 4, "the volume of broker 3 is full"),
        ({"never": True}, 4, "broker 3 never registered"),
        ({}, 3, "broker 3 goes: spec.replicas is 3"),
    ],
)
def test_a_broker_that_may_not_take_anything_says_why(
    fourth: dict[str, Any], size: int, why: str
) -> None:
    found = uneven([*(broker(number) for number in range(3)), broker(3, **fourth)])
    plan = rebalance.planned(found, size)
    assert rebalance.broker_rows(plan)[3] == ("3", "0", "0", "0", "0", why)
    assert plan.wanted == {}
    assert "are even" in rebalance.verdict(plan)


def test_a_broker_that_is_drained_now_gets_nothing_back() -> None:
    leaving = partition(4, (0, 1, 2), replicas=[0, 1, 2, 3], removingReplicas=[3])
    found = cluster(*(partition(*each) for each in enumerate(FIRST_THREE)), leaving)
    plan = rebalance.planned(found, 4)
    assert plan.unfit == {3: "broker 3 is being emptied"}
    assert not any(3 in replicas for replicas in plan.after)


def test_partitions_that_move_or_have_no_leader_stay_and_are_told() -> None:
    states: list[dict[str, Any]] = [{"replicas": [9, 9]}, {"leader": -1}, {"replicas": []}]
    for status in states:
        plan = rebalance.planned(uneven(**status), 4)
        assert plan.wanted == {}
        assert rebalance.verdict(plan).startswith("brokers have between 0 and 4 replicas: nothing")


def test_racks_stay_apart_and_the_rest_is_told() -> None:
    brokers = [broker(number, rack=rack) for number, rack in enumerate("abca")]
    partitions = [partition(number, (0, 1, 2)) for number in range(6)]
    plan = rebalance.planned(cluster(*partitions, brokers=brokers), 4)
    assert [row[2] for row in rebalance.broker_rows(plan)] == ["3", "6", "6", "3"]
    assert all({1, 2} <= set(replicas) for replicas in plan.after)
    assert "between 3 and 6 replicas: nothing more can move without fewer" in rebalance.verdict(
        plan
    )


def test_what_is_left_are_the_partitions_that_were_told_and_have_not_moved() -> None:
    moving = partition(0, (3, 1, 2), replicas=[3, 1, 2, 0], isr=[1, 2, 0], addingReplicas=[3])
    found = cluster(moving, partition(1, (0, 1, 2)))
    plan = rebalance.RebalancePlan(found=found, unfit={}, wanted={})
    told = {"orders/0", "orders/1", "gone/0"}
    assert rebalance.left(found, told, plan) == ["orders/0: 3 copy"]
    told_now = rebalance.RebalancePlan(found=found, unfit={}, wanted={"orders/1": (1, 0, 2)})
    assert len(rebalance.left(found, told, told_now)) == 2
    assert rebalance.may_move(one(partition()))

"""A budget grants in the order of asking, never past a share that waits."""

from __future__ import annotations

from functools import partial

from strandline.kafka_listener.budget import Budget, Share


def shares(budget: Budget, count: int) -> tuple[list[Share], list[int]]:
    """Return shares of a budget, and the list to which each adds its number when it is woken."""
    woken: list[int] = []
    return [Share(budget, partial(woken.append, number)) for number in range(count)], woken


def test_a_small_share_does_not_overtake_a_large_one_that_waits() -> None:
    budget = Budget(most=10)
    (first, large, small), woken = shares(budget, 3)
    assert first.hold(6)
    assert not large.hold(8)
    assert not small.hold(1), "else small ones could keep the large one out for ever"
    first.give_back()
    assert woken == [1, 2]
    assert large.hold(8)
    assert small.hold(1)
    assert budget.used == 9


def test_a_share_holds_once_however_often_it_asks() -> None:
    budget = Budget(most=10)
    (one,), _ = shares(budget, 1)
    assert one.hold(6)
    assert one.hold(6)
    assert budget.used == 6
    one.give_back()
    one.give_back()
    assert budget.used == 0


def test_an_amount_above_the_bound_is_granted_when_nothing_is_used() -> None:
    budget = Budget(most=10)
    (one, two), woken = shares(budget, 2)
    assert one.hold(1)
    assert not two.hold(11)
    one.give_back()
    assert (woken, budget.used) == ([1], 11)


def test_a_share_that_gives_up_lets_those_behind_it_go_on() -> None:
    budget = Budget(most=10)
    (first, large, small), woken = shares(budget, 3)
    first.hold(6)
    large.hold(8)
    small.hold(1)
    large.give_back()
    assert (woken, budget.used, budget.waiting_count) == ([2], 7, 0)


def test_what_is_taken_without_asking_keeps_others_waiting() -> None:
    budget = Budget(most=10)
    (one,), woken = shares(budget, 1)
    budget.take(12)
    assert not one.hold(1)
    budget.release(2)
    assert woken == []
    budget.release(1)
    assert woken == [0]

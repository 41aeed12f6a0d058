"""`eventually` returns the condition's result, or names the last one in its failure."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.eventually import NotWithinDeadline, aeventually, eventually


def test_the_first_truthy_result_is_returned() -> None:
    results = iter([None, "", "ready", "later"])
    assert eventually(lambda: next(results), within_ms=5_000, what="readiness") == "ready"
    assert next(results) == "later"


def test_a_condition_is_tried_at_least_once() -> None:
    assert eventually(lambda: 1, within_ms=0, what="at once") == 1


def test_the_failure_names_the_last_result() -> None:
    with pytest.raises(NotWithinDeadline, match=r"three replicas: not within 1 ms.*\[\]"):
        eventually(list, within_ms=1, what="three replicas")


def test_a_failed_assertion_counts_as_not_yet_and_is_named_at_the_end() -> None:
    def condition() -> bool:
        raise AssertionError("leader is -1")

    with pytest.raises(NotWithinDeadline, match="leader is -1"):
        eventually(condition, within_ms=1, what="a leader")


def test_any_other_error_ends_the_wait() -> None:
    def condition() -> bool:
        raise KeyError("leader")

    with pytest.raises(KeyError):
        eventually(condition, within_ms=60_000, what="a leader")
    with pytest.raises(NotWithinDeadline, match="KeyError"):
        eventually(condition, within_ms=1, what="a leader", retry_on=(KeyError,))


def test_coroutines_and_plain_functions_are_awaited_alike() -> None:
    results = iter([0, 0, 7])

    async def condition() -> int:
        return next(results)

    async def both() -> tuple[int, str]:
        waited = await aeventually(condition, within_ms=5_000, what="seven")
        return waited, await aeventually(lambda: "plain", within_ms=5_000, what="plain")

    assert asyncio.run(both()) == (7, "plain")


def test_a_coroutine_that_never_returns_is_cancelled_at_the_deadline() -> None:
    cancelled = []

    async def condition() -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return True

    with pytest.raises(NotWithinDeadline, match="a result: not within 10 ms"):
        asyncio.run(aeventually(condition, within_ms=10, what="a result"))
    assert cancelled == [True]

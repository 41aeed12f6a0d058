"""A driver never nests steps, and reports each failure of a step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from strandline.errors import InvariantViolation, LogDirectoryFailed, StorageError
from strandline.runtime.event_loop.driver import Driver

Event = str
Effect = str
NOW_MS = 1_000


class Echo:
    """A machine that returns effects by a table, and keeps the events."""

    def __init__(self, effects_of: dict[Event, list[Effect]]) -> None:
        self.effects_of = effects_of
        self.events: list[Event] = []
        self.ticked = asyncio.Event()
        self.wakeup_ms: int | None = None

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        assert now_ms == NOW_MS
        self.events.append(event)
        if event == "tick":
            self.ticked.set()
        return self.effects_of.get(event, [])

    @property
    def next_wakeup_ms(self) -> int | None:
        return self.wakeup_ms


class Driven:
    """A driver of an Echo; `perform` raises the error that `failing` has for an effect."""

    def __init__(self, effects_of: dict[Event, list[Effect]]) -> None:
        self.machine = Echo(effects_of)
        self.performed: list[Effect] = []
        self.failing: dict[Effect, Exception] = {}
        self.reentering: dict[Effect, Event] = {}
        self.broken: list[InvariantViolation] = []
        self.driver: Driver[Event, Effect] = Driver(
            self.machine,
            perform=self.perform,
            tick="tick",
            now_ms=lambda: NOW_MS,
            on_storage_error=self.storage_error,
            on_broken_promise=self.broken.append,
        )

    def perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if effect in self.failing:
                raise self.failing[effect]
            self.performed.append(effect)
            if effect in self.reentering:
                self.driver.submit(self.reentering[effect])

    def storage_error(self, error: StorageError) -> Event:
        return f"lost {error}"


def driven(effects_of: dict[Event, list[Effect]], scenario: Callable[[Driven], None]) -> Driven:
    async def run() -> Driven:
        one = Driven(effects_of)
        scenario(one)
        one.driver.stop()
        return one

    return asyncio.run(run())


def test_an_event_that_comes_while_effects_are_performed_waits_its_turn() -> None:
    def scenario(one: Driven) -> None:
        one.reentering = {"a1": "b"}
        one.driver.submit("a")

    one = driven({"a": ["a1", "a2"], "b": ["b1"]}, scenario)
    assert one.performed == ["a1", "a2", "b1"]


def test_a_disk_failure_drops_the_rest_of_the_step_and_becomes_an_event() -> None:
    def scenario(one: Driven) -> None:
        one.failing = {"write": LogDirectoryFailed("disk")}
        one.driver.submit("a")

    one = driven({"a": ["write", "ack"], "lost disk": ["refuse"]}, scenario)
    assert one.machine.events == ["a", "lost disk"]
    assert one.performed == ["refuse"]
    assert one.broken == []


def test_any_other_failure_is_an_invariant_violation_and_ends_the_driver() -> None:
    def scenario(one: Driven) -> None:
        one.failing = {"a1": KeyError("a bug")}
        one.driver.submit("a")
        one.driver.submit("b")

    one = driven({"a": ["a1", "ack"], "b": ["b1"]}, scenario)
    assert one.machine.events == ["a"]
    assert one.performed == []
    (violation,) = one.broken
    assert "a bug" in str(violation)


def test_a_wakeup_is_a_tick() -> None:
    async def run() -> list[Event]:
        one = Driven({})
        one.machine.wakeup_ms = NOW_MS
        one.driver.submit("a")
        one.machine.wakeup_ms = None
        async with asyncio.timeout(5):
            await one.machine.ticked.wait()
        one.driver.stop()
        return one.machine.events

    assert asyncio.run(run()) == ["a", "tick"]


def test_a_timer_that_comes_too_early_stays_and_one_that_comes_too_late_is_replaced() -> None:
    async def run() -> list[float]:
        one, delays = Driven({}), list[float]()
        loop = asyncio.get_running_loop()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "call_later", partial(_noted, loop.call_later, delays))
            for wakeup_ms in (NOW_MS + 500_000, NOW_MS + 900_000, NOW_MS + 100_000, None):
                one.machine.wakeup_ms = wakeup_ms
                one.driver.submit("a")
        one.driver.stop()
        return delays

    assert asyncio.run(run()) == [500, 100]


def _noted(
    call_later: Callable[..., asyncio.TimerHandle],
    delays: list[float],
    delay: float,
    callback: Callable[[], None],
) -> asyncio.TimerHandle:
    delays.append(delay)
    return call_later(delay, callback)

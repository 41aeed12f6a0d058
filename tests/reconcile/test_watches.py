"""When a watch counts as open, down, too old or stuck."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import ClientSession

from strandline_operator import kinds, operator_config
from strandline_operator.probes import Health, serve
from strandline_operator.registry import make_kopf_settings
from strandline_operator.watches import Watches, monotonic_ms
from tests.support.ports import free_port

TOPICS = kinds.TOPIC.resource.path("here")
CLUSTERS = kinds.CLUSTER.resource.path("here")
DOWN = operator_config.WATCH_DOWN_MAX_MS
OLD = operator_config.WATCH_AGE_MAX_MS
STUCK = operator_config.WATCH_STUCK_MS


@pytest.fixture
def watches() -> Watches:
    made = Watches([TOPICS, CLUSTERS], now_ms=0, on_listed_again=lambda: None)
    for path in (TOPICS, CLUSTERS):
        made.on_asked(path, 0)
        made.on_opened(path, 0)
    return made


def test_no_watch_is_open_at_first() -> None:
    made = Watches([TOPICS], now_ms=0, on_listed_again=lambda: None)
    assert made.not_open(0) == [f"watch {TOPICS}: not open yet"]
    made.on_asked(TOPICS, 1)
    assert made.not_open(2)
    made.on_opened(TOPICS, 3)
    assert made.not_open(4) == []


def test_a_watch_is_down_when_it_is_asked_for_in_vain_for_too_long(watches: Watches) -> None:
    watches.on_asked(TOPICS, 1_000)
    watches.on_asked(TOPICS, DOWN)
    assert watches.not_open(1_000 + DOWN) == []
    assert watches.not_open(1_001 + DOWN) == [
        f"watch {TOPICS}: down for {DOWN + 1} ms, limit {DOWN} ms"
    ]
    watches.on_opened(TOPICS, 2_000 + DOWN)
    assert watches.not_open(2_001 + DOWN) == []


def test_a_watch_that_never_ends_is_too_old(watches: Watches) -> None:
    watches.on_asked(CLUSTERS, OLD)
    watches.on_opened(CLUSTERS, OLD)
    assert watches.not_open(OLD) == []
    assert watches.not_open(OLD + 1) == [
        f"watch {TOPICS}: not opened again in {OLD + 1} ms, limit {OLD} ms"
    ]


def test_a_watch_that_is_not_asked_for_any_more_is_stuck(watches: Watches) -> None:
    watches.on_asked(CLUSTERS, STUCK)
    assert watches.stuck(STUCK) == []
    assert watches.stuck(STUCK + 1) == [
        f"watch {TOPICS}: not asked for in {STUCK + 1} ms, limit {STUCK} ms"
    ]


def test_a_watch_that_is_asked_for_in_vain_is_not_stuck(watches: Watches) -> None:
    for now_ms in range(0, 3 * STUCK, STUCK // 2):
        watches.on_asked(TOPICS, now_ms)
        watches.on_asked(CLUSTERS, now_ms)
        assert watches.stuck(now_ms + 1) == []
    assert len(watches.not_open(3 * STUCK)) == 2


def test_requests_for_other_things_are_ignored(watches: Watches) -> None:
    watches.on_asked("/api/v1/namespaces/there/pods", 0)
    watches.on_opened("/api/v1/namespaces/there/pods", 0)
    assert len(watches.not_open(OLD + 1)) == 2


def test_the_start_is_alive_and_not_ready_and_says_what_it_waits_for() -> None:
    health = Health()
    health.waits_for("definitions")
    assert health.not_ready() == ["waiting for definitions"]
    assert health.not_alive() == []


def test_every_bound_leaves_room_for_the_one_before() -> None:
    watching = make_kopf_settings().watching
    assert watching.server_timeout is not None
    assert watching.client_timeout is not None
    assert watching.server_timeout < watching.inactivity_timeout < watching.client_timeout
    assert watching.client_timeout * 1000 < OLD < STUCK


def test_a_second_list_of_a_kind_is_told_and_the_first_is_not() -> None:
    told: list[str] = []
    made = Watches([TOPICS, CLUSTERS], now_ms=0, on_listed_again=lambda: told.append("again"))
    made.on_listed(TOPICS)
    made.on_listed(CLUSTERS)
    made.on_listed("/api/v1/namespaces")
    made.on_listed("/api/v1/namespaces")
    assert told == []
    made.on_listed(TOPICS)
    assert told == ["again"]


def test_the_probe_of_life_names_a_watch_that_is_not_asked_for_any_more() -> None:
    """The answer itself, over HTTP: what makes a kubelet start another process."""
    port = free_port()

    async def answers() -> list[tuple[int, str]]:
        health, found = Health(), list[tuple[int, str]]()
        async with serve(health, port), ClientSession() as session:
            for since_ms in (0, STUCK + 1_000):
                asked_ms = monotonic_ms() - since_ms
                made = Watches([TOPICS], now_ms=asked_ms, on_listed_again=lambda: None)
                made.on_asked(TOPICS, asked_ms)
                health.started(made)
                async with session.get(f"http://127.0.0.1:{port}/live") as response:
                    found.append((response.status, await response.text()))
        return found

    alive, stuck = asyncio.run(answers())
    assert alive == (200, "ok")
    assert stuck[0] == 503
    assert stuck[1].startswith(f"watch {TOPICS}: not asked for in ")

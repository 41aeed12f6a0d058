"""Pauses double up to a bound; a wait is logged at once and then at intervals."""

from __future__ import annotations

import asyncio

import pytest

from strandline.config.kubernetes import KubernetesConfig
from strandline.kube import waiting
from strandline.kube.waiting import Pauses, WaitingReport


class SetTime:
    """The module `time` as a test sets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr(waiting, "time", self)

    def monotonic(self) -> float:
        return self.seconds


def test_pauses_double_up_to_a_bound_until_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def scenario() -> None:
        pauses = Pauses(KubernetesConfig(backoff_ms=50, backoff_max_ms=150))
        for _ in range(4):
            await pauses.pause()
        pauses.reset()
        await pauses.pause()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(scenario())
    assert slept == [0.05, 0.1, 0.15, 0.15, 0.05]


def test_waiting_is_logged_at_once_and_then_at_intervals(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SetTime(monkeypatch)
    report = WaitingReport(KubernetesConfig(waiting_report_interval_ms=100_000))
    counts = []
    for clock.seconds in (0, 99, 100, 150, 260):
        report.waiting_for("an object", "it does not exist")
        counts.append(len(caplog.messages))
    assert counts == [1, 1, 2, 2, 3]
    report.reset()
    report.waiting_for("an object", "it does not exist")
    assert len(caplog.messages) == 4

"""The end can be asked for at any step of a wait, as a signal does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from strandline_cli.end_asked import EndAsked

INTERRUPTED_WAITS = """
import os, random, signal
from strandline_cli.end_asked import EndAsked

for number in (signal.SIGINT, signal.SIGTERM) * 500:
    asked = EndAsked.by_signals()
    # The timer's signal comes at any step of a short wait.
    signal.signal(signal.SIGALRM, lambda *_, number=number: signal.raise_signal(number))
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00001, 0.001))
    while not asked.wait(0.00001):
        pass
    assert asked.is_asked() and asked.wait(0)
print("ended")
"""


def test_no_wait_is_stuck_wherever_a_signal_interrupts_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WAITS],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


@pytest.mark.parametrize("times", [0, 1, 2])
def test_what_was_asked_stays_asked(times: int) -> None:
    asked = EndAsked()
    for _ in range(times):
        asked.ask()
    for _ in range(3):
        assert asked.is_asked() is asked.wait(0) is (times > 0)

"""A wait that a person ends with Ctrl-C, or a supervisor with SIGTERM.

A signal handler runs between two steps of the main thread, also while that holds the lock of what
it waits for: a handler that sets an Event of `threading` may wait for that lock for ever, and a
queue whose wait is interrupted near its end waits without one. So there is no lock here.
"""

from __future__ import annotations

import signal
import time

LOOK_SECONDS = 0.05
"""How long a wait goes on at most after the end was asked for."""


class EndAsked:
    """Whether the end was asked for; once it was, it stays so."""

    def __init__(self) -> None:
        self._is_asked = False

    @classmethod
    def by_signals(cls) -> EndAsked:
        """Ask for the end at SIGINT and SIGTERM, also where a shell ignores SIGINT for a job."""
        asked = cls()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: asked.ask())
        return asked

    def ask(self) -> None:
        """Ask for the end; safe in a signal handler and in any thread."""
        self._is_asked = True

    def is_asked(self) -> bool:
        """Tell whether the end was asked for."""
        return self._is_asked

    def wait(self, seconds: float) -> bool:
        """Wait until the end is asked for, so many seconds at most; tell whether it was."""
        deadline = time.monotonic() + seconds
        while not self._is_asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_SECONDS))
        return self._is_asked

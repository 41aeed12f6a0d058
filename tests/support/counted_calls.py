"""Counts the calls of Python and C functions: work that no clock has to measure."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

TraceFunction = Callable[[FrameType, str, Any], Any]

_NOT_COUNTED = re.compile(r"/(asyncio|tests)/|/(contextlib|selectors)\.py$")


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions a piece of work calls; a generator's every step is a call."""
    count = 0

    def count_calls(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    with _without_collections():
        sys.setprofile(count_calls)
        try:
            work()
        finally:
            sys.setprofile(None)
    return count


class CallCount:
    """Counts calls over several stretches, without those of tests and of asyncio's own code.

    What asyncio calls for a turn of its loop depends on the loop and on what else it waits for.
    """

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count until the block ends; the event loop may turn meanwhile."""
        with _without_collections():
            sys.setprofile(self._note)
            try:
                yield
            finally:
                sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event in {"call", "c_call"} and not _NOT_COUNTED.search(frame.f_code.co_filename):
            self.count += 1


def lines_of(work: Callable[[], object]) -> int:
    """Return how many lines of Python a piece of work runs; a comprehension's every round is one.

    It sees loops that call nothing.
    """
    count = 0

    def count_lines(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return count_lines

    before = sys.gettrace()
    with _without_collections():
        sys.settrace(count_lines)
        try:
            work()
        finally:
            sys.settrace(before)
    return count


@contextmanager
def _without_collections() -> Iterator[None]:
    """Hold garbage collections back: Hypothesis calls a function of its own at each of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

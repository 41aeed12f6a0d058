"""Counts the calls of Python and C functions: work that no clock has to measure."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

TraceFunction = Callable[[FrameType, str, Any], Any]


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

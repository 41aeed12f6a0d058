"""Counts the calls of Python and C functions: work that no clock has to measure."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


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

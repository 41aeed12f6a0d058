"""Reference of analysis 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.analysis.reference.holding import History, Range
from tests.analysis.reference.leader_states import State, leader_states

MEMBER = "strandline_partition_isr_member"


def isr_intervals(history: History, of: Range) -> Iterator[dict[str, Any]]:
    """Yield when each replica was in the ISR, out of it, or in an unknown state."""
    for (_, (topic, partition, replica)), states in leader_states(history, (MEMBER,), of).items():
        for state in states:
            yield {
                "topic": topic,
                "partition": partition,
                "replica": replica,
                "in_isr": None if state.value is None else state.value > 0,
                "leader_epoch": state.epoch,
                **edges(state),
            }


def edges(state: State) -> dict[str, Any]:
    """Return the columns that tell the edges of an interval."""
    length = state.end_ms - state.start_ms
    names = ("start_ms", "end_ms", "start_err_ms", "end_err_ms", "start_reason", "end_reason")
    return {
        **{name: getattr(state, name) for name in names},
        "duration_low_ms": max(length - state.end_err_ms, 0),
        "duration_high_ms": length + state.start_err_ms,
    }

"""The page of `strandline watch`: a table of partitions, the time line, the summary at the end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from . import tables
from .cluster_view import TimelineEvent
from .tables import Row
from .watch_state import PartitionWatched, ReplicaSeen, WatchState

ROWS_MAX = 200
"""Partitions in a table of plain lines; a terminal shows those that fit."""
EVENTS_SHOWN = 12
AROUND_TABLE_LINES = 9
"""Lines of a terminal that the frame of the table and the notes take."""
ROWS_MIN = 3
LEFT: Row = ("PARTITION", "ISR")


def columns(state: WatchState) -> list[str]:
    """Return the heads of the table: every broker has a column for its HW and LEO."""
    brokers = [f"{broker} HW/LEO" for broker in state.brokers]
    return ["PARTITION", "LEADER", "EPOCH", "ISR", *brokers, "LONGEST GAP"]


def chosen(state: WatchState, rows_max: int) -> list[PartitionWatched]:
    """Return the partitions to show, by topic and number: first those that are not well."""
    ordered = sorted(state.partitions.values(), key=lambda each: (each.topic, each.seen.number))
    if len(ordered) > rows_max:
        ordered = sorted(ordered, key=lambda each: _is_well(state, each))[:rows_max]
    return ordered


def row(state: WatchState, each: PartitionWatched, now: float) -> Row:
    """Return the cells of a partition."""
    seen, gap = each.seen, each.gap_at(now)
    replicas = [_replica(state, each, broker) for broker in state.brokers]
    return (
        each.name,
        "none" if seen.leader < 0 else str(seen.leader),
        str(seen.leader_epoch) if seen.leader_epoch >= 0 else "-",
        ",".join(str(broker) for broker in seen.isr) or "-",
        *replicas,
        f"{gap:.1f} s" if each.gaps else "-",
    )


def notes(state: WatchState, now: float) -> list[str]:
    """Return sentences on what the table does not show."""
    said = [f"controller: {'none' if state.controller < 0 else f'broker {state.controller}'}"]
    if state.api_away_since is not None:
        away = now - state.api_away_since
        said.append(f"the API server does not respond for {away:.1f} s: this is how it was")
    silent = sorted(broker for broker in state.silent if broker in state.brokers)
    said += [f"broker {broker} does not respond: {state.silent[broker]}" for broker in silent]
    if state.left_out:
        said.append(f"{len(state.left_out)} more partitions are not followed")
    return said


def event_line(event: TimelineEvent) -> str:
    """Return an event with its time."""
    return f"{event.at_seconds:7.1f}s  {event.text}"


def drawing(state: WatchState, now: float, height: int) -> Group:
    """Return the page for a terminal with so many lines."""
    noted = notes(state, now)
    events = [event_line(each) for each in list(state.events)[-EVENTS_SHOWN:]]
    room = max(ROWS_MIN, height - AROUND_TABLE_LINES - EVENTS_SHOWN - len(noted))
    shown = chosen(state, room)
    left = len(state.partitions) - len(shown)
    if left:
        noted.append(f"{left} more partitions, which are no worse, have no room here")
    table = tables.drawn(
        columns(state),
        [row(state, each, now) for each in shown],
        left=LEFT,
        styles=[_style(state, each) for each in shown],
    )
    return Group(table, Text("\n".join([*noted, "", *events])))


def lines(state: WatchState, now: float) -> list[str]:
    """Return the table and its notes as lines."""
    shown = chosen(state, ROWS_MAX)
    head = columns(state)
    rows: Sequence[Row] = [head, *(row(state, each, now) for each in shown)]
    found = tables.plain(rows, left={head.index(name) for name in LEFT})
    if left := len(state.partitions) - len(shown):
        found.append(f"and {left} more partitions, which are no worse")
    return [*found, *notes(state, now)]


def summary(state: WatchState, now: float) -> list[str]:
    """Return the sentences at the end of a watch."""
    watched = list(state.partitions.values())
    elections = sum(each.elections for each in watched)
    changes = sum(each.isr_changes for each in watched)
    said = [
        (
            f"watched {len(watched)} partitions for {now:.1f} s: "
            f"{elections} elections, {changes} ISR changes, {state.events_total} events"
        )
    ]
    away = state.api_away_seconds
    away += 0.0 if state.api_away_since is None else now - state.api_away_since
    if state.api_outages:
        times = "once" if state.api_outages == 1 else f"{state.api_outages} times"
        said.append(f"the API server was away {times}, {away:.1f} s in all: no gap was timed then")
    gaps = sorted((each for each in watched if each.gaps), key=lambda each: -each.gap_at(now))
    for each in gaps[:ROWS_MAX]:
        goes_on = ", which goes on" if each.gap_since is not None else ""
        said.append(f"{each.name}: longest gap {each.gap_at(now):.1f} s of {each.gaps}{goes_on}")
    return said if gaps else [*said, "no partition was seen without a leader that responds"]


def _replica(state: WatchState, each: PartitionWatched, broker: int) -> str:
    if broker not in each.seen.replicas:
        return ""
    if broker in state.silent:
        return "silent"
    seen = state.replicas.get(broker, {}).get((each.topic, each.seen.number), ReplicaSeen())
    shown = ("-" if each < 0 else str(each) for each in (seen.high_watermark, seen.log_end_offset))
    # A replica of an older epoch has not heard of its leader yet: its log may still be cut.
    older = 0 <= seen.leader_epoch < each.seen.leader_epoch
    return "/".join(shown) + (f" epoch {seen.leader_epoch}" if older else "")


def _is_well(state: WatchState, each: PartitionWatched) -> bool:
    return state.is_led(each.seen) and each.seen.has_full_isr


def _style(state: WatchState, each: PartitionWatched) -> str:
    if not state.is_led(each.seen):
        return "red"
    return "" if each.seen.has_full_isr else "yellow"

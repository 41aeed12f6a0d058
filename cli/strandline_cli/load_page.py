"""The page of `strandline load report`: tables, and on a terminal a plot over the whole time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.text import Text

from . import tables
from .running_load import LoadSeen

BLOCKS = " ▁▂▃▄▅▆▇█"
PLOT_LINES = 6
SECONDS_LEAST = 0.2
"""A first column of less time than that would show a rate of chance."""
GAPS_SHOWN = 20
STALE_SECONDS = 15.0
"""A summary is written each second; an older one tells that the load hangs."""
COUNTS = ("SENT", "ACKED", "OUTSTANDING", "FAILED", "UNKNOWN", "SENT AGAIN")
READS = ("READ BACK", "AT THEIR OFFSETS", "NOT THERE", "DELETED BEFORE", "NOT COMPARED")
LATENCIES = {"p50": "50 %", "p90": "90 %", "p99": "99 %", "p999": "99.9 %", "max": "ALL"}
GAPS = ("PARTITION", "LONGEST GAP MS", "FROM (UTC)")


def show_load(seen: LoadSeen, now: datetime) -> None:
    """Print what a load saw."""
    console = Console(highlight=False)
    print(*head(seen, now), "", sep="\n")
    if console.is_terminal:
        console.print(plot(seen.summary))
    summary = seen.summary
    tables.show(COUNTS, [counts(summary)])
    print()
    tables.show(["ACKNOWLEDGED MS", *LATENCIES.values()], [latencies(summary)])
    print()
    tables.show(READS, [reads(summary)], styles=["red" if summary["not_there"] else ""])
    print()
    rows = gaps(summary)
    tables.show(GAPS, rows[:GAPS_SHOWN])
    if len(rows) > GAPS_SHOWN:
        print(f"and {len(rows) - GAPS_SHOWN} more partitions with shorter gaps")
    if said := notes(summary):
        print("", *said, sep="\n")


def head(seen: LoadSeen, now: datetime) -> list[str]:
    """Return what the load is, since when, and whether it still runs."""
    summary = seen.summary
    age = now.timestamp() - summary["wall_ms"] / 1000
    state = "runs"
    if seen.exit_code is not None:
        state = f"ended with exit code {seen.exit_code}"
    elif age > STALE_SECONDS:
        state = f"wrote its last figures {age:.0f} s ago"
    return [
        (
            f"load {seen.name} on cluster {seen.cluster}: topic {summary['topic']}, "
            f"{summary['partitions']} partitions, {summary['rate']:g} records a second each"
        ),
        (
            f"pod {seen.pod}, since {_moment(summary['started_wall_ms'])}, "
            f"{summary['seconds']:g} s: {state}"
        ),
    ]


def counts(summary: dict[str, Any]) -> list[str]:
    """Return the cells of what became of the records."""
    names = ("sent", "acked", "outstanding", "failed", "unknown", "retried")
    return [str(summary[name]) for name in names]


def latencies(summary: dict[str, Any]) -> list[str]:
    """Return the cells of the times within which a share of the records was acknowledged."""
    return ["within", *(f"{summary['latency_ms'][name]:.1f}" for name in LATENCIES)]


def reads(summary: dict[str, Any]) -> list[str]:
    """Return the cells of the records that were read and compared."""
    names = ("read", "checked", "not_there", "deleted", "unchecked")
    return [str(summary[name]) for name in names]


def gaps(summary: dict[str, Any]) -> list[list[str]]:
    """Return a row for each partition, the longest gap first."""
    ordered = sorted(summary["gaps"].items(), key=lambda each: (-each[1]["ms"], int(each[0])))
    return [[name, str(gap["ms"]), _moment(gap["from_ms"])] for name, gap in ordered]


def notes(summary: dict[str, Any]) -> list[str]:
    """Return sentences on what is amiss."""
    said = [f"not there: {each}" for each in summary["examples"]]
    if summary["again"]:
        said.append(f"{summary['again']} records were read again: the log was shorter for a while")
    for what, found in (("not acknowledged", "errors"), ("reading", "read_errors")):
        said += [f"{what}: {name}: {count}" for name, count in sorted(summary[found].items())]
    if unread := sum(summary["unread"].values()):
        said.append(f"{unread} acknowledged records are not read yet")
    return said


def plot(summary: dict[str, Any]) -> Text:
    """Return a column for each part of the time: its acknowledgements a second, red without any."""
    width_ms, acked = summary["timeline"]["width_ms"], summary["timeline"]["acked"]
    last_seconds = summary["seconds"] - (len(acked) - 1) * width_ms / 1000
    if len(acked) > 1 and last_seconds < width_ms / 2000:
        # It has only just begun, and would look like silence.
        acked, last_seconds = acked[:-1], width_ms / 1000
    seconds = [*[width_ms / 1000] * (len(acked) - 1), max(last_seconds, SECONDS_LEAST)]
    rates = [count / passed for count, passed in zip(acked, seconds, strict=True)]
    top = max([*rates, 1.0])
    drawn = Text(f"acknowledged a second, at most {top:.0f}\n", style="bold")
    for line in reversed(range(PLOT_LINES)):
        for count, rate in zip(acked, rates, strict=True):
            eighths = round(rate / top * PLOT_LINES * (len(BLOCKS) - 1)) - line * (len(BLOCKS) - 1)
            is_silent = count == 0 and line == 0
            block = "▁" if is_silent else BLOCKS[min(max(eighths, 0), len(BLOCKS) - 1)]
            drawn.append(block, style="red" if is_silent else "green")
        drawn.append("\n")
    drawn.append(f"a column is {width_ms / 1000:g} s\n", style="dim")
    return drawn


def is_well(summary: dict[str, Any]) -> bool:
    """Tell whether no record failed, and every one that was read lay at its offset."""
    return not (summary["failed"] or summary["not_there"])


def print_lines(lines: Sequence[str]) -> None:
    """Print sentences below the page."""
    print("", *lines, sep="\n")


def _moment(wall_ms: int) -> str:
    found = datetime.fromtimestamp(wall_ms / 1000, tz=UTC)
    return f"{found:%Y-%m-%d %H:%M:%S}.{found.microsecond // 1000:03}"

"""The page of `strandline load report`: tables, and on a terminal a plot over the whole time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from . import tables
from .running_load import LoadSeen
from .tables import Row

BLOCKS = " ▁▂▃▄▅▆▇█"
PLOT_LINES = 6
SECONDS_LEAST = 0.2
"""A first column of less time than that would show a rate of chance."""
GAPS_SHOWN = 20
STALE_SECONDS = 15.0
"""A summary is written each second; an older one tells that the load hangs."""
COUNTS: Row = ("SENT", "ACKED", "OUTSTANDING", "FAILED", "UNKNOWN", "SENT AGAIN")
READS: Row = ("READ BACK", "AT THEIR OFFSETS", "NOT THERE", "DELETED BEFORE", "NOT COMPARED")
LATENCIES = {"p50": "50 %", "p90": "90 %", "p99": "99 %", "p999": "99.9 %", "max": "ALL"}
GAPS: Row = ("PARTITION", "LONGEST GAP MS", "FROM (UTC)")


def show_load(seen: LoadSeen, now: datetime) -> None:
    """Print what a load saw: drawn on a terminal, lines in a pipe."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(drawing(seen, now))
        return
    print(*head(seen, now), "", sep="\n")
    for columns, rows in sections(seen.summary):
        print(*tables.plain([columns, *rows]), "", sep="\n")
    for line in notes(seen.summary):
        print(line)


def drawing(seen: LoadSeen, now: datetime) -> Group:
    """Return the page for a terminal."""
    is_amiss = bool(seen.summary["not_there"])
    drawn = [
        tables.drawn(
            columns, rows, styles=["red" if is_amiss and columns is READS else ""] * len(rows)
        )
        for columns, rows in sections(seen.summary)
    ]
    # What matters most is on top: a terminal that is followed shows no more than it has lines.
    said = Text("\n".join([*head(seen, now), *notes(seen.summary), ""]))
    return Group(said, plot(seen.summary), *drawn)


def sections(summary: dict[str, Any]) -> list[tuple[Row, list[Row]]]:
    """Return the tables of the page."""
    longest: list[Row] = [*gaps(summary)[:GAPS_SHOWN]]
    return [
        (GAPS, longest),
        (COUNTS, [counts(summary)]),
        (READS, [reads(summary)]),
        (("ACKNOWLEDGED MS", *LATENCIES.values()), [latencies(summary)]),
    ]


def progress(summary: dict[str, Any]) -> str:
    """Return a line that tells how a load is doing."""
    partition, ms, moment = gaps(summary)[0] if summary["gaps"] else ("none", "0", "the start")
    return (
        f"{summary['seconds']:8.1f}s  acked {summary['acked']}, outstanding "
        f"{summary['outstanding']}, not there {summary['not_there']}, longest gap {ms} ms from "
        f"{moment} of partition {partition}"
    )


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
    if summary["pods"] > 1:
        said.append(f"pod {summary['pods']} of this load; the time between pods is in no gap")
    if summary["again"]:
        said.append(f"{summary['again']} records were read again: the log was shorter for a while")
    for what, found in (("not acknowledged", "errors"), ("reading", "read_errors")):
        said += [f"{what}: {name}: {count}" for name, count in sorted(summary[found].items())]
    if (more := len(summary["gaps"]) - GAPS_SHOWN) > 0:
        said.append(f"{more} more partitions have shorter gaps")
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

"""The tables as text for a terminal or a pod's log.

Called by `job` with plain rows; needs no Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from textwrap import wrap
from typing import Any, Final

from .html_report.words import Range, about, sentence
from .injected_faults import InjectedFault
from .sentences import by_start, incident_sentence

Row = Mapping[str, Any]

ROWS_MAX: Final = 200
"""Rows printed of one table; the files hold all."""
FAULT_WINDOW_MS: Final = 60_000
"""Elections and ISR exits in this time after a fault, and before the next, are put beside it."""
WIDTH: Final = 100
"""Characters of a line of a sentence."""
STATES: Final = {True: "in", False: "out", None: "unknown"}


def text_report(
    window: Range,
    *,
    incidents: Sequence[Row],
    isr_intervals: Sequence[Row],
    elections: Sequence[Row],
    faults: Sequence[InjectedFault],
) -> str:
    """Return the whole report, which opens with what the samples lack and the incidents."""
    parts = [about(window), *finding_lines(window.findings)]
    parts += ["", f"Incidents: {len(incidents)}", *incident_lines(incidents)]
    if faults:
        shown = fault_table(faults, isr_intervals=isr_intervals, elections=elections)
        parts += ["", "Injected faults, and what the samples tell of them", shown]
    parts += ["", f"Elections: {len(elections)}", election_table(elections)]
    changed = [row for row in isr_intervals if row["in_isr"] is not True and not _is_edge(row)]
    parts += ["", f"Times not known to be in the ISR: {len(changed)}", isr_table(changed)]
    return "\n".join(parts) + "\n"


def finding_lines(findings: Sequence[str]) -> list[str]:
    """Return a sentence for each thing that the samples lack, wrapped."""
    return [line for each in findings for line in _wrapped(f"- {sentence(each)}", indent="  ")]


def incident_lines(incidents: Sequence[Row]) -> list[str]:
    """Return a sentence for each incident, oldest first, wrapped."""
    lines: list[str] = []
    for number, row in enumerate(by_start(incidents)[:ROWS_MAX], start=1):
        lines += _wrapped(f"{number}. {incident_sentence(row)}", indent="   ")
    if len(incidents) > ROWS_MAX:
        lines.append(f"... and {len(incidents) - ROWS_MAX} more")
    return lines


def election_table(elections: Sequence[Row]) -> str:
    """Return one line for each election, oldest first."""
    header = ("partition", "epoch", "leader", "began", "+-", "without a leader", "kind", "old one")
    lines = [
        (
            f"{row['topic']}-{row['partition']}",
            str(row["epoch"]),
            f"{_id(row['old_leader'])} -> {_id(row['new_leader'])}",
            clock(row["t_first_new_ms"]),
            duration(row["t_first_new_err_ms"]),
            _bounds(row),
            row["kind"] or "not seen",
            row["cause"] or "",
        )
        for row in sorted(elections, key=itemgetter("t_first_new_ms", "topic", "partition"))
    ]
    return table(header, lines)


def isr_table(intervals: Sequence[Row]) -> str:
    """Return one line for each interval, oldest first."""
    header = ("partition", "replica", "state", "from", "+-", "for", "began by", "ended by")
    lines = [
        (
            f"{row['topic']}-{row['partition']}",
            str(row["replica"]),
            STATES[row["in_isr"]],
            clock(row["start_ms"]),
            duration(row["start_err_ms"]),
            duration(row["end_ms"] - row["start_ms"]),
            row["start_reason"],
            row["end_reason"],
        )
        for row in sorted(intervals, key=itemgetter("start_ms", "topic", "partition", "replica"))
    ]
    return table(header, lines)


def fault_table(
    faults: Sequence[InjectedFault], *, isr_intervals: Sequence[Row], elections: Sequence[Row]
) -> str:
    """Return one line for each fault with the elections and ISR exits that followed it."""
    header = ("fault", "broker", "at", "elections", "without a leader", "out of ISR", "no acks")
    lines = []
    for index, fault in enumerate(faults):
        until = fault.at_ms + FAULT_WINDOW_MS
        if index + 1 < len(faults):
            until = min(until, faults[index + 1].at_ms)
        moved = elections_of(fault, elections, until_ms=until)
        longest = max(moved, key=lambda row: row["no_leader_high_ms"], default=None)
        left = exits_of(fault, isr_intervals, until_ms=until)
        lines.append(
            (
                fault.name,
                _id(fault.broker_id),
                clock(fault.at_ms),
                str(len(moved)),
                _bounds(longest) if longest else "",
                str(len(left)),
                "" if fault.gap_ms is None else duration(fault.gap_ms),
            )
        )
    return table(header, lines)


def elections_of(fault: InjectedFault, elections: Sequence[Row], *, until_ms: int) -> list[Row]:
    """Return the elections after a fault: those that replaced its broker, or all without one."""
    observed = [row for row in elections if row["observed"]]
    return _after(fault, observed, "t_first_new_ms", "old_leader", until_ms=until_ms)


def exits_of(fault: InjectedFault, intervals: Sequence[Row], *, until_ms: int) -> list[Row]:
    """Return the ISR exits after a fault: those of its broker, or all without one."""
    outside = [row for row in intervals if row["in_isr"] is False]
    return _after(fault, outside, "start_ms", "replica", until_ms=until_ms)


def _wrapped(text: str, *, indent: str) -> list[str]:
    return wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _after(
    fault: InjectedFault, rows: Sequence[Row], time: str, broker: str, *, until_ms: int
) -> list[Row]:
    """Return the rows after a fault by these columns: those of its broker, or all without one."""
    later = (row for row in rows if fault.at_ms <= row[time] < until_ms)
    return [row for row in later if fault.broker_id in {None, row[broker]}]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns as wide as their widest cell, at most ROWS_MAX rows."""
    shown = [header, *rows[:ROWS_MAX]]
    widths = [max(len(row[column]) for row in shown) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    if len(rows) > ROWS_MAX:
        lines.append(f"... and {len(rows) - ROWS_MAX} more")
    return "\n".join(lines)


def clock(time_ms: int) -> str:
    """Return a time of day in UTC, to the ms."""
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC).time().isoformat("milliseconds")


def duration(time_ms: int) -> str:
    """Return a time span as people read it."""
    if time_ms < 1000:
        return f"{time_ms} ms"
    if time_ms < 120_000:
        return f"{time_ms / 1000:.1f} s"
    return f"{time_ms / 60_000:.1f} min"


def _is_edge(row: Row) -> bool:
    """Tell whether nothing is known because the range begins or ends there: that is no event."""
    return row["in_isr"] is None and row["start_reason"] == "range"


def _bounds(row: Row) -> str:
    if row["no_leader_high_ms"] is None:
        return "unknown"
    return f"{duration(row['no_leader_low_ms'])} to {duration(row['no_leader_high_ms'])}"


def _id(broker: int | None) -> str:
    return "?" if broker is None else str(broker)

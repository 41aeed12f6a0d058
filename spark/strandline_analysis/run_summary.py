"""What one run found, in a few lines of JSON that the operator shows in a cluster's status.

Called by `job` with plain rows; needs no Spark. The operator refuses what is longer or of another
form, and takes each field over as it stands (ADR 0066).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from .html_report.words import Row
from .sentences import incident_sentence

FORM: Final = 1
"""Version of the form; another one gets another number."""
SUMMARY_BYTES_MAX: Final = 4_096
TOP_INCIDENTS_MAX: Final = 5
SENTENCE_LENGTH_MAX: Final = 300
CUT: Final = "..."
"""End of a sentence that was longer."""
ROWS: Final = ("incidents", "elections", "isr_intervals", "data_at_risk")
"""Tables that it is made of."""


def summary_text(
    rows: Mapping[str, Sequence[Row]],
    *,
    cluster: str,
    start_ms: int,
    end_ms: int,
    ended_ms: int,
    coverage: float,
) -> str:
    """Return the summary of a run, at most SUMMARY_BYTES_MAX bytes of ASCII.

    Shape:   rows holds the tables of ROWS
    Units:   ms since 1970; coverage 0 to 1
    """
    incidents, elections, at_risk = (
        rows[name] for name in ("incidents", "elections", "data_at_risk")
    )
    summary = {
        "version": FORM,
        "cluster": cluster,
        "endedAt": _time(ended_ms),
        "windowStart": _time(start_ms),
        # A range shorter than a second has an end behind its begin, too.
        "windowEnd": _time(max(end_ms, start_ms + 1000)),
        # Rounded down: 100 means that all of it is known.
        "coveragePercent": math.floor(coverage * 100 + 1e-9),
        "incidents": len(incidents),
        "elections": len(elections),
        "isrShrinks": sum(map(_is_shrink, rows["isr_intervals"])),
        "leaderlessLowMs": _sum(elections, "no_leader_low_ms"),
        "leaderlessHighMs": _sum(elections, "no_leader_high_ms"),
        "recordsAtRisk": _sum(at_risk, "offsets"),
        "recordsLost": _sum(at_risk, "lost"),
    }
    top = [_incident(row) for row in sorted(incidents, key=_width)[:TOP_INCIDENTS_MAX]]
    while True:
        text = json.dumps({**summary, "topIncidents": top})
        if len(text) <= SUMMARY_BYTES_MAX or not top:
            return text
        top.pop()


def unfit_sentence(found: str, cluster: str) -> str:
    """Return why samples of brokers of a cluster make no summary of this one, "" if they do."""
    if found == cluster:
        return ""
    return (
        f"no summary is written: it would be of cluster {cluster}, and the samples are of the "
        f"brokers of: {found or 'none that has a name'}"
    )


def _width(row: Row) -> tuple[int, int, int, str]:
    """Return what puts the widest incident first: partitions, then length; the oldest of equals."""
    return -row["partitions"], row["start_ms"] - row["end_ms"], row["start_ms"], row["id"]


def _incident(row: Row) -> dict[str, Any]:
    # One line of plain spaces, as it becomes a line of a terminal.
    sentence = " ".join(incident_sentence(row).split())
    if len(sentence) > SENTENCE_LENGTH_MAX:
        sentence = sentence[: SENTENCE_LENGTH_MAX - len(CUT)].rstrip() + CUT
    root = row["root_broker"]
    known = {} if root is None else {"rootBroker": root}
    return {"startedAt": _time(row["start_ms"]), **known, "sentence": sentence}


def _is_shrink(row: Row) -> bool:
    """Tell whether a replica was seen to leave the ISR, not only found outside of it."""
    return row["in_isr"] is False and row["start_reason"] == "change"


def _sum(rows: Sequence[Row], column: str) -> int:
    """Return the sum of a column; rows in which it is not known add nothing."""
    return sum(row[column] or 0 for row in rows)


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""The whole page, from the tables of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from .curves import incident_curves
from .failovers import failover_times
from .incidents import incident_list
from .isr_map import isr_map
from .leaders import leader_lines
from .markup import Element, element, text_of
from .rows import Cell, table_of
from .slo import slo_budget
from .whatif import whatif_curve
from .words import Range, Row, about, clock, partition_of, sentence

STYLE: Final = Path(__file__).with_name("report.css")
SCRIPT: Final = Path(__file__).with_name("report.js")
NAME: Final = "report.html"

Tables = Mapping[str, Sequence[Row]]
"""By name of the catalogue: the rows; a table that was not made is absent."""


def html_report(tables: Tables, window: Range) -> str:
    """Return the page, which needs no other file and no network.

    Shape:   rows as the catalogue says
    """
    title = "Strandline: what the samples tell"
    parts = {
        "incidents": ("Incidents", _incidents(tables, window)),
        "leaders": ("Leaders", _leaders(tables, window)),
        "isr": ("In-sync replicas", _isr(tables, window)),
        "curves": ("Log ends and high watermarks", _curves(tables, window)),
        "failovers": ("Times without a leader", _failovers(tables)),
        "slo": ("Availability and error budgets", _of(tables, "slo", slo_budget)),
        "whatif": ("Other settings", _whatif(tables, window)),
    }
    links = [
        element("li", element("a", name, href=f"#{place}")) for place, (name, _) in parts.items()
    ]
    sections = [
        element("section", element("h2", name), *inside, id=place)
        for place, (name, inside) in parts.items()
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", STYLE.read_text(encoding="utf-8")),
    )
    body = element(
        "body",
        element("h1", title),
        element("p", sentence(about(window)), class_="lead"),
        findings_list(window.findings),
        element("nav", element("ul", *links), aria_label="Parts"),
        element("main", *sections),
        element("script", SCRIPT.read_text(encoding="utf-8")),
    )
    return "<!DOCTYPE html>\n" + text_of(element("html", head, body, lang="en")) + "\n"


def findings_list(findings: Sequence[str]) -> Element | None:
    """Return what the samples lack, a sentence each, or nothing."""
    if not findings:
        return None
    items = [element("li", sentence(each)) for each in findings]
    return element("ul", *items, class_="findings", aria_label="What the samples lack")


def _incidents(tables: Tables, window: Range) -> list[Element]:
    incidents = tables.get("incidents")
    return [_not_made("incidents")] if incidents is None else incident_list(incidents, window)


def _leaders(tables: Tables, window: Range) -> list[Element]:
    elections = tables.get("elections")
    if elections is None:
        return [_not_made("elections")]
    header = (
        *("partition", "epoch", "from", "to", "began", "error ms", "no leader, low ms"),
        *("no leader, high ms", "kind", "old one"),
    )
    rows: list[Sequence[Cell]] = [
        (
            partition_of(row),
            row["epoch"],
            row["old_leader"],
            row["new_leader"],
            None if row["t_first_new_ms"] is None else clock(row["t_first_new_ms"]),
            row["t_first_new_err_ms"],
            row["no_leader_low_ms"],
            row["no_leader_high_ms"],
            row["kind"],
            row["cause"],
        )
        for row in elections
    ]
    caption = f"Elections: {len(rows)}"
    listed = table_of(caption, header, rows, file="elections.csv") if rows else None
    return [*leader_lines(elections, window), *([listed] if listed is not None else [])]


def _isr(tables: Tables, window: Range) -> list[Element]:
    intervals = tables.get("isr_intervals")
    if intervals is None:
        return [_not_made("isr_intervals")]
    return isr_map(intervals, window)


def _curves(tables: Tables, window: Range) -> list[Element]:
    found = tables.get("incident_curves")
    if found is None:
        return [_not_made("incident_curves")]
    return incident_curves(found, tables.get("incidents", ()), window)


def _failovers(tables: Tables) -> list[Element]:
    elections = tables.get("elections")
    if elections is None:
        return [_not_made("elections")]
    return failover_times(elections, tables.get("failover_quantiles"))


def _whatif(tables: Tables, window: Range) -> list[Element]:
    return _of(tables, "lagtime_whatif", lambda rows: whatif_curve(rows, window.lag_time_max_ms))


def _of(
    tables: Tables, name: str, drawn: Callable[[Sequence[Row]], list[Element]]
) -> list[Element]:
    """Return what a table gives, or a sentence if it was not made."""
    found = tables.get(name)
    return [_not_made(name)] if found is None else drawn(found)


def _not_made(name: str) -> Element:
    return element("p", f"The table {name} was not made in this run.", class_="empty")

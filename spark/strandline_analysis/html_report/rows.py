"""A table of the page: sorted and filtered by the reader, cut at a named limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .markup import Element, element
from .words import counted, grouped

ROWS_MAX: Final = 200
"""Rows of one table that the page holds; the files beside it hold all."""

Cell = str | int | float | None


def table_of(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[Cell]], *, file: str
) -> Element:
    """Return a table, or a sentence if there is no row; file holds those that are left out."""
    if not rows:
        return element("p", f"{caption}: none.", class_="empty")
    shown = rows[:ROWS_MAX]
    head = element("tr", *(element("th", name, scope="col") for name in header))
    body = element("tbody", *(element("tr", *map(_cell, row)) for row in shown))
    made = element("table", element("thead", head), body)
    box = element("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)
    left_out = len(rows) - len(shown)
    note = None
    if left_out:
        said = f"The first {grouped(len(shown))} of {counted(len(rows), 'row')}; {file} has all."
        note = element("p", said, class_="left-out")
    return element("div", element("h3", caption), box, note, class_="rows")


def _cell(value: Cell) -> Element:
    """Return a cell; numbers carry what they are sorted by."""
    if value is None:
        return element("td", "unknown", class_="unknown")
    if isinstance(value, str):
        return element("td", value)
    shown = grouped(value) if isinstance(value, int) else f"{value:g}"
    return element("td", shown, class_="number", data_sort=repr(value))

"""Tables: drawn and coloured on a terminal, aligned lines of text in a pipe."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.console import Console
from rich.table import Table

Row = Sequence[str]


def show(
    columns: Row, rows: Sequence[Row], *, left: Collection[str] = (), styles: Sequence[str] = ()
) -> None:
    """Print a table; the columns of left begin at the left, styles has one for each row."""
    console = Console()
    if console.is_terminal:
        console.print(drawn(columns, rows, left=left, styles=styles))
    else:
        for line in plain([columns, *rows], left={columns.index(name) for name in left}):
            print(line, flush=True)


def drawn(
    columns: Row,
    rows: Sequence[Row],
    *,
    left: Collection[str] = (),
    styles: Sequence[str] = (),
    title: str | None = None,
    caption: str | None = None,
) -> Table:
    """Return a table for a terminal."""
    table = Table(title=title, caption=caption)
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right")
    for row, style in zip(rows, styles or [""] * len(rows), strict=True):
        table.add_row(*row, style=style)
    return table


def plain(rows: Sequence[Row], *, left: Collection[int] = ()) -> list[str]:
    """Return rows as aligned lines; the columns of left begin at the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

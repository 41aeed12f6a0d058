"""Waits until a cluster has followed a wish, and shows meanwhile what is left to do; bars of steps.

On a terminal the lines are redrawn; in a pipe a line is printed when it is a new one. An API
server that is away is one more line, because the cluster goes on without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from .commands import CommandFailed

LOOK_SECONDS: Final = 1.0
LINES_SHOWN: Final = 20
"""Lines on a terminal; the others are counted."""

Look = Callable[[], Sequence[str]]
"""Returns a line for each thing that is left to do, none at the end."""


def wait(look: Look, seconds: float) -> list[str]:
    """Look until nothing is left or the time is over; return the lines that are left.

    Raises:  what look raises, but for CommandFailed; KeyboardInterrupt if a person ends it
    """
    console = Console()
    deadline = time.monotonic() + seconds
    with (
        Live(console=console, auto_refresh=False, transient=True)
        if console.is_terminal
        else (nullcontext()) as live
    ):
        said: list[str] = []
        while True:
            before, said = said, _lines(look)
            if live is not None:
                live.update(Text("\n".join(shortened(said))), refresh=True)
            else:
                for line in said:
                    if line not in before:
                        print(line, flush=True)
            if not said or time.monotonic() >= deadline:
                return said
            time.sleep(LOOK_SECONDS)


@contextmanager
def steps_shown(what: str, count: int) -> Iterator[Callable[[str], None]]:
    """Show a bar of steps on a terminal's standard error; yield what is told of each that ended."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    last = TextColumn("{task.fields[ended]}", style="dim")
    shown = Progress(
        *columns,
        TimeElapsedColumn(),
        last,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with shown as bar:
        steps = bar.add_task(what, total=count, ended="")
        yield lambda step: bar.update(steps, advance=1, ended=step)


def shortened(lines: Sequence[str]) -> list[str]:
    """Return as many lines as a terminal shows, and how many more there are."""
    more = len(lines) - LINES_SHOWN
    return [*lines[:LINES_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def _lines(look: Look) -> list[str]:
    try:
        return list(look())
    except CommandFailed as error:
        return [f"cannot look now: {str(error).rpartition(': ')[2]}"]

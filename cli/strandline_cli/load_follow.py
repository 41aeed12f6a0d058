"""A running load on the screen until somebody ends it; in a pipe a line each second."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from rich.console import Group
from rich.live import Live
from rich.text import Text

from .commands import CommandFailed
from .end_asked import EndAsked
from .load_page import drawing, progress
from .running_load import LoadSeen

LOOK_SECONDS = 1.0
"""A load writes its figures each second."""


def follow(look: Callable[[], LoadSeen], end: EndAsked) -> LoadSeen | None:
    """Show a load until it or somebody ends this; return what was seen last."""
    seen: LoadSeen | None = None
    if not sys.stdout.isatty():
        for seen, amiss in _looks(look, end):
            print(amiss or progress(seen.summary) if seen else amiss, flush=True)
        return seen
    with Live(auto_refresh=False) as live:
        for seen, amiss in _looks(look, end):
            page = Group() if seen is None else drawing(seen, datetime.now(UTC))
            live.update(Group(page, Text(amiss, style="red")), refresh=True)
    return seen


def _looks(look: Callable[[], LoadSeen], end: EndAsked) -> Iterator[tuple[LoadSeen | None, str]]:
    """Yield what was seen last, and why there is nothing newer."""
    seen, amiss = None, ""
    while not end.is_asked():
        try:
            seen, amiss = look(), ""
        except CommandFailed as error:
            amiss = f"not to be had now: {error}"
        yield seen, amiss
        if seen is not None and seen.exit_code is not None:
            return
        end.wait(LOOK_SECONDS)

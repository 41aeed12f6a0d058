"""A bar of steps is for terminals alone, and does not stay when the steps are over."""

from __future__ import annotations

import io
from functools import partial

import pytest
from rich.console import Console

from strandline_cli import progress

STEPS = ("Java and Spark's session", "table elections")


def shown(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> str:
    """Return what is written to standard error while two of three steps end."""
    written = io.StringIO()
    there = partial(Console, file=written, force_terminal=is_terminal, width=100)
    monkeypatch.setattr(progress, "Console", lambda **_: there())
    with progress.steps_shown("the analysis", 3) as tell:
        for step in STEPS:
            tell(step)
    return written.getvalue()


def test_a_terminal_shows_how_many_steps_are_over_and_which_was_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = shown(monkeypatch, is_terminal=True)
    assert "the analysis" in text
    assert "2/3" in text
    assert STEPS[-1] in text


def test_nothing_is_written_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, is_terminal=False).strip() == ""

"""What a verb is made of, how its help looks, and how wrong words are answered.

A verb describes itself without loading what it needs, so `strandline --help` is quick and works
where a library is missing. Wrong words are answered with one sentence and exit code 2.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

PROGRAM = "strandline"
WRONG_USE = 2
"""Exit code of words that mean nothing here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One thing that `strandline` does.

    summary is the line of the overview, text says more in its own help. examples are pairs of a
    command and what it does. run returns the exit code; it may raise argparse.ArgumentError for
    words that do not go together.
    """

    name: str
    summary: str
    text: str
    examples: tuple[tuple[str, str], ...]
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]

    def parser(self) -> argparse.ArgumentParser:
        """Return what reads the words behind this verb."""
        shown = (f"  {command}\n      {does}" for command, does in self.examples)
        parser = OneSentenceParser(
            prog=f"{PROGRAM} {self.name}",
            description=f"{self.summary[0].upper()}{self.summary[1:]}.\n\n{self.text}",
            epilog="\n".join(["examples:", *shown]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_options(parser)
        return parser


class OneSentenceParser(argparse.ArgumentParser):
    """Says in one sentence what is wrong, and where to read what is right."""

    def error(self, message: str) -> NoReturn:
        """End with the sentence and exit code 2."""
        self.exit(WRONG_USE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def whole_number(least: int) -> Callable[[str], int]:
    """Return what reads a whole number that is at least so large."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            message = f"must be a whole number of at least {least}, not {text!r}"
            raise argparse.ArgumentTypeError(message)
        return value

    return read


def positive(text: str) -> float:
    """Read a number greater than 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number greater than 0, not {text!r}")
    return value


def repository() -> Path:
    """Return the repository's root, which must be the current folder.

    Raises:  argparse.ArgumentError
    """
    root = Path.cwd()
    if not (root / "helm" / "strandline").is_dir():
        raise argparse.ArgumentError(None, "run this from the repository's root")
    return root

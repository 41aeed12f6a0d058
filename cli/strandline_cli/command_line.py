"""The parts of a verb, its help, and the message for wrong options.

A verb describes itself without loading its libraries, so `strandline --help` is quick and works
where a library is missing. Wrong options end with one sentence and exit code 2.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

PROGRAM = "strandline"
PLUGIN = "kubectl-strandline"
"""The name under which kubectl finds this program: it is then called `kubectl strandline`."""
WRONG_USE = 2
"""Exit code of wrong options."""


def called() -> str:
    """Return how a person calls this program."""
    is_plugin = Path(sys.argv[0]).name == PLUGIN
    return PLUGIN.replace("-", " ") if is_plugin else PROGRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One command of `strandline`.

    summary is its line in the overview, text says more in its own help. examples are pairs of a
    command and what it does. run returns the exit code; it may raise argparse.ArgumentError for
    options that do not go together.
    """

    name: str
    summary: str
    text: str
    examples: tuple[tuple[str, str], ...]
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]

    def parser(self) -> argparse.ArgumentParser:
        """Return the parser of this verb's options."""
        program = called()
        shown = (
            f"  {command.replace(PROGRAM, program, 1)}\n      {does}"
            for command, does in self.examples
        )
        parser = OneSentenceParser(
            prog=f"{program} {self.name}",
            description=f"{self.summary[0].upper()}{self.summary[1:]}.\n\n{self.text}",
            epilog="\n".join(["examples:", *shown]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_options(parser)
        return parser


class OneSentenceParser(argparse.ArgumentParser):
    """Reports an error in one sentence that points to the help."""

    def error(self, message: str) -> NoReturn:
        """End with the sentence and exit code 2."""
        self.exit(WRONG_USE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def whole_number(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers of at least `least`."""

    def read(text: str) -> int:
        with suppress(ValueError):
            if int(text) >= least:
                return int(text)
        message = f"must be a whole number of at least {least}, not {text!r}"
        raise argparse.ArgumentTypeError(message)

    return read


def broker_ids(text: str) -> tuple[int, ...]:
    """Read ids of brokers with commas between them, in their order."""
    words = text.split(",")
    if not all(word.isdecimal() for word in words):
        raise argparse.ArgumentTypeError(f"must be ids of brokers such as 0,2, not {text!r}")
    return tuple(int(word) for word in words)


def positive(text: str) -> float:
    """Read a number greater than 0."""
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be a number greater than 0, not {text!r}")


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which cluster is meant."""
    add = parser.add_argument
    add("--cluster", default="", metavar="NAME", help="default: the only one of the namespace")
    add("--namespace", "-n", default="default", help="the namespace of the cluster")
    add("--kubeconfig", help="default: $KUBECONFIG, or kubectl's own file")
    add("--context", default="", help="a context of the kubeconfig; default: the current one")


def add_waiting(parser: argparse.ArgumentParser, seconds: int) -> None:
    """Add the options that say how long to wait; wait_seconds is 0 for not at all."""
    end = parser.add_mutually_exclusive_group()
    end.add_argument(
        "--wait-seconds",
        type=whole_number(1),
        default=seconds,
        help="until it has happened; default: %(default)s",
    )
    only_asks = "ask, and do not wait"
    end.add_argument(
        "--no-wait", dest="wait_seconds", action="store_const", const=0, help=only_asks
    )


def repository() -> Path:
    """Return the repository's root; ArgumentError if that is not the current folder."""
    root = Path.cwd()
    if not (root / "helm" / "strandline").is_dir():
        raise argparse.ArgumentError(None, "run this from the repository's root")
    return root

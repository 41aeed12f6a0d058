"""`strandline VERB ...`: finds the verb, reads the words behind it, and runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console

from strandline.errors import StrandlineError

from .command_line import PROGRAM, WRONG_USE, Verb
from .verbs import GROUPS

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the words ask for and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["--help"], ["-h"]):
        overview(Console(highlight=False, soft_wrap=True))
        return 0
    if not words:
        overview(Console(highlight=False, soft_wrap=True, stderr=True))
        return WRONG_USE
    found = [verb for verbs in GROUPS.values() for verb in verbs if verb.name == words[0]]
    if not found:
        sentence = f"{PROGRAM}: there is no verb {words[0]!r} (see {PROGRAM} --help)"
        print(sentence, file=sys.stderr)
        return WRONG_USE
    return _run(found[0], words[1:])


def overview(console: Console) -> None:
    """Print every verb with its line, by group; in bold and colour on a terminal alone."""
    console.print(f"usage: {PROGRAM} VERB [OPTION...]\n")
    console.print("See, break and measure log replication on Kubernetes.\n")
    for group, verbs in GROUPS.items():
        console.print(group, style="bold")
        for verb in verbs:
            console.print(f"  [cyan]{verb.name:<10}[/cyan] {verb.summary}")
        console.print()
    console.print(f"{PROGRAM} VERB --help shows options and examples.")


def _run(verb: Verb, words: list[str]) -> int:
    try:
        parser = verb.parser()
        options = parser.parse_args(words)
        return verb.run(options)
    except argparse.ArgumentError as error:
        parser.error(str(error))
    except ModuleNotFoundError as error:
        print(f"{PROGRAM} {verb.name}: needs {error.name}, which is not here", file=sys.stderr)
        return WRONG_USE
    except (StrandlineError, OSError) as error:
        print(f"{PROGRAM} {verb.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())

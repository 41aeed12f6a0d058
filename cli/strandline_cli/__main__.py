"""`strandline VERB ...`: finds the verb, reads its options, and runs it."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from rich.console import Console

from strandline.errors import StrandlineError

from .command_line import WRONG_USE, called
from .verbs import GROUPS

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb of the command line and return the exit code."""
    # Also where a shell ignores SIGINT for what runs in the background: each verb ends by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words = sys.argv[1:] if arguments is None else arguments
    program = called()
    if not words or words[0] in {"-h", "--help"}:
        overview(Console(highlight=False, soft_wrap=True, stderr=not words))
        return 0 if words else WRONG_USE
    verbs = {verb.name: verb for group in GROUPS.values() for verb in group}
    verb = verbs.get(words[0])
    if verb is None:
        print(f"{program}: there is no verb {words[0]!r} (see {program} --help)", file=sys.stderr)
        return WRONG_USE
    try:
        parser = verb.parser()
        return verb.run(parser.parse_args(words[1:]))
    except argparse.ArgumentError as error:
        parser.error(str(error))
    except ModuleNotFoundError as error:
        print(f"{program} {verb.name}: needs {error.name}, which is not here", file=sys.stderr)
        return WRONG_USE
    except (StrandlineError, OSError) as error:
        print(f"{program} {verb.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def overview(console: Console) -> None:
    """Print every verb with its line, by group; in bold and colour on a terminal alone."""
    program = called()
    console.print(f"usage: {program} VERB [OPTION...]\n")
    console.print("See, break and measure log replication on Kubernetes.\n")
    for group, verbs in GROUPS.items():
        console.print(group, style="bold")
        for verb in verbs:
            console.print(f"  [cyan]{verb.name:<10}[/cyan] {verb.summary}")
        console.print()
    console.print(f"{program} VERB --help shows options and examples.")


if __name__ == "__main__":
    sys.exit(main())

"""`strandline bench`: figures of a cluster under faults."""

from __future__ import annotations

import argparse
import sys

from strandline_cli.command_line import Verb, repository, whole_number

RUNS = 5


def _add_options(parser: argparse.ArgumentParser) -> None:
    how_often = f"how often ({RUNS})"
    parser.add_argument("--runs", type=whole_number(1), default=RUNS, metavar="N", help=how_often)


def _run(options: argparse.Namespace) -> int:
    root = repository()
    # bench/ is part of the repository, not of the installed package.
    sys.path.insert(0, str(root))
    from bench.measure import measure

    return measure(root, options.runs)


VERB = Verb(
    name="bench",
    summary="measure faults, starts and idle brokers on the cluster under hack/",
    text="""\
Uses the cluster under hack/ if it is up and starts it otherwise; what was not there before is
gone afterwards. Exit code 1 means that a run showed nothing, lost something or did not recover;
a figure that misses its aim is reported and is no failure. Run it from the repository's root.""",
    examples=(
        ("strandline bench", "five runs, about a quarter of an hour"),
        ("strandline bench --runs 1", "one, to see that all of it works"),
    ),
    add_options=_add_options,
    run=_run,
)

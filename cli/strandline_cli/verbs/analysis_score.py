"""`strandline analysis-score`: how well the analysis finds what truly happened."""

from __future__ import annotations

import argparse
import sys

from strandline_cli.command_line import Verb, repository, whole_number

SEED = 7
MINUTES = 20
INTERVAL_MS = 1000


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--seed", type=whole_number(0), default=SEED, metavar="N", help=f"of all chance ({SEED})")
    length = f"length of the history ({MINUTES})"
    add("--minutes", type=whole_number(1), default=MINUTES, metavar="N", help=length)
    interval = f"scrape interval ({INTERVAL_MS})"
    add("--interval-ms", type=whole_number(10), default=INTERVAL_MS, metavar="N", help=interval)
    some = "score these alone; all of which the truth is known"
    add("--tables", nargs="+", default=[], metavar="TABLE", help=some)


def _run(options: argparse.Namespace) -> int:
    # bench/ is part of the repository, not of the installed package.
    sys.path.insert(0, str(repository()))
    from bench.analysis_scores import SCORED, score

    if unknown := sorted(set(options.tables) - set(SCORED)):
        message = f"{', '.join(unknown)}: the tables that are scored are {', '.join(SCORED)}"
        raise argparse.ArgumentError(None, message)
    return score(
        seed=options.seed,
        minutes=options.minutes,
        interval_ms=options.interval_ms,
        chosen=options.tables or SCORED,
    )


VERB = Verb(
    name="analysis-score",
    summary="measure how well the analysis finds what truly happened",
    text="""\
Makes the history of a cluster with faults of every kind, of which the truth is known to the ms,
analyses what scrapes saw of it, and compares. Precision is the share of what a table says that is
true, recall the share of what is true that it says. Edges between two scrapes cannot be seen.
Needs Java; run it from the repository's root.""",
    examples=(
        ("strandline analysis-score", "all tables, of 20 minutes that were scraped each second"),
        (
            "strandline analysis-score --interval-ms 15000 --tables elections incidents",
            "what two tables still find when scrapes are rare",
        ),
    ),
    add_options=_add_options,
    run=_run,
)

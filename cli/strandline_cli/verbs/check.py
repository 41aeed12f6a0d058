"""`strandline check`: a history, judged against the logs of all replicas."""

from __future__ import annotations

import argparse
from pathlib import Path

from strandline_cli.command_line import Verb


def _brokers(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isdigit() for word in words):
        raise argparse.ArgumentTypeError(f"must be ids of brokers such as 0,1,2, not {text!r}")
    return tuple(int(word) for word in words)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("files", nargs="+", type=Path, metavar="FILE", help="histories, and scans of logs")
    holders = "the brokers that hold each partition, such as 0,1,2"
    add("--replicas", required=True, type=_brokers, metavar="IDS", help=holders)


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.check import check

    return check(options.files, options.replicas)


VERB = Verb(
    name="check",
    summary="judge a history against the log of every replica",
    text="""\
A history is what `strandline load` wrote; a scan of a log is what `strandline dump-log --lines`
printed, taken of each replica when the load had stopped and every ISR was full. Exit code 1 means
that a promise about a record was broken.""",
    examples=(
        (
            (
                "strandline check history.jsonl broker-0.jsonl broker-1.jsonl broker-2.jsonl "
                "--replicas 0,1,2"
            ),
            "every acknowledged record must be in all three logs, at its offset",
        ),
    ),
    add_options=_add_options,
    run=_run,
)

"""`strandline analysis`: the samples of Prometheus, as intervals and elections."""

from __future__ import annotations

import argparse

from strandline_cli.command_line import Verb


def _add_options(parser: argparse.ArgumentParser) -> None:
    from strandline_analysis.task import add_options

    add_options(parser)


def _run(options: argparse.Namespace) -> int:
    from strandline_analysis.task import task_of

    task = task_of(options)
    from strandline_analysis.job import run, steps_of
    from strandline_analysis.stopwatch import Stopwatch
    from strandline_cli.progress import steps_shown

    with steps_shown("the analysis", steps_of(task)) as tell:
        return run(task, Stopwatch(tell=tell))


VERB = Verb(
    name="analysis",
    summary="tell from scraped samples which brokers led and were in sync, and when",
    text="""\
Reads a range of time from Prometheus, from a lake that `python -m strandline_analysis.ingest` has
landed, or from blocks of a snapshot, with Spark, in one process; needs Java and the extra
`analysis`. Exit code 1 means that the source cannot be read, 2 that it has no sample of the range,
or samples of several clusters and --cluster names none, 3 that the samples tell of less than
--coverage-min of the partitions' time. What samples lack is told in a sentence each, with what to
do about it.""",
    examples=(
        (
            "strandline analysis --prometheus http://127.0.0.1:9090 --out tables",
            "the last hour, printed and written as tables",
        ),
        (
            "strandline analysis --prometheus http://127.0.0.1:9090 --window 6h --out tables",
            "the last six hours",
        ),
        (
            "strandline analysis --blocks data/snapshots/20261126T061500Z-1a2b3c4d --out tables",
            "the last hour of a snapshot of Prometheus, without any server",
        ),
    ),
    add_options=_add_options,
    run=_run,
)

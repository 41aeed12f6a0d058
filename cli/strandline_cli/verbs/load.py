"""`strandline load`: a producer and a consumer that keep a history."""

from __future__ import annotations

import argparse
from pathlib import Path

from strandline_cli.command_line import Verb, positive, whole_number


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--bootstrap", required=True, metavar="HOST:PORT", help="any broker")
    add("--topic", required=True, metavar="NAME")
    add("--partitions", type=whole_number(1), required=True, metavar="N")
    rate = "records a second and partition (100)"
    add("--rate", type=positive, default=100.0, metavar="N", help=rate)
    add("--seconds", type=positive, default=60.0, metavar="N", help="how long (60)")
    add("--history", type=Path, required=True, metavar="FILE", help="where the history is written")
    add("--consume", action="store_true", help="read the topic, too")
    add("--report-seconds", type=positive, default=1.0, metavar="N", help="(1)")
    add("--delivery-timeout-ms", type=whole_number(1), default=60_000, metavar="N", help="(60000)")


def _run(options: argparse.Namespace) -> int:
    from strandline_cli.load_generator import LoadPlan, generate

    return generate(LoadPlan(**vars(options)))


VERB = Verb(
    name="load",
    summary="write a topic at a steady rate and keep a history of every record",
    text="""\
One idempotent producer with acks=all. From time to time a line of JSON tells, per partition, the
acknowledgements so far and the longest time without one. SIGTERM ends it early: what is
outstanding is waited for. Exit code 0 means that no record was refused, and with --consume that
everything acknowledged was read.""",
    examples=(
        (
            (
                "strandline load --bootstrap 127.0.0.1:9092 --topic orders --partitions 6 "
                "--history history.jsonl"
            ),
            "a hundred records a second and partition for a minute",
        ),
        (
            (
                "strandline load --bootstrap default-bootstrap:9092 --topic orders --partitions 6 "
                "--rate 20 --seconds 600 --consume --history history.jsonl"
            ),
            "slower, longer, and read again meanwhile",
        ),
    ),
    add_options=_add_options,
    run=_run,
)

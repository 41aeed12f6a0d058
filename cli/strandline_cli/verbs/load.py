"""`strandline load`: a producer and a consumer, on a cluster until stopped or as a program here."""

from __future__ import annotations

import argparse
import math
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from strandline_cli.command_line import Verb, positive, whole_number

if TYPE_CHECKING:
    from strandline_cli.kubectl import Kubernetes
    from strandline_cli.running_load import LoadSeen

NAME = "load"
NAME_LENGTH_MAX = 40
"""A pod's name, which begins with it, has at most 63 characters."""
RATE = 20.0
RATE_LEAST, RATE_MAX = 1.0, 1000.0
TOTAL_RATE_MAX = 5000.0
"""Records a second over all partitions: one producer's share of a core."""
PARTITIONS = 6
PARTITIONS_MAX = 1000
WAIT_SECONDS = 120
REQUIRED = ("bootstrap", "topic", "partitions", "history")
"""What the program here needs."""


def _rate(text: str) -> float:
    with suppress(ValueError):
        if RATE_LEAST <= float(text) <= RATE_MAX:
            return float(text)
    bounds = f"{RATE_LEAST:g} to {RATE_MAX:g}"
    raise argparse.ArgumentTypeError(f"must be a number from {bounds}, not {text!r}")


def _partitions(text: str) -> int:
    with suppress(ValueError):
        if 1 <= int(text) <= PARTITIONS_MAX:
            return int(text)
    message = f"must be a whole number from 1 to {PARTITIONS_MAX}, not {text!r}"
    raise argparse.ArgumentTypeError(message)


def _name(text: str) -> str:
    if len(text) <= NAME_LENGTH_MAX and re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", text):
        return text
    raise argparse.ArgumentTypeError(
        f"must be at most {NAME_LENGTH_MAX} of a-z, 0-9 and -, a letter first and no - last, "
        f"not {text!r}"
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--bootstrap", metavar="HOST:PORT", help="any broker; required, as the next two")
    add("--topic", metavar="NAME")
    add("--partitions", type=whole_number(1), metavar="N")
    rate = "records a second and partition (100)"
    add("--rate", type=positive, default=100.0, metavar="N", help=rate)
    time = parser.add_mutually_exclusive_group()
    time.add_argument("--seconds", type=positive, default=60.0, metavar="N", help="how long (60)")
    stopped = "until SIGTERM"
    time.add_argument(
        "--until-stopped", dest="seconds", action="store_const", const=math.inf, help=stopped
    )
    add("--history", type=Path, metavar="FILE", help="where the history is written; required")
    lines = "keep the newest lines alone, in FILE.000001 and so on (0, all)"
    add("--history-lines", type=whole_number(0), default=0, metavar="N", help=lines)
    summary = "a file that has the figures of the whole time, as JSON"
    add("--summary", type=Path, metavar="FILE", help=summary)
    goes_on = "go on with the figures that lie in the topic under this id, and keep them there"
    add("--goes-on", default="", metavar="ID", help=goes_on)
    add("--consume", action="store_true", help="read the topic, too")
    add("--report-seconds", type=positive, default=1.0, metavar="N", help="(1)")
    add("--delivery-timeout-ms", type=whole_number(1), default=60_000, metavar="N", help="(60000)")
    parser.set_defaults(act=_run_here)
    words = parser.add_subparsers(title="on a cluster", metavar="WORD")
    _add_start(words.add_parser("start", help="start a load as a Job, which goes on until stopped"))
    _add_stop(words.add_parser("stop", help="end it, judge it, remove it and what it made"))
    _add_report(words.add_parser("report", help="show what it saw so far"))


def _add_start(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_where(parser)
    add("--cluster", default="", metavar="NAME", help="default: the only one of the namespace")
    topic = "a topic that is there; default: one of its own, which `stop` removes"
    add("--topic", default="", metavar="NAME", help=topic)
    partitions = f"of its own topic, at most {PARTITIONS_MAX} ({PARTITIONS})"
    add("--partitions", type=_partitions, default=None, metavar="N", help=partitions)
    rate = f"records a second and partition, {RATE_LEAST:g} to {RATE_MAX:g} ({RATE:g})"
    add("--rate", type=_rate, default=RATE, metavar="N", help=rate)
    image = "the clients' image; default: strandline-client where strandline-broker comes from"
    add("--image", default="", metavar="IMAGE", help=image)
    wait = f"until topic and pod are ready ({WAIT_SECONDS})"
    add("--wait-seconds", type=whole_number(1), default=WAIT_SECONDS, metavar="N", help=wait)
    parser.set_defaults(act=_start)


def _add_stop(parser: argparse.ArgumentParser) -> None:
    _add_where(parser)
    now = "remove it without waiting for its last records and without judging them"
    parser.add_argument("--now", action="store_true", help=now)
    parser.set_defaults(act=_stop)


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_where(parser)
    replicas = "read the log of every replica in sync, too, which gives the brokers work"
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--replicas", action="store_true", help=replicas)
    follow = "until Ctrl-C; in a pipe a line each second"
    how.add_argument("--follow", action="store_true", help=follow)
    parser.set_defaults(act=_report)


def _add_where(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--name", type=_name, default=NAME, help=f"of the load and its Job ({NAME})")
    add("--namespace", "-n", default="default", help="the namespace of the cluster")
    add("--kubeconfig", help="default: $KUBECONFIG, or kubectl's own file")
    add("--context", default="", help="a context of the kubeconfig; default: the current one")


def _run(options: argparse.Namespace) -> int:
    exit_code: int = options.act(options)
    return exit_code


def _run_here(options: argparse.Namespace) -> int:
    missing = [f"--{name}" for name in REQUIRED if getattr(options, name) is None]
    if missing:
        message = f"the following arguments are required: {', '.join(missing)}"
        raise argparse.ArgumentError(None, message)
    from strandline_cli.load_generator import LoadPlan, generate

    given = {key: value for key, value in vars(options).items() if key != "act"}
    return generate(LoadPlan(**given))


def _kubernetes(options: argparse.Namespace) -> Kubernetes:
    from strandline_cli.kubectl import Kubernetes
    from strandline_cli.recover import kubeconfig_of

    kubeconfig = kubeconfig_of(options.kubeconfig, dict(os.environ))
    return Kubernetes(kubeconfig, options.namespace, context=options.context)


def _start(options: argparse.Namespace) -> int:
    if options.topic and options.partitions is not None:
        message = "--partitions is for a topic of its own: --topic names one that has them"
        raise argparse.ArgumentError(None, message)
    partitions = PARTITIONS if options.partitions is None else options.partitions
    if not options.topic and options.rate * partitions > TOTAL_RATE_MAX:
        message = f"--rate times --partitions must be at most {TOTAL_RATE_MAX:g}"
        raise argparse.ArgumentError(None, f"{message}, not {options.rate * partitions:g}")
    from strandline_cli.running_load import LoadWishes, start_load

    wishes = LoadWishes(
        name=options.name,
        cluster=options.cluster,
        topic=options.topic,
        partitions=partitions,
        rate=options.rate,
        image=options.image,
        wait_seconds=options.wait_seconds,
    )
    seen = start_load(_kubernetes(options), wishes, print)
    print(f"it runs: {seen.summary['acked']} records are acknowledged")
    return 0


def _report(options: argparse.Namespace) -> int:
    from strandline_cli.running_load import look

    kubernetes = _kubernetes(options)
    if options.follow:
        return _follow(kubernetes, options.name)
    return _show(kubernetes, look(kubernetes, options.name), judges=options.replicas)


def _follow(kubernetes: Kubernetes, name: str) -> int:
    from strandline_cli.end_asked import EndAsked
    from strandline_cli.load_follow import follow
    from strandline_cli.load_page import is_well
    from strandline_cli.running_load import look

    seen = follow(lambda: look(kubernetes, name), EndAsked.by_signals())
    return 0 if seen is not None and is_well(seen.summary) else 1


def _stop(options: argparse.Namespace) -> int:
    from strandline_cli.commands import CommandFailed
    from strandline_cli.running_load import end, remove

    kubernetes = _kubernetes(options)
    shown = 0
    if not options.now:
        try:
            shown = _show(kubernetes, end(kubernetes, options.name), judges=True)
        except CommandFailed as error:
            print(f"what it saw is not known: {error}")
            shown = 1
    removed = remove(kubernetes, options.name)
    print("", *(f"removed {each}" for each in removed or ["nothing: nothing was there"]), sep="\n")
    return shown


def _show(kubernetes: Kubernetes, seen: LoadSeen, *, judges: bool) -> int:
    """Print the page and, if asked for, the verdict; 1 if a record failed, is lost or moved."""
    from datetime import UTC, datetime

    from strandline_cli import verdict
    from strandline_cli.load_page import is_well, print_lines, show_load
    from strandline_cli.running_load import judge_replicas

    show_load(seen, datetime.now(UTC))
    well = is_well(seen.summary)
    if judges:
        judged, left_out = judge_replicas(kubernetes, seen)
        found = verdict.findings(judged, seen.summary["topic"])
        lines = [*verdict.sentences(judged), *found, *left_out]
        print_lines(["the newest of these, on every replica in sync:", *lines])
        well = well and judged.is_valid
    return 0 if well else 1


VERB = Verb(
    name="load",
    summary="write and read a topic at a steady rate, and tell gaps and lost records",
    text="""\
On a cluster `start` makes a Job, and a topic unless you name one; it goes on until `stop`. Break
the cluster meanwhile. `report` tells the longest time without an acknowledgement and when it was,
latencies, what failed or was retried, and whether each acknowledged record was read at its offset;
`stop` also compares the newest 100,000 records with the logs of all replicas in sync. A topic of
its own keeps records for ten minutes. Where the load's pod is replaced its figures go on: they lie
in the topic, too. The time without a pod is no gap.

Without such a word it is the program that this Job runs: one idempotent producer with acks=all.
From time to time a line of JSON tells, per partition, the acknowledgements so far and the longest
time without one. SIGTERM ends it early: what is outstanding is waited for. Exit code 0 means that
no record was refused, and with --consume that everything acknowledged was read.""",
    examples=(
        ("strandline load start -n shop", f"{RATE:g} records a second for each of six partitions"),
        (
            "strandline load start --topic orders --rate 5 --name slow -n shop",
            "a second one, into a topic that is there",
        ),
        ("strandline load report --follow -n shop", "what it sees, with a plot, until Ctrl-C"),
        ("strandline load stop -n shop", "the same and a verdict, then everything of it goes"),
        (
            (
                "strandline load --bootstrap 127.0.0.1:9092 --topic orders --partitions 6 "
                "--history history.jsonl"
            ),
            "here, a hundred records a second and partition for a minute",
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

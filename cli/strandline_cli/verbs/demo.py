"""`strandline demo`: a real cluster under load, broken twice and judged."""

from __future__ import annotations

import argparse
import os

from strandline_cli.clusters import KINDS
from strandline_cli.command_line import Verb, repository


def _add_options(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--down", action="store_true", help="remove what the demo made")
    what.add_argument("--push", action="store_true", help="build our images, push them to --images")
    where = "where (CLUSTER; kind if it works here, else hack)"
    parser.add_argument("--cluster", choices=KINDS, help=where)
    pull = "where the nodes of --cluster current pull our images (IMAGES)"
    parser.add_argument("--images", metavar="REPOSITORY", help=pull)
    bring = "or what brings an archive of images to them (LOAD)"
    parser.add_argument("--load", metavar="COMMAND", help=bring)
    spark = "without the Spark job and its image of 625 MiB (ANALYSIS=0)"
    parser.add_argument("--no-analysis", action="store_true", help=spark)
    agree = "do not ask before --cluster current is used (YES=1)"
    parser.add_argument("--yes", action="store_true", help=agree)
    given = {name: os.environ.get(name.upper(), "") for name in ("cluster", "images", "load")}
    parser.set_defaults(**given)


def _switch(variable: str, *, default: bool) -> bool:
    """Return a variable of the environment that is 0 or 1; unset and empty mean the default."""
    text = os.environ.get(variable, "")
    if text not in {"", "0", "1"}:
        raise argparse.ArgumentError(None, f"{variable}={text}: must be 0 or 1, or not set")
    return text == "1" if text else default


def _run(options: argparse.Namespace) -> int:
    from strandline_cli import demo
    from strandline_cli.images import ImageSource

    root = repository()
    if options.cluster not in {"", *KINDS}:
        message = f"CLUSTER={options.cluster}: must be {', '.join(KINDS)}, or not set"
        raise argparse.ArgumentError(None, message)
    if options.push:
        return demo.push(root, options.images)
    if options.down:
        return demo.take_down(root)
    source = ImageSource(repository=options.images, load=options.load)
    wishes = demo.Wishes(
        cluster=options.cluster,
        analysis=_switch("ANALYSIS", default=True) and not options.no_analysis,
        agreed=_switch("YES", default=False) or options.yes,
    )
    return demo.run(root, wishes, source)


VERB = Verb(
    name="demo",
    summary="run a cluster under load, break it twice, judge every record",
    text="""\
A fresh namespace, a cluster `demo` of three brokers, a topic of six partitions, a load that
writes and reads it.
The pod of a leader is deleted and the controller is killed; then every replica's log is read.
Exit code 0 means that nothing was lost, and that enough happened to say so. Run it from the
repository's root.""",
    examples=(
        ("strandline demo", "kind if docker and kind work here, else the cluster under hack/"),
        (
            "strandline demo --cluster current --load 'kind load image-archive'",
            "the cluster of your context; the command is given an archive for each image",
        ),
        ("strandline demo --down", "remove what the demo made"),
    ),
    add_options=_add_options,
    run=_run,
)

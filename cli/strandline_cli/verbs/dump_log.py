"""`strandline dump-log`: the records that lie in a broker's logs."""

from __future__ import annotations

import argparse

from strandline_cli.command_line import Verb


def _add_options(parser: argparse.ArgumentParser) -> None:
    from strandline.dump_log.__main__ import add_options

    add_options(parser)


def _run(options: argparse.Namespace) -> int:
    from strandline.dump_log.__main__ import run

    return run(options)


VERB = Verb(
    name="dump-log",
    summary="print every record of the logs in a data directory",
    text="""\
Also of a running broker: nothing is written and nothing is locked. A damaged log ends with exit
code 1, and what was read before the damage is printed. A broker's image has no `strandline`:
there it is `python -m strandline.dump_log`.""",
    examples=(
        ("strandline dump-log --dir data --topic orders --partition 0", "for people"),
        (
            "strandline dump-log --dir data --topic orders --lines --broker 0 > broker-0.jsonl",
            "for `strandline check`",
        ),
    ),
    add_options=_add_options,
    run=_run,
)

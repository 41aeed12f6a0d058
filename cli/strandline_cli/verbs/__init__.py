"""The verbs of `strandline`: each file is one, and imports its libraries only when it runs."""

from __future__ import annotations

from strandline_cli.command_line import Verb

from . import (
    analysis,
    analysis_score,
    bench,
    check,
    demo,
    describe,
    drain,
    dump_log,
    elect,
    load,
    reassign,
    rebalance,
    recover,
    report,
    sim,
    status,
    undelete,
    watch,
)

GROUPS: dict[str, tuple[Verb, ...]] = {
    "On a cluster": (
        demo.VERB,
        load.VERB,
        bench.VERB,
        status.VERB,
        watch.VERB,
        describe.VERB,
        report.VERB,
        elect.VERB,
        reassign.VERB,
        drain.VERB,
        rebalance.VERB,
        recover.VERB,
        undelete.VERB,
    ),
    "On what was recorded": (dump_log.VERB, check.VERB, analysis.VERB),
    "On one machine, without a cluster": (sim.VERB, analysis_score.VERB),
}
"""The groups and their verbs, in the order of the overview."""

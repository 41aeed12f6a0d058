"""How well the tables of the analysis agree with the truth of a history that was made.

Called by `strandline analysis-score`, and with fewer tables by tests. Needs the packages of the
analysis and Java.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.histories import packages, scores
from bench.histories.plan import Plan, planned
from strandline_analysis.html_report.words import counted
from strandline_cli import tables
from strandline_cli.progress import steps_shown

if TYPE_CHECKING:
    from bench.histories.seen import Seen

SLICE_MS: Final = 3_600_000
CORES: Final = 2
ROOT_CAUSES: Final = "incidents"
"""The table that is scored by the faults that were done: does it name the right broker first?"""
GOOD: Final = 0.95
COLUMNS: Final = (
    *("table", "true", "found", "precision", "recall", "worst duration error"),
    *("missed edges", "between scrapes", "never shown", "known"),
)

Row = Mapping[str, Any]
Rows = Sequence[Row]
Scorer = Callable[..., scores.Score]
"""Called with the rows of a table and the true ones."""


def scorers(interval_ms: int) -> dict[str, Scorer]:
    """Return, by table, how its rows are compared with the true ones.

    Units:   interval_ms is the scrape interval
    """
    partition = ("topic", "partition")
    states = partial(scores.states, interval_ms=interval_ms)
    episodes = partial(scores.episodes, interval_ms=interval_ms)
    events = partial(scores.events, interval_ms=interval_ms)
    return {
        "isr_intervals": partial(states, key=(*partition, "replica"), value="in_isr"),
        "isr_size_intervals": partial(states, key=partition, value="isr_size"),
        "ur_episodes": partial(episodes, key=partition),
        "umi_episodes": partial(episodes, key=partition),
        "at_min_isr": partial(episodes, key=partition),
        "elections": partial(
            events,
            key=(*partition, "epoch"),
            at="t_first_new_ms",
            same=("old_leader", "new_leader"),
            bounds=("no_leader_low_ms", "no_leader_high_ms"),
        ),
        "controller_elections": partial(
            events, key=("epoch",), at="at_ms", same=("new_controller",)
        ),
        "zombie_leaders": partial(episodes, key=(*partition, "broker", "epoch")),
        THROUGHPUT: partial(
            events,
            key=("broker", "topic", "minute_ms", "flow"),
            at="minute_ms",
            same=("bytes", "records"),
        ),
        "truncations": partial(events, key=(*partition, "broker", "leader_epoch"), at="at_ms"),
        "data_at_risk": partial(episodes, key=(*partition, "leader")),
        "isr_churn": partial(
            scores.counts, key=("broker", "window_start_ms"), counted=("shrinks", "expands")
        ),
        "flapping": partial(episodes, key=(*partition, "replica")),
        "failover_quantiles": partial(
            scores.figures,
            key=("kind",),
            pairs=[(f"{each}_low_ms", f"{each}_high_ms") for each in ("p50", "p99", "max")],
        ),
        "slo": partial(
            scores.figures,
            key=("topic", "day_ms"),
            shares=("availability", "produce_availability", "ur_ratio"),
        ),
        "coverage": partial(episodes, key=("pod",)),
        "restarts": partial(events, key=("pod", "new_start_ms"), at="at_ms"),
    }


THROUGHPUT: Final = "replication_throughput"
"""The table whose truth depends on when scrapes were: they cut a minute off."""
SHOWN_IN_PART: Final = frozenset({"zombie_leaders", "truncations", "data_at_risk"})
"""Tables of what may have happened while nobody was scraped."""
UNBRIDGED: Final = frozenset({"ur_episodes", "umi_episodes", "at_min_isr"})
"""Tables that take episodes close together for one, which the truth does not."""
SCORED: Final = (*scorers(1), ROOT_CAUSES)
"""The tables of which histories know the truth, and the incidents."""


def score(*, seed: int, minutes: int, interval_ms: int, chosen: Sequence[str]) -> int:
    """Make a history, analyse what scrapes saw of it, and print the scores; return the exit code.

    Units:   interval_ms is the scrape interval
    """
    packages.importable()
    from strandline_analysis.session import local_session  # noqa: PLC0415

    plan = planned(Plan(seed=seed, length_ms=minutes * 60_000, topics=2, partitions=2))
    with (
        tempfile.TemporaryDirectory(prefix="strandline-score-") as made,
        steps_shown("the scores", len(chosen) + 2) as tell,
    ):
        folder = Path(made)
        write_history(plan, folder / "history", interval_ms=interval_ms)
        tell("the history")
        spark = local_session(cores=CORES, folder=folder / "spark")
        tell("Spark's session")
        try:
            given = folder / "history"
            found = dict(
                scored(spark, plan, given, interval_ms=interval_ms, chosen=chosen, tell=tell)
            )
        finally:
            spark.stop()
    print(
        f"Seed {seed}: {minutes} minutes, {len(plan.faults)} faults, "
        f"scraped every {interval_ms} ms."
    )
    show(found)
    return 0


def write_history(plan: Plan, folder: Path, *, interval_ms: int) -> None:
    """Write the samples and the truth of a plan."""
    from .histories.written import write  # noqa: PLC0415 - after its packages

    write([plan], folder, interval_ms=interval_ms, slice_ms=SLICE_MS, text=False)


def scored(
    spark: Any,
    plan: Plan,
    folder: Path,
    *,
    interval_ms: int,
    chosen: Sequence[str],
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[str, scores.Score]]:
    """Yield the score of each chosen table of a history that was written into a folder."""
    import pyarrow.parquet  # noqa: PLC0415 - after its packages

    from strandline_analysis.lake import read_lake  # noqa: PLC0415
    from strandline_analysis.lake_slices import opened  # noqa: PLC0415
    from strandline_analysis.tables import ANALYSES  # noqa: PLC0415

    lake = opened(folder / "lake")
    ranged = {"start_ms": plan.start_ms, "end_ms": plan.end_ms}
    for name in chosen:
        analysis = ANALYSES[name]
        metrics = [metric.name for metric in analysis.metrics]
        samples = read_lake(spark, lake, metrics=metrics, **ranged)
        lag = {"lag_time_max_ms": plan.lag_time_max_ms} if analysis.of_lag_time else {}
        exact = {"merge_gap_ms": 0} if name in UNBRIDGED else {}
        frame = analysis.make(samples, interval_ms=interval_ms, **ranged, **lag, **exact)
        rows = frame.toArrow().to_pylist()
        truth = "faults" if name == ROOT_CAUSES else name
        path = folder / "truth" / plan.cluster / f"{truth}.parquet"
        true = pyarrow.parquet.read_table(path).to_pylist()
        yield name, of_table(name, rows, true, plan=plan, interval_ms=interval_ms)
        tell(f"table {name}")


def of_table(name: str, rows: Rows, true: Rows, *, plan: Plan, interval_ms: int) -> scores.Score:
    """Return the score of one table; for incidents the truth are the faults of the plan."""
    if name == ROOT_CAUSES:
        return scores.root_causes(rows, true, settle_ms=plan.settle_ms)
    seen = _seen(plan, interval_ms)
    shown_true, scorer = seen.truth(name, true), scorers(interval_ms)[name]
    if name in SHOWN_IN_PART:
        found = scorer(rows, shown_true, can_show=partial(seen.can_show, name))
    else:
        found = scorer(rows, shown_true)
    if name == THROUGHPUT:
        key = ("broker", "topic", "minute_ms")
        told = {tuple(row[each] for each in key) for row in shown_true}
        missing = sum(tuple(row[each] for each in key) not in told for row in true)
        found = replace(found, unseen=missing)
    return found


@cache
def _seen(plan: Plan, interval_ms: int) -> Seen:
    from .histories.seen import Seen  # noqa: PLC0415 - after its packages

    return Seen(plan, interval_ms=interval_ms)


def show(found: Mapping[str, scores.Score]) -> None:
    """Print the scores, and what they say of the root causes in words."""
    rows = [shown(name, each) for name, each in found.items()]
    styles = [style(each) for each in found.values()]
    tables.show(COLUMNS, rows, left={"table"}, styles=styles)
    if ROOT_CAUSES in found:
        causes = found[ROOT_CAUSES]
        surplus = causes.found - causes.expected
        print(
            f"The broker that a fault hit was named first for {causes.matched} of "
            f"{counted(causes.expected, 'fault')}; {counted(surplus, 'incident')} without a fault."
        )


def shown(name: str, found: scores.Score) -> tuple[str, ...]:
    """Return a score as texts in the order of COLUMNS; what a shape does not have is empty."""
    return (
        "root causes" if name == ROOT_CAUSES else name,
        str(found.expected),
        str(found.found),
        f"{found.precision:.3f}",
        f"{found.recall:.3f}",
        f"{found.worst_duration_error_ms} ms",
        str(found.missed_edges),
        str(found.missed_between_scrapes),
        str(found.unseen),
        f"{found.coverage:.1%}" if found.total_ms else "",
    )


def style(found: scores.Score) -> str:
    """Return the colour of a row: green if nothing was wrong or missed, red if much was."""
    least = min(found.precision, found.recall)
    return "green" if least == 1 else "yellow" if least >= GOOD else "red"

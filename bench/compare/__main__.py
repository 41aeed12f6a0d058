"""Strandline beside Apache Kafka: `make bench-kafka`, `python -m bench.compare --trials bulk-1`.

Both clusters are up at once and take turns: the order turns round with each round. Java is warm:
Kafka takes GiB after GiB until it becomes no faster, and the trials that end its processes come
last. A trial beside which other programs used a tenth of the machine is void and comes again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from bench.report import host_info
from strandline_cli import tables
from strandline_cli.clusters import cache_folder

from .bulk import NoCompiler, compiled
from .cluster import Cluster, NotFormed
from .figures import FIGURES, Figure, Row, row_of
from .kafka_cluster import KafkaCluster, jars
from .strandline_cluster import StrandlineCluster
from .trials import ALONE, BESIDE, ENDING, IDLE_PARTITIONS, IDLE_TOPIC, Machine, Trial, Values
from .warming import WARM_GIB_MAX, warm

FOREIGN_MAX: Final = 0.1
"""Share of the machine's processors that other programs may use beside a trial."""
VOID_MAX: Final = 2
"""How often a void trial comes again; the last one counts, and its figures are marked."""
INTERRUPTED: Final = 130
"""Exit code of a program that Ctrl-C ended."""
COLUMNS: Final = ("figure", "unit", "Strandline", "Kafka", "ratio", "least to most", "goal", "")

Found = dict[str, dict[str, list[Values]]]
"""By trial, then by cluster, one for each round."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials and print the table; 1 if a cluster or the client failed."""
    parser = argparse.ArgumentParser(prog="bench.compare")
    every = [*ALONE, *BESIDE, *ENDING]
    parser.add_argument("--trials", nargs="+", choices=every, default=every, metavar="TRIAL")
    parser.add_argument("--rounds", type=int, default=5, help="each trial at both clusters (5)")
    parser.add_argument("--mib", type=int, default=1536, help="of a bulk trial (1536)")
    warm_help = f"for Kafka's Java, at most ({WARM_GIB_MAX})"
    parser.add_argument("--warm-gib", type=int, default=WARM_GIB_MAX, help=warm_help)
    parser.add_argument("--alone", action="store_true", help="without Kafka: needs no Java")
    parser.add_argument("--cold-pages", action="store_true", help="wait, rather than touch memory")
    parser.add_argument("--folder", type=Path, help="on the disk that the logs shall use")
    given = parser.parse_args(arguments)
    print(host_info())
    found: Found = {}
    void: list[str] = []
    code = 0
    with tempfile.TemporaryDirectory(prefix="bench-compare-", dir=given.folder) as made:
        try:
            _measure(Path(made), given, found, void)
        except (NoCompiler, NotFormed, KafkaException, subprocess.SubprocessError) as error:
            print(f"error: {error}", file=sys.stderr)
            code = 1
        except KeyboardInterrupt:
            print("ended: the table has what was measured until now", file=sys.stderr)
            code = INTERRUPTED
    if not found:
        return code
    rows = [row for each in FIGURES if (row := _row(each, found)) is not None]
    _show(rows, void)
    print(f"every value: {_written(given, found, void)}")
    return code


def _measure(folder: Path, given: argparse.Namespace, found: Found, void: list[str]) -> None:
    """Run the trials; what was found before an error stays."""
    if not given.alone:
        jars()  # what is missing is told before anything starts
    bulk = compiled(folder)
    with ExitStack() as stack:
        clusters: list[Cluster] = []
        kinds = (StrandlineCluster,) if given.alone else (StrandlineCluster, KafkaCluster)
        for kind in kinds:
            (folder / kind.name).mkdir()
            clusters.append(kind(folder / kind.name))
            stack.callback(clusters[-1].stop)
            clusters[-1].start()
        machine = Machine(tuple(clusters), bulk=bulk, mib=given.mib, cold_pages=given.cold_pages)
        for cluster in clusters:
            warm(machine, cluster, given.warm_gib)
        _rounds(machine, _chosen(ALONE, given.trials), given.rounds, found, void)
        beside = _chosen(BESIDE, given.trials)
        if beside:
            for cluster in clusters:
                cluster.create_topic(IDLE_TOPIC, IDLE_PARTITIONS)
            _rounds(machine, beside, given.rounds, found, void)
            for cluster in clusters:
                cluster.delete_topic(IDLE_TOPIC)
        _rounds(machine, _chosen(ENDING, given.trials), given.rounds, found, void)


def _chosen(trials: dict[str, Trial], names: Sequence[str]) -> dict[str, Trial]:
    return {name: trial for name, trial in trials.items() if name in names}


def _rounds(
    machine: Machine, trials: dict[str, Trial], rounds: int, found: Found, void: list[str]
) -> None:
    for number in range(rounds):
        for name, trial in trials.items():
            turn = machine.clusters if number % 2 == 0 else machine.clusters[::-1]
            for cluster in turn:
                values = _tried(machine, name, trial, cluster, void)
                found.setdefault(name, {}).setdefault(cluster.name, []).append(values)
                told = ", ".join(f"{key} {value:.4g}" for key, value in values.items())
                print(f"round {number + 1}: {name}: {cluster.name}: {told}", flush=True)


def _tried(machine: Machine, name: str, trial: Trial, cluster: Cluster, void: list[str]) -> Values:
    for _ in range(VOID_MAX + 1):
        machine.used.clear()
        values = trial(machine, cluster)
        seconds = sum(used.seconds for used in machine.used) * (os.cpu_count() or 1)
        foreign = sum(used.foreign for used in machine.used) / seconds if seconds else 0.0
        if foreign <= FOREIGN_MAX:
            return values
        print(f"void: {name}: {cluster.name}: others used {foreign:.0%}", flush=True)
    void.append(name)
    return values


def _row(figure: Figure, found: Found) -> Row | None:
    values = {
        cluster: [each[figure.name] for each in rounds if figure.name in each]
        for cluster, rounds in found.get(figure.trial, {}).items()
    }
    return row_of(figure, values)


def _show(rows: Sequence[Row], void: Sequence[str]) -> None:
    styles = {True: "green", False: "red", None: ""}
    shown = [_cells(row, is_void=row.figure.trial in void) for row in rows]
    colours = [styles[row.met] for row in rows]
    tables.show(COLUMNS, shown, left=("figure", "unit"), styles=colours)


def _cells(row: Row, *, is_void: bool) -> tuple[str, ...]:
    figure, sign = row.figure, "at least" if row.figure.more_is_better else "at most"
    goal = "" if figure.goal is None else f"{sign} {figure.goal:g} x"
    goal = f"{sign} {figure.aim:g} {figure.unit}" if figure.aim is not None else goal
    remark = {True: "met", False: "missed", None: ""}[row.met]
    return (
        figure.title,
        figure.unit,
        f"{row.ours:.3g}",
        "" if row.theirs is None else f"{row.theirs:.3g}",
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if row.ratios is None else f"{row.ratios[0]:.2f} to {row.ratios[1]:.2f}",
        goal,
        f"{remark}, beside other work" if is_void else remark,
    )


def _written(given: argparse.Namespace, found: Found, void: Sequence[str]) -> Path:
    """Write every value, with the machine and the settings, and return the file."""
    settings = {key: str(value) for key, value in vars(given).items()}
    whole = {"host": asdict(host_info()), "settings": settings, "found": found, "void": [*void]}
    folder = cache_folder() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"compare-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(whole, indent=1))
    return path


if __name__ == "__main__":
    sys.exit(main())

"""Make histories: `python -m bench.histories FOLDER`.

The folder gets a lake with the samples, the true tables of each cluster, and on demand the text
for promtool. The last line that it prints is the range, as `strandline analysis --lake` takes it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import packages
from .plan import FaultKind, Plan, planned


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what the arguments ask for, and print what was made."""
    parser = argparse.ArgumentParser(prog="bench.histories")
    parser.add_argument("folder", type=Path, help="folder that is made")
    parser.add_argument("--seed", type=int, default=0, help="of all chance (0)")
    parser.add_argument("--minutes", type=int, default=30, help="length of the range (30)")
    parser.add_argument("--interval-ms", type=int, default=5000, help="scrape interval (5000)")
    parser.add_argument("--slice-ms", type=int, default=3_600_000, help="slices of the lake (1 h)")
    parser.add_argument("--brokers", type=int, default=3, help="brokers of a cluster (3)")
    parser.add_argument("--topics", type=int, default=4, help="topics of a cluster, up to 500 (4)")
    parser.add_argument("--partitions", type=int, default=3, help="partitions of a topic (3)")
    parser.add_argument("--clusters", nargs="+", default=["blue"], help="names of clusters (blue)")
    parser.add_argument("--faults", nargs="+", default=[*FaultKind], help="kinds of faults (all)")
    parser.add_argument("--text", action="store_true", help="also samples.txt for promtool")
    given = parser.parse_args(arguments)
    try:
        kinds = [FaultKind(kind) for kind in given.faults]
        plans = [
            planned(
                Plan(
                    cluster=name,
                    seed=given.seed,
                    length_ms=given.minutes * 60_000,
                    brokers=given.brokers,
                    replicas=min(3, given.brokers),
                    topics=given.topics,
                    partitions=given.partitions,
                ),
                kinds,
            )
            for name in given.clusters
        ]
    except ValueError as error:
        parser.error(str(error))
    packages.importable()
    from .written import write  # noqa: PLC0415 - after its packages

    count = write(
        plans,
        given.folder,
        interval_ms=given.interval_ms,
        slice_ms=given.slice_ms,
        text=given.text,
    )
    faults = sum(len(plan.faults) for plan in plans)
    print(f"{given.folder}: {count} samples, {faults} faults")
    print(f"--start {plans[0].start_ms} --end {plans[0].end_ms}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The rows of every table: of a short history in which each kind of fault comes once, or a second.

The second one is for tables for which the first has nothing to show.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.histories.plan import FaultKind, Plan, planned
from strandline_analysis.html_report.words import Range

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PICTURES: Final = ROOT / "docs" / "pictures"
KEPT: Final = PICTURES / "example.json"
PAGE: Final = ROOT / "docs" / "tables.md"
INTERVAL_MS: Final = 1_000
SLICE_MS: Final = 3_600_000
PLAN: Final = planned(Plan(seed=12, length_ms=720_000, topics=2, partitions=1))
SECOND: Final = planned(
    Plan(seed=9, length_ms=240_000, topics=1, partitions=1), [FaultKind.UNCLEAN, FaultKind.ZOMBIE]
)
"""Of the tables for which the first history has nothing to show."""
OF_SECOND: Final = frozenset({"umi_episodes", "zombie_leaders"})


def plan_of(name: str) -> Plan:
    """Return the history whose rows are shown of a table."""
    return SECOND if name in OF_SECOND else PLAN


def window_of(name: str) -> Range:
    """Return the range of a table's rows."""
    plan = plan_of(name)
    return Range(
        start_ms=plan.start_ms,
        end_ms=plan.end_ms,
        interval_ms=INTERVAL_MS,
        lag_time_max_ms=plan.lag_time_max_ms,
    )


WINDOW: Final = window_of("isr_intervals")

Tables = Mapping[str, Sequence[Mapping[str, Any]]]


def made(spark: Any, folder: Path, tell: Callable[[str], None]) -> Tables:
    """Return the rows that the analysis makes of the histories; folder takes their samples."""
    from bench.histories.written import write  # noqa: PLC0415 - after its packages
    from strandline_analysis.tables import ANALYSES  # noqa: PLC0415

    for number, plan in enumerate((PLAN, SECOND)):
        made_in = folder / str(number)
        write([plan], made_in, interval_ms=INTERVAL_MS, slice_ms=SLICE_MS, text=False)
    found: dict[str, Any] = {}
    for name in ANALYSES:
        lake = folder / str(int(name in OF_SECOND)) / "lake"
        found[name] = one(spark, name, lake, found)
        tell(f"table {name}")
    return {name: table.to_pylist() for name, table in found.items()}


def one(spark: Any, name: str, lake: Path, before: Mapping[str, Any]) -> Any:
    """Return a table in Arrow; before holds those that it is made of."""
    from strandline_analysis.job import in_order  # noqa: PLC0415 - after its packages
    from strandline_analysis.lake import read_lake  # noqa: PLC0415
    from strandline_analysis.lake_slices import opened  # noqa: PLC0415
    from strandline_analysis.tables import ANALYSES  # noqa: PLC0415

    plan, analysis = plan_of(name), ANALYSES[name]
    ranged = {"start_ms": plan.start_ms, "end_ms": plan.end_ms}
    metrics = [metric.name for metric in analysis.metrics]
    samples = read_lake(spark, opened(lake), metrics=metrics, **ranged)
    of = {each: spark.createDataFrame(before[each]) for each in analysis.made_of}
    lag = {"lag_time_max_ms": plan.lag_time_max_ms} if analysis.of_lag_time else {}
    frame = analysis.make(samples, interval_ms=INTERVAL_MS, **ranged, **of, **lag)
    return in_order(frame.toArrow())


def text_of(tables: Tables) -> str:
    """Return tables as JSON with one row in a line."""
    parts = []
    for name in sorted(tables):
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in tables[name])
        parts.append(f'"{name}": [\n{rows}\n]' if rows else f'"{name}": []')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def kept() -> Tables:
    """Return the rows that are kept for the pictures."""
    found: Tables = json.loads(KEPT.read_text(encoding="utf-8"))
    return found

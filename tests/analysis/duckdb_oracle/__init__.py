"""The second oracle: tables of the analysis as SQL that DuckDB runs over the same samples.

It shares nothing with the analysis but the definitions: no Spark, no Python over rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb

from tests.analysis.generated import History, together
from tests.analysis.reference.holding import Range

FOLDER = Path(__file__).parent
EPISODES = ("ur_episodes", "umi_episodes", "at_min_isr")
TABLES = (
    *("isr_intervals", "isr_size_intervals", *EPISODES, "elections", "isr_churn", "coverage"),
    *("restarts", "replication_throughput", "slo"),
)
"""Tables that the oracle has."""
NUMBERS = ("partition", "replica")
"""Labels that are columns with whole numbers."""


def table_of(
    name: str,
    histories: Iterable[History],
    of: Range,
    *,
    merge_gap_ms: int = 30_000,
    target: float = 0.999,
) -> list[dict[str, Any]]:
    """Return a table of histories, as DuckDB makes it."""
    macros = {
        "start_ms": of.start_ms,
        "end_ms": of.end_ms,
        "interval_ms": of.interval_ms,
        "gap_ms": of.gap_ms,
        "merge_gap_ms": merge_gap_ms,
        "target": target,
    }
    with duckdb.connect() as database:
        database.register("given", _samples(together(histories)))
        database.execute("CREATE TABLE samples AS FROM given")
        for macro, value in macros.items():
            database.execute(f"CREATE MACRO {macro}() AS {value}")
        for file in ("tables.sql", "answers.sql"):
            database.execute((FOLDER / file).read_text())
        wanted = f"SELECT * EXCLUDE (kind) FROM episodes WHERE kind = '{name}'"
        found = database.execute(wanted if name in EPISODES else f"FROM {name}")
        columns = [each[0] for each in found.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


def _samples(history: History) -> Any:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {name: [] for name in SHAPE}
    for number, (labels, samples) in enumerate(history.items()):
        named = dict(labels)
        shown = {
            "series_id": number,
            "metric": named["__name__"],
            "labels": list(labels),
            **{name: named.get(name) for name in ("pod", "instance", "topic")},
            **{name: int(named[name]) if name in named else None for name in NUMBERS},
        }
        for name, value in shown.items():
            columns[name] += [value] * len(samples)
        columns["ts"] += [at for at, _ in samples]
        columns["value"] += [value for _, value in samples]
        columns["stale"] += [value is None for _, value in samples]
    kinds = {
        "string": pa.string(),
        "long": pa.int64(),
        "integer": pa.int32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "map": pa.map_(pa.string(), pa.string()),
    }
    return pa.table({name: pa.array(columns[name], kinds[kind]) for name, kind in SHAPE.items()})


SHAPE = {
    "series_id": "long",
    "metric": "string",
    "pod": "string",
    "instance": "string",
    "topic": "string",
    "partition": "integer",
    "replica": "integer",
    "labels": "map",
    "ts": "long",
    "value": "double",
    "stale": "boolean",
}

"""The second oracle: tables of the analysis as SQL that DuckDB runs over the same samples.

It shares nothing with the analysis but the definitions: no Spark, no Python over rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from tests.analysis.generated import History, together
from tests.analysis.reference.holding import Range

FOLDER = Path(__file__).parent
FILES = ("tables", "leaders", "offsets", "answers", "replay", "incidents")
BASES = ("held", "scrape", "state", "size", "led", "leadership", "process", "election")
"""Views that many tables stand on: each is made once for all of them."""
EPISODES = ("ur_episodes", "umi_episodes", "at_min_isr")
EPISODE = (
    "kind VARCHAR, start_ms BIGINT, end_ms BIGINT, topic VARCHAR, partition INTEGER, broker INTEGER"
)
NUMBERS = ("partition", "replica")
"""Labels that are columns with whole numbers."""


class Oracle:
    """The tables of some histories, as DuckDB makes them."""

    def __init__(self, histories: Iterable[History], of: Range) -> None:
        self.database = duckdb.connect()
        self.database.register("given", _samples(together(histories)))
        self.database.execute("CREATE TABLE samples AS FROM given")
        macros = {"start_ms": of.start_ms, "end_ms": of.end_ms, "interval_ms": of.interval_ms}
        self._set(gap_ms=of.gap_ms, **macros)
        self._set(merge_gap_ms=30_000, target=0.999, stall_ms=10_000, lag_time_max_ms=30_000)
        for file in FILES:
            text = (FOLDER / f"{file}.sql").read_text()
            for base in BASES:
                text = text.replace(f"CREATE VIEW {base} AS", f"CREATE TABLE {base} AS")
            self.database.execute(text)

    def table(self, name: str, **settings: float) -> list[dict[str, Any]]:
        """Return a table; settings have the names of the macros, and stay until set again."""
        self._set(**settings)
        columns = self.columns(name)
        return [dict(zip(columns, row, strict=True)) for row in self.database.fetchall()]

    def columns(self, name: str) -> list[str]:
        """Ask for a table, and return the names of its columns."""
        wanted = f"SELECT * EXCLUDE (kind) FROM episodes WHERE kind = '{name}'"
        self.database.execute(wanted if name in EPISODES else f"FROM {name}")
        return [each[0] for each in self.database.description or ()]

    def _set(self, **macros: float) -> None:
        for macro, value in macros.items():
            self.database.execute(f"CREATE OR REPLACE MACRO {macro}() AS {value}")


def incidents_of(
    episodes: Iterable[tuple[Any, ...]], replicas: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return the incidents of episodes, and of how many replicas each broker has.

    Shape:   an episode is kind, start_ms, end_ms, topic, partition, broker
    """
    oracle = Oracle([], Range(start_ms=0, end_ms=1, interval_ms=1))
    for name, columns, rows in (
        ("amiss", EPISODE, [*episodes]),
        ("replica_count", "broker INTEGER, replicas BIGINT", [*replicas.items()]),
    ):
        oracle.database.execute(f"CREATE TABLE given_{name} ({columns})")
        marks = ", ".join("?" * (columns.count(",") + 1))
        oracle.database.executemany(f"INSERT INTO given_{name} VALUES ({marks})", rows)
        oracle.database.execute(f"CREATE OR REPLACE VIEW {name} AS FROM given_{name}")
    return oracle.table("incidents")


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

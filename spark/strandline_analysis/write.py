"""Writes tables into a folder: Parquet and CSV for each, then summary.json.

Called by `job` on the driver: result tables are small, however much was read. A folder with a
summary.json is complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

SUMMARY: Final = "summary.json"


def write_tables(out: Path, tables: Mapping[str, pa.Table], summary: Mapping[str, Any]) -> None:
    """Write every table and the summary, replacing those of an earlier run."""
    out.mkdir(parents=True, exist_ok=True)
    (out / SUMMARY).unlink(missing_ok=True)
    for name, rows in tables.items():
        pyarrow.parquet.write_table(rows, out / f"{name}.parquet", compression="zstd")
        pyarrow.csv.write_csv(rows, out / f"{name}.csv")
    part = out / f"{SUMMARY}.part"
    part.write_text(json.dumps(summary, indent=2, sort_keys=True) + "\n")
    part.replace(out / SUMMARY)


def summary_of(tables: Mapping[str, pa.Table], **facts: Any) -> dict[str, Any]:
    """Return the content of summary.json: the given facts and each table's number of rows."""
    return {**facts, "rows": {name: rows.num_rows for name, rows in tables.items()}}

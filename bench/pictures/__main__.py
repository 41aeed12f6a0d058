"""Make docs/tables.md and its pictures: `python -m bench.pictures`, or with --draw from kept rows.

Rows are made anew with Spark, which takes minutes; --draw leaves them as they are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.histories import packages

from . import example
from .drawn import PICTURES, svg_of
from .page import page_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the rows, the pictures and the page."""
    parser = argparse.ArgumentParser(prog="bench.pictures")
    parser.add_argument("--draw", action="store_true", help="from the rows that are kept")
    if not parser.parse_args(arguments).draw:
        example.PICTURES.mkdir(exist_ok=True)
        example.KEPT.write_text(_rows(), encoding="utf-8")
    tables = example.kept()
    for name in PICTURES:
        (example.PICTURES / f"{name}.svg").write_text(svg_of(name, tables), encoding="utf-8")
    example.PAGE.write_text(page_of(tables), encoding="utf-8")
    return 0


def _rows() -> str:
    packages.importable()
    from strandline_analysis.few_rows import PLANS_OF_FEW  # noqa: PLC0415 - after its packages
    from strandline_analysis.session import local_session  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="strandline-pictures-") as made:
        folder = Path(made)
        spark = local_session(cores=2, folder=folder / "spark")
        try:
            for name, value in PLANS_OF_FEW.items():
                spark.conf.set(name, value)
            return example.text_of(example.made(spark, folder / "history", print))
        finally:
            spark.stop()


if __name__ == "__main__":
    sys.exit(main())

"""One engine makes ISR intervals once: `python -m bench.analysis.engines ENGINE FOLDER [URL]`.

A process of its own, so that its CPU time and its memory are its alone. The last line that it
prints is JSON, which `__main__` reads; starts of Python and Spark do not count.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from .asked import COMPARED_SAMPLES_MAX, Asked, Work
from .made import noted
from .processes import used

ENGINES: Final = {
    "spark-lake": ("on_spark", "lake"),
    "duckdb-plain": ("on_duckdb", "plain"),
    "duckdb-changes": ("on_duckdb", "changes"),
    "spark-prometheus": ("on_spark", "prometheus"),
    "pandas-prometheus": ("on_pandas", "prometheus"),
}
"""Module and function, so that each engine loads its own packages alone."""


def main(arguments: Sequence[str]) -> int:
    """Let one engine work and print what it took."""
    engine, folder, url = (*arguments, "")[:3]
    history = noted(Path(folder))
    # Spark may still write there when its process ends.
    with TemporaryDirectory(prefix="bench-analysis-", ignore_cleanup_errors=True) as scratch:
        asked = Asked(
            folder=Path(folder),
            start_ms=history.start_ms,
            end_ms=history.end_ms,
            scratch=Path(scratch),
            url=url,
            is_counted=history.samples > COMPARED_SAMPLES_MAX,
        )
        module, function = ENGINES[engine]
        work = getattr(importlib.import_module(f"{__package__}.{module}"), function)(asked)
        print(json.dumps(figures_of(work)))
    return 0


def figures_of(work: Work) -> dict[str, Any]:
    """Do the work, and return what it took and gave."""
    before, begun = used(), time.monotonic()
    rows, through_python = work()
    seconds, after = time.monotonic() - begun, used()
    return {
        "seconds": seconds,
        "cpu_seconds": after.cpu_seconds - before.cpu_seconds,
        "peak_bytes": after.peak_bytes,
        "rows": rows if isinstance(rows, int) else len(rows),
        "digest": "" if isinstance(rows, int) else _digest(rows),
        "through_python": through_python,
    }


def _digest(rows: list[tuple[Any, ...]]) -> str:
    return hashlib.sha256(repr(sorted(rows, key=repr)).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The analysis beside DuckDB and beside pandas: `python -m bench.analysis`.

Every engine makes the same ISR intervals of the same history, in a process of its own. The
engines alternate within one run; a figure is the median. Those that read Parquet must agree in
every row, or the bench fails. What is measured, README.md tells.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.histories import packages
from bench.report import host_info
from strandline_cli.clusters import cache_folder
from tests.support.prometheus_program import PrometheusProgram, prepared_programs

from .asked import COMPARED_SAMPLES_MAX
from .made import TEXT, Made, made

ROOT: Final = Path(__file__).resolve().parent.parent.parent
REQUIREMENTS: Final = ROOT / "requirements" / "bench.txt"
PREPARE_LIMIT_SECONDS: Final = 900
ENGINE_LIMIT_SECONDS: Final = 7200
ON_PARQUET: Final = ("spark-lake", "duckdb-plain", "duckdb-changes")
ON_PROMETHEUS: Final = ("spark-prometheus", "pandas-prometheus")
PROMETHEUS_MAX: Final = 10_000_000
"""promtool makes blocks of text, 160 bytes a sample, and pandas holds every sample as an object."""
PLAIN_MAX: Final = 10_000_000
"""DuckDB's plain form looks at every sample in each step; of more it tells nothing new."""
AIMS: Final = {"parquet": 3.0, "prometheus": 10.0, "slope": 1.1}

Figures = dict[str, Any]
Cells = dict[tuple[int, str], list[Figures]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every engine at every size and print figures, ratios and slopes."""
    parser = argparse.ArgumentParser(prog="bench.analysis")
    sizes, usual = "numbers of samples, as in 1e6", ["1e6", "1e7"]
    parser.add_argument("--samples", nargs="+", default=usual, help=f"{sizes} (1e6 1e7)")
    parser.add_argument("--runs", type=int, default=3, help="alternations of all engines (3)")
    parser.add_argument("--seed", type=int, default=1, help="of the histories (1)")
    parser.add_argument("--folder", type=Path, help="where histories are kept; a temporary one")
    given = parser.parse_args(arguments)
    wanted = sorted({int(float(each)) for each in given.samples})
    folders = _packages()
    sys.path += folders
    print(host_info())
    cells: Cells = {}
    with TemporaryDirectory(prefix="bench-analysis-") as temporary:
        for size in wanted:
            folder = (given.folder or Path(temporary)) / str(size)
            history = made(folder, size, seed=given.seed, text=size <= PROMETHEUS_MAX)
            print(f"{history.samples} samples, {history.faults} faults", flush=True)
            with _prometheus(folder, size) as url:
                for _ in range(given.runs):
                    for engine in _engines(size):
                        figures = _measured(engine, folder, url, folders)
                        cells.setdefault((history.samples, engine), []).append(figures)
            _show(history, {e: cells[history.samples, e] for e in _engines(size)})
    _show_slopes(cells)
    return 0


def _engines(size: int) -> list[str]:
    """Return the engines that can do so many samples; DuckDB needs 10 GiB for 1e8 of them."""
    if size > COMPARED_SAMPLES_MAX:
        return ["spark-lake"]
    found = [each for each in ON_PARQUET if size <= PLAIN_MAX or each != "duckdb-plain"]
    return [*found, *(ON_PROMETHEUS if size <= PROMETHEUS_MAX else ())]


def _packages() -> list[str]:
    """Return the folders of the packages of the analysis and of those that only this bench uses."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    own = cache_folder() / f"bench-{digest}"
    if not own.exists():
        part = own.with_suffix(".part")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes"]
        subprocess.run(
            [*install, "--upgrade", "--target", str(part), "-r", str(REQUIREMENTS)],
            check=True,
            timeout=PREPARE_LIMIT_SECONDS,
        )
        part.replace(own)
    return [packages.made(), str(own)]


@contextmanager
def _prometheus(folder: Path, size: int) -> Iterator[str]:
    """Run a Prometheus that holds the history; yield its URL, empty if the history is too large."""
    if size > PROMETHEUS_MAX:
        yield ""
        return
    with TemporaryDirectory(prefix="bench-prometheus-") as data:
        program = PrometheusProgram(prepared_programs(), Path(data))
        program.load_file(folder / TEXT)
        program.start()
        try:
            yield program.url
        finally:
            program.stop()


def _measured(engine: str, folder: Path, url: str, packed: Sequence[str]) -> Figures:
    """Let an engine work once, in its own process."""
    folders = (ROOT, *(ROOT / name for name in ("spark", "broker_image", "cli", "protos")))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, folders), *packed])}
    command = [sys.executable, "-m", "bench.analysis.engines", engine, str(folder), url]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment,
        timeout=ENGINE_LIMIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{engine} failed:\n{done.stderr[-4000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures | {"load": os.getloadavg()[0]}


def _show(history: Made, measured: Mapping[str, Sequence[Figures]]) -> None:
    """Print the table of one size; end the bench if engines on the same samples disagree."""
    # A text for promtool holds no stale marker, so Prometheus does not give the same samples.
    digests = {figures["digest"] for e in ON_PARQUET if e in measured for figures in measured[e]}
    if len(digests) != 1:
        raise SystemExit("the engines made different intervals")
    head = ("engine", "wall s", "CPU s", "peak MiB", "samples/s", "through Python", "load")
    print("{:>18} {:>8} {:>8} {:>9} {:>11} {:>14} {:>5}".format(*head))
    for engine, runs in measured.items():
        wall, cpu, peak, load = (
            median(figures[name] for figures in runs)
            for name in ("seconds", "cpu_seconds", "peak_bytes", "load")
        )
        print(
            f"{engine:>18} {wall:8.2f} {cpu:8.2f} {peak / 2**20:9.0f} "
            f"{history.samples / wall:11.0f} {runs[0]['through_python']:14} {load:5.1f}"
        )
    on_duckdb = [each for each in measured if each.startswith("duckdb")]
    if not on_duckdb:
        return
    best = min(on_duckdb, key=lambda each: median(f["seconds"] for f in measured[each]))
    _ratio(measured, "spark-lake", best, f"at most {AIMS['parquet']}")
    if "pandas-prometheus" in measured:
        _ratio(measured, "pandas-prometheus", "spark-prometheus", f"at least {AIMS['prometheus']}")


def _ratio(measured: Mapping[str, Sequence[Figures]], one: str, other: str, aim: str) -> None:
    """Print the median ratio of two engines' times, run by run."""
    pairs = list(zip(measured[one], measured[other], strict=True))
    wall, cpu = (median(a[name] / b[name] for a, b in pairs) for name in ("seconds", "cpu_seconds"))
    print(
        f"{one} : {other} = {wall:.2f} by the clock, {cpu:.2f} in CPU time; aim: {aim}", flush=True
    )


def _show_slopes(cells: Cells) -> None:
    """Print how the CPU time of each engine grows from one size to the next."""
    for engine in (*ON_PARQUET, *ON_PROMETHEUS):
        sizes = sorted(size for size, name in cells if name == engine)
        for small, large in pairwise(sizes):
            times = [
                median(figures["cpu_seconds"] for figures in cells[size, engine])
                for size in (small, large)
            ]
            slope = math.log(times[1] / times[0]) / math.log(large / small)
            aim = f"; aim: at most {AIMS['slope']}" if engine.startswith("spark") else ""
            print(f"{engine}: log-log slope {slope:.2f} from {small:.0e} to {large:.0e}{aim}")


if __name__ == "__main__":
    sys.exit(main())

"""How long the first `make demo` of a machine takes.

`python -m bench.cold_demo` clones the tree into a temporary folder, with caches of its own that are
empty: images, programs, Go's modules and compiled packages, pip's downloads. What Debian packages
this machine has it keeps. Afterwards it takes the demo's cluster down and removes everything.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from strandline_cli import tables

from .report import host_info

AIM_SECONDS = 720
LIMIT_SECONDS = 3600
"""A demo that takes longer is ended."""
ROOT = Path(__file__).parents[1]
STEP = re.compile(r"\[ *[\d.]+s\] (?P<what>\S.*): (?P<seconds>[\d.]+) s$")
"""The end of a step of the demo, as it prints it."""
BUSY = 3
"""Fields of /proc/stat's first line that count work: user, nice, system."""


def empty_caches(folder: Path) -> dict[str, str]:
    """Return variables that lead every cache into this folder."""
    names = {
        "STRANDLINE_CACHE": "strandline",
        "GOCACHE": "compiled",
        "GOMODCACHE": "modules",
        "PIP_CACHE_DIR": "pip",
        "XDG_CACHE_HOME": "others",
    }
    return {variable: str(folder / name) for variable, name in names.items()}


def busy_seconds() -> float:
    """Return the CPU seconds of all cores since this machine began."""
    fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    return sum(map(int, fields[:BUSY])) / os.sysconf("SC_CLK_TCK")


def lines_of(tree: Path, target: str, env: Mapping[str, str]) -> Iterator[str]:
    """Run a target of make and pass its lines on.

    Raises:  subprocess.CalledProcessError
    """
    command = ["timeout", str(LIMIT_SECONDS), "make", target, "CLUSTER=hack"]
    with subprocess.Popen(
        command,
        cwd=tree,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            yield line.rstrip("\n")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def steps_of(lines: Iterator[str]) -> list[tuple[str, float]]:
    """Return the steps that a demo told, with their seconds."""
    found = (STEP.match(line) for line in lines)
    return [(each["what"], float(each["seconds"])) for each in found if each]


def measure(folder: Path) -> None:
    """Clone, run the demo, and print a table."""
    tree = folder / "tree"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tree)], check=True)
    inherited = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    env = {**inherited, **empty_caches(folder / "caches")}
    host = host_info()
    began, busy = time.monotonic(), busy_seconds()
    try:
        steps = steps_of(lines_of(tree, "demo", env))
        seconds, busy = time.monotonic() - began, busy_seconds() - busy
    finally:
        for _ in lines_of(tree, "demo-down", env):
            pass
    rows = [(what, f"{taken:.0f} s") for what, taken in steps]
    before = seconds - sum(taken for _, taken in steps)
    rows.insert(0, ("Python's packages, and what is between steps", f"{before:.0f} s"))
    rows.append((f"all; the aim is {AIM_SECONDS} s", f"{seconds:.0f} s"))
    rows.append(("CPU of all cores", f"{busy:.0f} s"))
    print(host)
    tables.show(("step", "took"), rows, left=("step",))


def main() -> int:
    """Run the program; 1 if the demo failed."""
    parser = argparse.ArgumentParser(prog="bench.cold_demo", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the empty caches lie for the time")
    folder = Path(tempfile.mkdtemp(prefix="strandline-cold-", dir=parser.parse_args().folder))
    try:
        measure(folder)
    except subprocess.CalledProcessError as error:
        print(f"the demo failed with exit code {error.returncode}", file=sys.stderr)
        return 1
    finally:
        # Go's modules are read-only, and an image's root may still be mounted.
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The client of the bulk trials, a program in C beside this file, compiled for each run.

A client in Python takes as long for a record as the brokers do: it would measure itself. It has the
librdkafka that Python's package brings, so that every trial is of one version.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import confluent_kafka

SOURCE: Final = Path(__file__).with_name("bulk.c")
COMPILE_LIMIT_SECONDS: Final = 60


class NoCompiler(Exception):
    """There is no C compiler, or no librdkafka for it; the sentence says what to install."""


def compiled(folder: Path) -> Path:
    """Compile the client into a folder and return the program.

    Raises:  NoCompiler
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("the bulk trials need a C compiler, and there is no cc: apt install gcc")
    package = Path(confluent_kafka.__file__).parent
    found = sorted(package.with_name("confluent_kafka.libs").glob("librdkafka-*.so*"))
    if not found:
        raise NoCompiler(f"{package} brings no librdkafka: pip install its wheel for Linux")
    program, library = folder / "bulk", found[0]
    words = [compiler, "-O2", "-o", str(program), str(SOURCE), str(library)]
    # The library's own neighbours are found at the start, by its path.
    linked = [f"-Wl,-rpath,{library.parent}", "-Wl,--allow-shlib-undefined"]
    done = subprocess.run(
        [*words, *linked],
        capture_output=True,
        text=True,
        timeout=COMPILE_LIMIT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise NoCompiler(f"{compiler} does not compile {SOURCE.name}: {done.stderr.strip()}")
    return program


def words_of(program: Path, trial: str, given: dict[str, str | int]) -> list[str]:
    """Return the command of a trial; given are the words that the source lists, by name."""
    order = ("bootstrap", "topic", "partitions", "mib", "value_bytes")
    return [str(program), trial, *(str(given[name]) for name in order if name in given)]

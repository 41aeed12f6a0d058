"""Judges files: histories of clients and scans of logs, as `strandline check` takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from strandline_checker.history import History, read_history

from . import verdict

TOPIC = "topic"
"""Stands for the topic's name, which neither a history nor a scan holds."""


def check(files: Sequence[Path], brokers: Sequence[int]) -> int:
    """Print the verdict; 0 if no promise about a record was broken and some were acknowledged.

    Raises:  OSError; MalformedHistory
    """
    lines = [line for file in files for line in _whole_lines(file)]
    replicas = dict.fromkeys(_partitions(read_history(lines)), tuple(brokers))
    judged = verdict.judge_run(lines, [], replicas)
    console = Console(highlight=False, soft_wrap=True, markup=False)
    for sentence in (*verdict.sentences(judged), *verdict.findings(judged, TOPIC)):
        console.print(sentence)
    if not judged.acked:
        console.print("FAILED: no record was acknowledged, so this shows nothing", style="yellow")
    elif not judged.is_valid:
        console.print("FAILED: a promise about a record was broken", style="bold red")
    else:
        console.print("PASSED: every acknowledged record is on every replica", style="bold green")
    return 0 if judged.acked and judged.is_valid else 1


def _whole_lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file, except a cut last line, which a killed writer leaves."""
    with file.open(encoding="utf-8") as lines:
        yield from (line for line in lines if line.endswith("\n"))


def _partitions(history: History) -> Iterable[int]:
    sent = {send.partition for send in history.sends.values()}
    return sorted(sent | {number for number, _ in (*history.scans, *history.reads)})

"""Judges files: histories of clients and scans of logs, as `strandline check` takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from strandline.model import BrokerId
from strandline_checker.history import read_history
from strandline_checker.judge import judge

from . import verdict


def check(files: Sequence[Path], brokers: Sequence[int]) -> int:
    """Print the verdict; 0 if no promise about a record was broken and some were acknowledged.

    Raises:  OSError; MalformedHistory
    """
    history = read_history([line for file in files for line in _whole_lines(file)])
    sent = {send.partition for send in history.sends.values()}
    partitions = sorted(sent | {number for number, _ in (*history.scans, *history.reads)})
    holders = frozenset(BrokerId(broker) for broker in brokers)
    judged = judge(history, replicas=dict.fromkeys(partitions, holders))
    console = Console(highlight=False, soft_wrap=True, markup=False)
    # Neither a history nor a scan holds the topic's name.
    for sentence in (*verdict.sentences(judged), *verdict.findings(judged, "topic")):
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

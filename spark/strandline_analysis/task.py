"""What one run of the job does, and how a person says so; needs no Spark."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from .injected_faults import InjectedFault, read_faults

HOUR_MS: Final = 3_600_000
CORES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one run does."""

    prometheus: str
    start_ms: int
    end_ms: int
    out: Path
    faults: tuple[InjectedFault, ...] = ()
    print_tables: bool = False
    cores: int = CORES


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be asked for."""
    parser.add_argument("--prometheus", required=True, metavar="URL")
    parser.add_argument("--start", metavar="TIME", help="RFC 3339 or epoch ms; an hour before end")
    parser.add_argument("--end", metavar="TIME", help="exclusive; now")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--faults", type=Path, metavar="FILE", help="JSON list of injected faults")
    parser.add_argument("--print-tables", action="store_true", help="print each as JSON too")
    parser.add_argument("--cores", type=int, default=CORES, help=f"Spark's threads ({CORES})")


def task_of(given: argparse.Namespace) -> Task:
    """Return what the options ask for.

    Raises:  argparse.ArgumentError for a time that is none, an empty range, or unreadable faults
    """
    try:
        end_ms = moment_ms(given.end) if given.end else time.time_ns() // 1_000_000
        start_ms = moment_ms(given.start) if given.start else end_ms - HOUR_MS
        faults = tuple(read_faults(given.faults)) if given.faults else ()
    except (ValueError, OSError) as error:
        raise argparse.ArgumentError(None, str(error)) from error
    if start_ms >= end_ms:
        raise argparse.ArgumentError(None, "the range is empty: start must be before end")
    if given.cores < 1:
        raise argparse.ArgumentError(None, "cores must be at least 1")
    return Task(
        prometheus=given.prometheus,
        start_ms=start_ms,
        end_ms=end_ms,
        out=given.out,
        faults=faults,
        print_tables=given.print_tables,
        cores=given.cores,
    )


def moment_ms(text: str) -> int:
    """Return epoch ms of an RFC 3339 time, or of a number of epoch ms.

    Raises:  ValueError on anything else, and on a time without a zone
    """
    if text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return round(moment.astimezone(UTC).timestamp() * 1000)

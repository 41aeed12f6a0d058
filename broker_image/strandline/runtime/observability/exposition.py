"""Metrics as Prometheus's text, made in steps between which the event loop serves others.

Used by `metrics` and `replica_metrics`. prometheus_client formats everything at once, which takes a
tenth of a second for 1,000 partitions. Here a scrape is a row of pieces, each the work of at most
SAMPLES_PER_STEP samples or PARTITIONS_PER_STEP partitions, a few milliseconds.

Source: Prometheus text format 0.0.4; prometheus_client.exposition.generate_latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from prometheus_client import utils

SAMPLES_PER_STEP: Final = 500
PARTITIONS_PER_STEP: Final = 50
# prometheus_client does not annotate this function; typed as Any it may be called.
_go_string: Any = utils.floatToGoString

PLAIN_MAX: Final = 10**15
"""Whole numbers up to this one look the same as integers and as floats."""
REPR_MAX: Final = 10**6
"""Below it a float looks the same in Go and in Python."""


def header(name: str, documentation: str, kind: str) -> str:
    """Return the two lines in front of a family's samples."""
    plain = documentation.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {plain}\n# TYPE {name} {kind}\n"


def sample(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    """Return the line of one sample."""
    return f"{beginning(name, labels)}{number(value)}\n"


def beginning(name: str, labels: Iterable[tuple[str, str]]) -> str:
    """Return the line of a sample up to its value."""
    shown = pairs(labels)
    return f"{name}{{{shown}}} " if shown else f"{name} "


def pairs(labels: Iterable[tuple[str, str]]) -> str:
    """Return labels and their values as they stand between the braces of a sample."""
    return ",".join([f'{key}="{_escaped(each)}"' for key, each in labels])


def in_steps(samples: Sequence[str]) -> Iterator[str]:
    """Yield sample lines in pieces of one step each."""
    for start in range(0, len(samples), SAMPLES_PER_STEP):
        yield "".join(samples[start : start + SAMPLES_PER_STEP])


def _escaped(value: str) -> str:
    if value.isalnum():
        return value
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def number(value: float) -> str:
    """Return a value as prometheus_client writes it."""
    if isinstance(value, int) and abs(value) < PLAIN_MAX:
        return f"{int(value)}.0"
    if abs(value) < REPR_MAX:
        return repr(value)
    text: str = _go_string(value)
    return text

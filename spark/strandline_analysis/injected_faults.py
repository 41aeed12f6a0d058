"""Faults that a person or a program injected; the report prints them beside their effects.

A faults file is a JSON list of objects; needs neither Spark nor Prometheus.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class FaultsMalformed(ValueError):
    """The file is not a list of faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """One fault. Fields of the JSON object: name, atMs, brokerId (or null), gapMs (or null)."""

    name: str
    """What was done, as in `leader pod deleted`."""
    at_ms: int
    """When: UTC epoch ms."""
    broker_id: int | None = None
    """The broker that was hit."""
    gap_ms: int | None = None
    """The longest time without acknowledgements that clients measured."""


def read_faults(path: Path) -> list[InjectedFault]:
    """Return the faults of a file, oldest first.

    Raises:  FaultsMalformed naming the entry that is not a fault
    """
    try:
        listed = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise FaultsMalformed(f"{path}: {error}") from error
    if not isinstance(listed, list):
        raise FaultsMalformed(f"{path}: not a list")
    faults = [_fault(path, index, each) for index, each in enumerate(listed)]
    return sorted(faults, key=lambda fault: fault.at_ms)


def _fault(path: Path, index: int, given: Any) -> InjectedFault:
    where = f"{path}: entry {index}"
    if not isinstance(given, dict):
        raise FaultsMalformed(f"{where}: not an object")
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise FaultsMalformed(f"{where}: needs a name")
    at_ms = _whole(where, given, "atMs")
    if at_ms is None:
        raise FaultsMalformed(f"{where}: needs atMs")
    broker_id, gap_ms = _whole(where, given, "brokerId"), _whole(where, given, "gapMs")
    return InjectedFault(name=name, at_ms=at_ms, broker_id=broker_id, gap_ms=gap_ms)


def _whole(where: str, given: dict[str, Any], key: str) -> int | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FaultsMalformed(f"{where}: {key} is no number")
    return round(value)

"""A lake with about so many samples of the metrics that ISR intervals need, for every engine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from bench.histories.plan import FaultKind, Plan, planned
from strandline import names

METRICS: Final = (
    names.PARTITION_ISR_MEMBER,
    names.PARTITION_LEADER_EPOCH,
    names.PARTITION_PARTITION_EPOCH,
    names.PARTITION_ISR_LAST_CHANGE_TIMESTAMP_SECONDS,
    names.PARTITION_LEADER_SINCE_TIMESTAMP_SECONDS,
)
"""Those of `tables.isr_intervals`."""
INTERVAL_MS: Final = 5_000
SLICE_MS: Final = 3_600_000
HOUR_MS: Final = 3_600_000
PARTITIONS: Final = 4
"""Of a topic; each has three replicas."""
SAMPLES_OF_A_PARTITION: Final = 9
"""In one scrape of all brokers: three members, three leader epochs, three of the leader alone."""
MADE: Final = "made.json"
LAKE: Final = "lake"
TEXT: Final = "samples.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A history on disk."""

    samples: int
    start_ms: int
    end_ms: int
    faults: int


def made(folder: Path, samples: int, *, seed: int, text: bool) -> Made:
    """Write a history with about so many samples, or take the one that the folder has.

    Up to 1e7 samples are an hour; more are a day at most, with as many topics as they need.
    """
    if (folder / MADE).exists():
        return noted(folder)
    # Only this needs numpy and Arrow, and no engine should load what it does not use.
    from bench.histories.written import write  # noqa: PLC0415

    hours = 1 if samples <= 10**7 else min(24, samples // 10**7)
    of_a_topic = PARTITIONS * SAMPLES_OF_A_PARTITION * hours * HOUR_MS // INTERVAL_MS
    topics = max(1, round(samples / of_a_topic))
    plan = planned(
        Plan(
            cluster="blue",
            seed=seed,
            length_ms=hours * HOUR_MS,
            topics=topics,
            partitions=PARTITIONS,
        ),
        [*FaultKind],
    )
    count = write(
        [plan],
        folder,
        interval_ms=INTERVAL_MS,
        slice_ms=SLICE_MS,
        text=text,
        metrics=[metric.name for metric in METRICS],
    )
    found = Made(samples=count, start_ms=plan.start_ms, end_ms=plan.end_ms, faults=len(plan.faults))
    (folder / MADE).write_text(json.dumps(asdict(found)))
    return found


def noted(folder: Path) -> Made:
    """Return what a folder says of its history."""
    return Made(**json.loads((folder / MADE).read_text()))

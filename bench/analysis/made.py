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
WALKED_MAX: Final = 10**7
"""To walk through 1e7 samples takes a minute; of more samples the rest are copies."""
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
    """Write a history of an hour with about so many samples, or take the one that the folder has.

    Of more than WALKED_MAX, topics are copied under other names.
    """
    if (folder / MADE).exists():
        return noted(folder)
    # Only this needs numpy and Arrow, and no engine should load what it does not use.
    from bench.histories.written import write  # noqa: PLC0415

    copies = -(-samples // WALKED_MAX)
    of_a_topic = PARTITIONS * SAMPLES_OF_A_PARTITION * HOUR_MS // INTERVAL_MS
    topics = max(1, round(samples / copies / of_a_topic))
    plan = planned(
        Plan(cluster="blue", seed=seed, length_ms=HOUR_MS, topics=topics, partitions=PARTITIONS),
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
    for path in sorted((folder / LAKE / "samples").glob("*/*/*.parquet")):
        copy_topics(path, copies)
    found = Made(
        samples=count * copies,
        start_ms=plan.start_ms,
        end_ms=plan.end_ms,
        faults=len(plan.faults),
    )
    (folder / MADE).write_text(json.dumps(asdict(found)))
    return found


def copy_topics(path: Path, copies: int) -> None:
    """Write beside a file of a lake others with the same samples of other topics.

    They lack the column of labels, which no engine reads and which takes the most time to write.
    """
    if copies == 1:
        return
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.compute as pc  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    samples = pq.ParquetFile(path).read()
    samples = samples.select([name for name in samples.schema.names if name != "labels"])
    ids, topics = map(samples.schema.get_field_index, ("series_id", "topic"))
    for copy in range(1, copies):
        # Ids are hashes of labels, or small numbers in tests: these differ from both.
        numbers = pc.bit_wise_xor(samples["series_id"], pa.scalar(copy << 32, pa.int64()))
        named = pc.binary_join_element_wise(samples["topic"], f"copy{copy}", "-")
        other = samples.set_column(ids, samples.schema.field(ids), numbers)
        other = other.set_column(topics, samples.schema.field(topics), named)
        pq.write_table(other, path.with_stem(f"{path.stem}-copy{copy}"), compression="zstd")


def noted(folder: Path) -> Made:
    """Return what a folder says of its history."""
    return Made(**json.loads((folder / MADE).read_text()))

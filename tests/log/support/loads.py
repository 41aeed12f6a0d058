"""A data directory with a log of twenty batches, its damage, and its load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from strandline.core.effects import PersistedPartition
from strandline.log.checkpoint import EpochCheckpoint
from strandline.log.recovery import LoadedLogs, load_logs
from strandline.model import (
    BrokerEpoch,
    BrokerId,
    IsrEntry,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
)

from .logs import TOPIC_ID, Workshop, bring_to_disk, content, fill

OTHER = TopicPartition(topic_id=TOPIC_ID, partition=4)
ISR = (IsrEntry(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(9)),)
BATCHES, RECORDS = 20, 2


def state(
    tp: TopicPartition, *, leader_epoch: int = 5
) -> tuple[TopicPartition, PersistedPartition]:
    return tp, PersistedPartition(
        topic_name="orders",
        leader_epoch=LeaderEpoch(leader_epoch),
        partition_epoch=PartitionEpoch(17),
        isr=ISR,
    )


def segments(workshop: Workshop) -> list[Path]:
    return sorted(workshop.folder.glob("*.log"))


def filled(workshop: Workshop, *, flush: bool = False) -> bytes:
    """Leave a log of 20 equal batches, epochs 1 and 2, in several segments; return its bytes."""
    log = workshop.create()
    fill(log, batches=BATCHES // 2, records=RECORDS, epoch=1)
    fill(log, batches=BATCHES // 2, records=RECORDS, epoch=2)
    if flush:
        bring_to_disk(log)
    whole = content(log)
    EpochCheckpoint(log.folder).write(log.epochs)
    log.close()
    assert len(segments(workshop)) > 3
    return whole


def change_byte(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 0x01
    path.write_bytes(raw)


def load(
    workshop: Workshop,
    *states: tuple[TopicPartition, PersistedPartition],
    clean: bool = False,
    before_loss: Callable[[], None] = lambda: None,
    on_remaining: Callable[[int], None] = lambda _: None,
) -> LoadedLogs:
    return load_logs(
        workshop.root,
        clean=clean,
        persisted=dict(states),
        environment=workshop.environment,
        before_loss=before_loss,
        on_remaining=on_remaining,
    )

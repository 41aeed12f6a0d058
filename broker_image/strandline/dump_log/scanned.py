"""A replica's log as lines of JSON: `dump_log` writes them, the checker reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from strandline.model import BrokerId, LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """A record in a replica's log; checksum covers the batch that holds it."""

    broker: BrokerId
    partition: int
    offset: int
    leader_epoch: LeaderEpoch
    value: str
    checksum: int


def scanned_line(record: Scanned) -> str:
    """Return the line a log scan writes for a record."""
    place = (record.broker, record.partition, record.offset)
    return json.dumps(["record", *place, record.leader_epoch, record.value, record.checksum])


def start_line(broker: BrokerId, partition: int, log_start_offset: int) -> str:
    """Return the line a log scan writes first: records below the offset are deleted on purpose."""
    return json.dumps(["start", broker, partition, log_start_offset])

"""A record of a replica's log as a line of JSON: `dump_log` writes it, the checker reads it."""

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

"""The log start checkpoint: later starts off the loop, earlier ones before the log begins anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from strandline.log.checkpoint import LogStartCheckpoint
from strandline.model import TopicPartition
from strandline.runtime.storage.log_start_file import LogStartFile
from tests.log.support.logs import TOPIC_ID, TP

OTHER = TopicPartition(topic_id=TOPIC_ID, partition=4)


class Written:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.persisted: list[tuple[TopicPartition, int]] = []
        self.file = LogStartFile(
            root, self.on_disk(), on_persisted=lambda tp, start: self.persisted.append((tp, start))
        )

    def on_disk(self) -> dict[TopicPartition, int]:
        return LogStartCheckpoint(self.root).read()

    def write(self, starts: dict[TopicPartition, int], *, meanwhile: Callable[[], None]) -> None:
        async def in_thread(call: Callable[[], None]) -> None:
            call()
            meanwhile()

        asyncio.run(self.file.write(starts, in_thread))


def nothing() -> None:
    return None


def test_later_starts_are_told_when_they_are_on_disk(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 5)
    written.file.begin(TP, 7)
    assert (written.file.is_due, written.on_disk(), written.persisted) == (True, {}, [])
    written.write({TP: 7, OTHER: 0}, meanwhile=nothing)
    assert (written.file.is_due, written.on_disk()) == (False, {TP: 7})
    assert written.persisted == [(TP, 7)]
    assert Written(tmp_path).file.on_disk(TP) == 7


def test_a_log_that_begins_lower_is_on_disk_first(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 7)
    written.write({TP: 7, OTHER: 3}, meanwhile=nothing)
    written.file.lower(TP, 4)
    assert written.on_disk() == {TP: 4, OTHER: 3}
    written.file.begin(OTHER, 9)
    written.file.lower(OTHER, 12)
    assert (written.file.is_due, written.on_disk()[OTHER]) == (False, 3)


def test_a_start_that_was_lowered_while_it_was_written_is_not_told(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 7)
    written.write({TP: 7}, meanwhile=lambda: written.file.lower(TP, 2))
    assert (written.persisted, written.on_disk()) == ([], {TP: 2})

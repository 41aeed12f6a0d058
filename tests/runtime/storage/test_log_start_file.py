"""The log start checkpoint: a start is told of once it is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from strandline.errors import LogDirectoryFull
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

    def write(
        self, starts: dict[TopicPartition, int], *, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        async def in_thread(
            call: Callable[[Mapping[TopicPartition, int]], None],
            begun: Mapping[TopicPartition, int],
        ) -> None:
            call(begun)
            meanwhile()

        asyncio.run(self.file.write(starts, in_thread))


def test_later_starts_are_told_when_they_are_on_disk(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 5)
    written.file.begin(TP, 7)
    assert (written.file.is_due, written.on_disk(), written.persisted) == (True, {}, [])
    written.write({TP: 7, OTHER: 0})
    assert (written.file.is_due, written.on_disk()) == (False, {TP: 7})
    assert written.persisted == [(TP, 7)]
    assert Written(tmp_path).file.on_disk(TP) == 7


def test_a_log_that_begins_lower_or_is_gone_leaves_the_checkpoint_with_the_next_write(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 7)
    written.write({TP: 7, OTHER: 3})
    written.file.forget(TP)
    written.write({TP: 4})
    assert (written.on_disk(), written.persisted) == ({TP: 4}, [(TP, 7)])
    assert [written.file.on_disk(tp) for tp in (TP, OTHER)] == [4, 0]


def test_a_log_that_began_anew_while_its_start_was_written_is_not_told_of(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 7)
    written.write({TP: 7}, meanwhile=lambda: written.file.forget(TP))
    assert (written.file.is_due, written.persisted) == (False, [])


def test_a_start_that_came_while_one_was_written_is_due_still(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 7)
    written.write({TP: 7}, meanwhile=lambda: written.file.begin(TP, 9))
    assert (written.file.is_due, written.persisted) == (True, [(TP, 7)])
    written.write({TP: 9})
    assert (written.file.is_due, written.persisted) == (False, [(TP, 7), (TP, 9)])


def test_a_start_that_found_no_space_is_due_still(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 7)

    async def full(*_: object) -> None:
        raise LogDirectoryFull("no space")

    with pytest.raises(LogDirectoryFull):
        asyncio.run(written.file.write({TP: 7}, full))
    assert (written.file.is_due, written.persisted) == (True, [])
    written.write({TP: 7})
    assert (written.file.is_due, written.persisted) == (False, [(TP, 7)])

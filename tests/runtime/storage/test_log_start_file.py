"""The log start checkpoint: a start is told of once it is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.errors import LogDirectoryFull
from strandline.log.checkpoint import LogStartCheckpoint
from strandline.model import NO_EPOCH, EpochStart, LeaderEpoch, TopicPartition
from strandline.runtime.storage.log_start_file import LogStartFile, Starts
from tests.log.support.logs import TOPIC_ID, TP

OTHER = TopicPartition(topic_id=TOPIC_ID, partition=4)


def at(offset: int, epoch: int = NO_EPOCH) -> EpochStart:
    return EpochStart(leader_epoch=LeaderEpoch(epoch), start_offset=offset)


class Written:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.persisted: list[tuple[TopicPartition, int]] = []
        self.file = LogStartFile(
            root, self.on_disk(), on_persisted=lambda tp, start: self.persisted.append((tp, start))
        )

    def on_disk(self) -> dict[TopicPartition, EpochStart]:
        return LogStartCheckpoint(self.root).read()

    def write(self, starts: Starts, *, meanwhile: Callable[[], None] = lambda: None) -> None:
        async def in_thread(call: Callable[[Starts], None], begun: Starts) -> None:
            call(begun)
            meanwhile()

        asyncio.run(self.file.write(starts, in_thread))


def test_later_starts_are_told_when_they_are_on_disk(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 5)
    written.file.begin(TP, 7)
    assert (written.file.is_due, written.on_disk(), written.persisted) == (True, {}, [])
    written.write({TP: at(7, 2), OTHER: at(0, 1)})
    assert (written.file.is_due, written.on_disk()) == (False, {TP: at(7, 2)})
    assert written.persisted == [(TP, 7)]
    assert Written(tmp_path).file.on_disk(TP) == 7


def test_a_log_that_begins_lower_or_is_gone_leaves_the_checkpoint_with_the_next_write(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 7)
    written.write({TP: at(7), OTHER: at(3)})
    written.file.forget(TP)
    written.write({TP: at(4)})
    assert (written.on_disk(), written.persisted) == ({TP: at(4)}, [(TP, 7)])
    assert [written.file.on_disk(tp) for tp in (TP, OTHER)] == [4, 0]


def test_a_log_that_began_anew_while_its_start_was_written_is_not_told_of(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 7)
    written.write({TP: at(7)}, meanwhile=lambda: written.file.forget(TP))
    assert (written.file.is_due, written.persisted) == (False, [])


def test_a_start_that_came_while_one_was_written_is_due_still(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 7)
    written.write({TP: at(7)}, meanwhile=lambda: written.file.begin(TP, 9))
    assert (written.file.is_due, written.persisted) == (True, [(TP, 7)])
    written.write({TP: at(9)})
    assert (written.file.is_due, written.persisted) == (False, [(TP, 7), (TP, 9)])


def test_a_start_that_found_no_space_is_due_still(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.file.begin(TP, 7)

    async def full(*_: object) -> None:
        raise LogDirectoryFull("no space")

    with pytest.raises(LogDirectoryFull):
        asyncio.run(written.file.write({TP: at(7)}, full))
    assert (written.file.is_due, written.persisted) == (True, [])
    written.write({TP: at(7)})
    assert (written.file.is_due, written.persisted) == (False, [(TP, 7)])

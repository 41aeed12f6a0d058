"""What a load leaves behind for the next start: losses, checkpoints, folders it cannot open."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from strandline.errors import LogDirectoryFailed
from strandline.log.checkpoint import HighWatermarkCheckpoint, RecoveryPointCheckpoint
from strandline.log.partition_folder import METADATA_FILE
from strandline.model import TopicPartition
from tests.log.support.loads import OTHER, change_byte, filled, load, segments, state
from tests.log.support.logs import TP, Workshop, content, fill


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_the_next_start_finds_a_loss_no_second_time(workshop: Workshop) -> None:
    filled(workshop)
    HighWatermarkCheckpoint(workshop.root).write({TP: 41, OTHER: 9})
    losses: list[dict[TopicPartition, int]] = []

    def before_loss() -> None:
        losses.append(HighWatermarkCheckpoint(workshop.root).read())

    first = load(workshop, state(TP), before_loss=before_loss)
    assert losses == [{TP: 41, OTHER: 9}], "the loss is told before its traces are removed"
    assert HighWatermarkCheckpoint(workshop.root).read() == {TP: 40}
    first.logs[TP].close()
    again = load(workshop, state(TP))
    assert again.lost == []
    assert again.hosted[0].high_watermark == 40


def test_damage_is_told_before_the_log_is_cut(workshop: Workshop) -> None:
    filled(workshop)
    segments(workshop)[1].unlink()
    there = segments(workshop)
    seen: list[list[Path]] = []
    loaded = load(workshop, state(TP), before_loss=lambda: seen.append(segments(workshop)))
    assert seen[0] == there
    assert segments(workshop) == there[:1]
    assert loaded.lost == [TP]


def test_a_torn_write_is_no_loss_to_tell_of(workshop: Workshop) -> None:
    filled(workshop)
    with segments(workshop)[-1].open("ab") as file:
        file.write(b"half")

    def before_loss() -> None:
        raise AssertionError("nothing was lost")

    load(workshop, state(TP), before_loss=before_loss)


def test_a_recovery_point_above_the_end_is_lowered_before_records_come(workshop: Workshop) -> None:
    filled(workshop, flush=True)
    RecoveryPointCheckpoint(workshop.root).write({TP: 40})
    segments(workshop)[-1].write_bytes(b"")
    end = int(segments(workshop)[-1].stem)
    log = load(workshop, state(TP)).logs[TP]
    assert log.log_end_offset == end
    assert RecoveryPointCheckpoint(workshop.root).read() == {TP: end}
    fill(log, batches=5, epoch=3)
    log.close()
    change_byte(segments(workshop)[-1], 70)
    assert load(workshop, state(TP)).logs[TP].log_end_offset == end


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_fsyncs_what_no_start_before_it_did(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:
    filled(workshop)
    count = len(segments(workshop))
    workshop.create(OTHER).close()
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    loaded = load(workshop, state(TP), state(OTHER), clean=clean)
    assert len(synced) == count
    assert loaded.logs[TP].recovery_point == 40
    synced.clear()
    load(workshop, state(TP), state(OTHER), clean=True)
    assert synced == []


def test_a_start_fails_if_its_fsync_fails(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(workshop)

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "the disk lost it")

    monkeypatch.setattr(os, "fdatasync", failing)
    with pytest.raises(LogDirectoryFailed, match="fsync: EIO"):
        load(workshop, state(TP), clean=True)


@pytest.mark.parametrize("written", [None, b"", b"version: 0", b"\x00" * 90, "a folder"])
def test_unreadable_metadata_is_written_anew_and_the_log_is_checked_whole(
    workshop: Workshop, written: bytes | str | None
) -> None:
    whole = filled(workshop)
    spoil_metadata(workshop, written)
    RecoveryPointCheckpoint(workshop.root).write({TP: 40})
    loaded = load(workshop, state(TP), clean=True)
    if isinstance(written, str):
        assert loaded.lost == [TP], "a folder that no file can replace"
        return
    assert loaded.lost == []
    assert content(loaded.logs[TP]) == whole
    loaded.logs[TP].close()
    assert load(workshop, state(TP), clean=True).warnings == []
    change_byte(segments(workshop)[1], 70)
    spoil_metadata(workshop, written)
    assert load(workshop, state(TP), clean=True).lost == [TP], "no CRC is skipped in a doubtful log"


def spoil_metadata(workshop: Workshop, written: bytes | str | None) -> None:
    path = workshop.folder / METADATA_FILE
    path.unlink()
    if isinstance(written, str):
        path.mkdir()
        (path / "below").touch()
    elif written is not None:
        path.write_bytes(written)


def test_a_log_that_cannot_be_opened_is_set_aside_and_the_others_are_served(
    workshop: Workshop,
) -> None:
    filled(workshop)
    workshop.create(OTHER).close()
    losses: list[bool] = []
    for number in (1, 2):
        spoil_metadata(workshop, b"garbled")
        loaded = load(
            workshop, state(OTHER), before_loss=lambda: losses.append(workshop.folder.exists())
        )
        assert list(loaded.logs) == [OTHER]
        assert loaded.lost == [TP]
        assert losses == [True] * number
        kept = workshop.folder.with_name(f"{TP}.unreadable.{number}")
        assert list(kept.glob("*.log"))
        loaded.logs[OTHER].close()
        workshop.create().close()
    assert load(workshop, state(TP), state(OTHER)).lost == []

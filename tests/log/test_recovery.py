"""Opening after a crash, and loading a whole data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.log.checkpoint import (
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    RecoveryPointCheckpoint,
)
from strandline.log.trash import Trash, TrashLimits
from strandline.model import (
    EpochStart,
    LeaderEpoch,
)
from tests.log.support.batches import batch
from tests.log.support.loads import (
    BATCHES,
    ISR,
    OTHER,
    RECORDS,
    change_byte,
    filled,
    load,
    segments,
    state,
)
from tests.log.support.logs import TOPIC_ID, TP, Workshop, append, bring_to_disk, content, fill


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def starts(*pairs: tuple[int, int]) -> tuple[EpochStart, ...]:
    return tuple(EpochStart(leader_epoch=LeaderEpoch(e), start_offset=o) for e, o in pairs)


# --- one log ----------------------------------------------------------------------------


def test_flipped_byte_cuts_there_and_deletes_later_segments(workshop: Workshop) -> None:
    whole = filled(workshop)
    one = len(whole) // BATCHES
    before = len(segments(workshop)[0].read_bytes()) // one
    change_byte(segments(workshop)[1], one + 70)
    log = workshop.open()
    kept = before + 1
    assert content(log) == whole[: kept * one]
    assert (log.log_end_offset, log.segment_count) == (kept * RECORDS, 2)
    result = log.validation
    assert result.damaged
    assert "CRC" in result.problem
    assert result.cut_at_offset == kept * RECORDS
    assert log.size_bytes == kept * one
    assert len(segments(workshop)) == 2
    append(log, epoch=3)
    log.close()
    assert workshop.open().log_end_offset == kept * RECORDS + 1


def test_crcs_below_the_recovery_point_are_not_checked_again(workshop: Workshop) -> None:
    whole = filled(workshop)
    change_byte(segments(workshop)[0], 70)
    first_of_last = int(segments(workshop)[-1].stem)
    assert len(content(workshop.open(recovery_point=first_of_last))) == len(whole)
    assert workshop.open(recovery_point=first_of_last - 1).validation.problem == ""
    assert workshop.open(recovery_point=0).log_end_offset == 0


def test_crcs_of_the_segment_that_holds_the_recovery_point_are_checked(workshop: Workshop) -> None:
    filled(workshop)
    change_byte(segments(workshop)[1], 70)
    inside = int(segments(workshop)[1].stem)
    assert workshop.open(recovery_point=inside).log_end_offset == inside


def test_recovery_point_never_passes_the_log_end_and_falls_to_it(workshop: Workshop) -> None:
    filled(workshop, flush=True)
    assert workshop.open(recovery_point=40).recovery_point == 40
    assert workshop.open(clean=True, recovery_point=7).recovery_point == 7
    change_byte(segments(workshop)[-1], 70)
    log = workshop.open(recovery_point=999)
    assert log.recovery_point == log.log_end_offset < 40


def test_missing_segment_ends_the_log_before_it(workshop: Workshop) -> None:
    filled(workshop)
    lost = int(segments(workshop)[1].stem)
    segments(workshop)[1].unlink()
    log = workshop.open(clean=True)
    assert (log.log_end_offset, log.segment_count) == (lost, 1)
    assert log.validation.damaged


def test_emptied_segment_in_the_middle_ends_the_log(workshop: Workshop) -> None:
    filled(workshop)
    lost = int(segments(workshop)[1].stem)
    segments(workshop)[1].write_bytes(b"")
    log = workshop.open(clean=True)
    assert log.log_end_offset == lost
    assert log.validation.damaged


def test_zeros_behind_the_last_batch_are_cut(workshop: Workshop) -> None:
    whole = filled(workshop)
    with segments(workshop)[-1].open("ab") as file:
        file.write(bytes(5000))
    log = workshop.open()
    assert content(log) == whole
    assert b"".join(path.read_bytes() for path in segments(workshop)) == whole


@pytest.mark.parametrize("torn", [1, 60, 61, 80])
def test_torn_last_write_is_cut_and_is_no_damage(workshop: Workshop, torn: int) -> None:
    whole = filled(workshop)
    half = batch([b"h" * 50], base_offset=40, leader_epoch=2)[:torn]
    with segments(workshop)[-1].open("ab") as file:
        file.write(half)
    log = workshop.open(clean=True)
    assert content(log) == whole
    assert log.validation.problem
    assert not log.validation.damaged


def test_whole_batch_with_another_base_offset_is_cut(workshop: Workshop) -> None:
    whole = filled(workshop)
    with segments(workshop)[-1].open("ab") as file:
        file.write(batch([b"x"], base_offset=41, leader_epoch=2))
    log = workshop.open()
    assert content(log) == whole
    assert "base offset 41 where 40 must follow" in log.validation.problem


def test_leader_epoch_that_falls_or_is_unknown_ends_the_log(workshop: Workshop) -> None:
    whole = filled(workshop)
    for epoch, accepted in ((1, False), (2, True), (5, True), (6, False)):
        with segments(workshop)[-1].open("ab") as file:
            file.write(batch([b"x"], base_offset=40, leader_epoch=epoch))
        log = workshop.open(epoch_max=5)
        assert log.log_end_offset == (41 if accepted else 40)
        log.truncate_to(40)
        assert content(log) == whole
        log.close()


def test_folder_without_segments_is_an_empty_log(workshop: Workshop) -> None:
    workshop.create().close()
    for path in segments(workshop):
        path.unlink()
    log = workshop.open()
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    append(log)


def test_strange_files_in_the_folder_are_left_alone(workshop: Workshop) -> None:
    whole = filled(workshop)
    strange = ["notes.log", "1.log", "x" * 20 + ".log", "core"]
    for name in strange:
        (workshop.folder / name).write_text("hello")
    assert content(workshop.open()) == whole
    assert all((workshop.folder / name).exists() for name in strange)


def test_indexes_are_rebuilt_and_are_a_hint_only(workshop: Workshop) -> None:
    whole = filled(workshop, flush=True)
    good = {path: path.read_bytes() for path in workshop.folder.glob("*.index")}
    assert len(good) > 3
    for path in good:
        path.write_bytes(b"\xff" * 21)
    log = workshop.open(recovery_point=40)
    assert content(log) == whole
    bring_to_disk(log)
    log.close()
    assert {path: path.read_bytes() for path in good} == good


def test_index_that_breaks_while_running_is_rebuilt_when_it_is_read(workshop: Workshop) -> None:
    whole = filled(workshop, flush=True)
    log = workshop.open(recovery_point=40, clean=True)
    good = segments(workshop)[0].with_suffix(".index").read_bytes()
    beyond_the_log = (300).to_bytes(4, "big") + (1 << 20).to_bytes(4, "big")
    for junk in (b"\xff" * 16, b"\x00" * 8, good + b"\x00", beyond_the_log, None):
        path = segments(workshop)[0].with_suffix(".index")
        path.unlink(missing_ok=True)
        if junk is not None:
            path.write_bytes(junk)
        workshop.pool.close()
        assert content(log) == whole
        assert path.read_bytes() == good


# --- a data directory -------------------------------------------------------------------


def test_a_load_tells_how_many_logs_are_left(workshop: Workshop) -> None:
    filled(workshop)
    workshop.create(OTHER).close()
    left: list[int] = []
    load(workshop, state(TP), state(OTHER), on_remaining=left.append)
    assert left == [2, 1, 0]


def test_every_log_is_loaded_with_what_state_file_and_checkpoints_say(workshop: Workshop) -> None:
    filled(workshop)
    workshop.create(OTHER).close()
    HighWatermarkCheckpoint(workshop.root).write({TP: 30, OTHER: 0})
    RecoveryPointCheckpoint(workshop.root).write({TP: 12, OTHER: 0})
    loaded = load(workshop, state(TP), state(OTHER))
    assert loaded.warnings == []
    assert loaded.lost == []
    assert sorted(loaded.logs) == [TP, OTHER]
    first, second = loaded.hosted
    assert (first.tp, first.topic_name) == (TP, "orders")
    assert (first.leader_epoch, first.partition_epoch, first.isr) == (5, 17, ISR)
    assert (first.log_start_offset, first.high_watermark, first.log_end_offset) == (0, 30, 40)
    assert first.epochs == starts((1, 0), (2, 20))
    assert (second.high_watermark, second.log_end_offset, second.epochs) == (0, 0, ())
    assert loaded.logs[TP].recovery_point == 40


def test_empty_data_directory_holds_nothing(workshop: Workshop) -> None:
    loaded = load(workshop)
    assert (loaded.logs, loaded.hosted, loaded.lost, loaded.warnings) == ({}, [], [], [])


def test_high_watermark_is_kept_within_the_log(workshop: Workshop) -> None:
    log = workshop.create()
    log.restart_at(100)
    fill(log, batches=5)
    log.close()
    HighWatermarkCheckpoint(workshop.root).write({TP: 4})
    assert load(workshop, state(TP)).hosted[0].high_watermark == 100
    (workshop.root / "replication-offset-checkpoint").unlink()
    assert load(workshop, state(TP)).hosted[0].high_watermark == 100


def test_end_below_the_high_watermark_is_a_loss(workshop: Workshop) -> None:
    filled(workshop)
    HighWatermarkCheckpoint(workshop.root).write({TP: 41})
    loaded = load(workshop, state(TP), clean=True)
    assert loaded.hosted[0].high_watermark == 40
    assert loaded.lost == [TP]


def test_damage_is_a_loss_even_when_the_start_seemed_clean(workshop: Workshop) -> None:
    filled(workshop)
    change_byte(segments(workshop)[1], 16)
    loaded = load(workshop, state(TP), clean=True)
    assert loaded.lost == [TP]
    assert "cut at offset" in loaded.warnings[0]


@pytest.mark.parametrize("checkpoint", [HighWatermarkCheckpoint, RecoveryPointCheckpoint])
def test_log_that_is_gone_is_a_loss_if_it_held_records(
    workshop: Workshop, checkpoint: type[HighWatermarkCheckpoint]
) -> None:
    filled(workshop)
    checkpoint(workshop.root).write({TP: 4, OTHER: 1})
    loaded = load(workshop, state(TP), state(OTHER))
    assert loaded.lost == [OTHER]
    assert list(loaded.logs) == [TP]


def test_log_of_the_state_file_that_was_never_made_is_no_loss(workshop: Workshop) -> None:
    filled(workshop)
    HighWatermarkCheckpoint(workshop.root).write({TP: 4, OTHER: 0})
    loaded = load(workshop, state(TP), state(OTHER))
    assert loaded.lost == []
    assert any(str(OTHER) in warning for warning in loaded.warnings)


@pytest.mark.parametrize("text", ["", "0\n", "0\n1\n0 0\n", "0\n2\n1 0\n", "junk\x00"])
def test_epochs_come_from_the_batches_when_the_checkpoint_is_wrong(
    workshop: Workshop, text: str
) -> None:
    filled(workshop)
    (workshop.folder / "leader-epoch-checkpoint").write_text(text)
    loaded = load(workshop, state(TP))
    assert loaded.hosted[0].epochs == starts((1, 0), (2, 20))
    assert len(loaded.warnings) == 1
    assert "rebuilt from the batches" in loaded.warnings[0]


def test_epoch_in_which_nothing_was_written_is_dropped_without_a_warning(
    workshop: Workshop,
) -> None:
    filled(workshop)
    EpochCheckpoint(workshop.folder).write(starts((1, 0), (2, 20), (4, 40)))
    loaded = load(workshop, state(TP))
    assert loaded.hosted[0].epochs == starts((1, 0), (2, 20))
    assert loaded.warnings == []


def test_log_unknown_to_the_state_file_keeps_its_own_epoch(workshop: Workshop) -> None:
    filled(workshop)
    loaded = load(workshop)
    hosted = loaded.hosted[0]
    assert (hosted.leader_epoch, hosted.partition_epoch, hosted.isr) == (2, -1, ())
    assert "state file" in loaded.warnings[0]


@pytest.mark.parametrize(
    "name", ["replication-offset-checkpoint", "recovery-point-offset-checkpoint"]
)
def test_malformed_offset_checkpoint_costs_a_warning_only(workshop: Workshop, name: str) -> None:
    whole = filled(workshop)
    (workshop.root / name).write_text("0\n5\n")
    loaded = load(workshop, state(TP))
    assert content(loaded.logs[TP]) == whole
    assert loaded.hosted[0].high_watermark == 0
    assert loaded.logs[TP].recovery_point == 40
    assert len(loaded.warnings) == 1


def test_strange_folders_are_reported_and_kept_and_unfinished_ones_removed(
    workshop: Workshop,
) -> None:
    filled(workshop)
    strange = ["orders-0", f"{TOPIC_ID}-03", "notes.deleted"]
    for name in strange:
        (workshop.root / name).mkdir()
    (workshop.root / str(OTHER)).mkdir()
    (workshop.root / f"{TOPIC_ID}-9.new").mkdir()
    (workshop.root / f"{TOPIC_ID}-9.new" / "0.log").write_text("x")
    loaded = load(workshop, state(TP))
    assert list(loaded.logs) == [TP]
    assert all((workshop.root / name).is_dir() for name in [*strange, f"{OTHER}.unreadable.1"])
    assert not list(workshop.root.glob("*.new"))
    assert len(loaded.warnings) == len(strange) + 1 + 2


def test_what_lies_in_the_trash_is_not_loaded(workshop: Workshop) -> None:
    filled(workshop)
    trash = Trash(workshop.root, TrashLimits(retention_ms=1, retention_bytes=0))
    trash.put([workshop.folder], now_ms=5)
    loaded = load(workshop)
    assert (loaded.logs, loaded.lost, loaded.warnings) == ({}, [], [])

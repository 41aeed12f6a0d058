"""A log begins later: readers at once, segments by renaming, restarts by the checkpoint."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from strandline.errors import ErrorCode, ProtocolError
from strandline.log.log_segments import SET_ASIDE_AT_ONCE_MAX
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import read_client_batch
from strandline.log.segment import Segment
from strandline.model import EpochStart, LeaderEpoch, TopicSettings

from .support.batches import batch
from .support.logs import Workshop, bytes_of, content, fill

NOW_MS = 1_700_000_000_000
"""The timestamp of the records that the tests write."""
DAY_MS = 86_400_000


def segments(workshop: Workshop) -> list[str]:
    return sorted(path.name for path in workshop.folder.glob("*.log*"))


def filled(root: Path, **settings: int) -> tuple[Workshop, PartitionLog]:
    """Return a log of five batches of two records, two batches in a segment."""
    workshop = Workshop(root, TopicSettings(segment_bytes=260, **settings))
    log = workshop.create()
    fill(log, batches=2, epoch=0)
    fill(log, batches=3, epoch=1)
    assert [int(name[:20]) for name in segments(workshop)] == [0, 4, 8]
    return workshop, log


def flush_off_the_loop(log: PartitionLog) -> None:
    flush = log.begin_flush()
    assert flush is not None
    flush.run()
    log.end_flush(flush)


def test_readers_find_nothing_below_a_later_start(tmp_path: Path) -> None:
    _, log = filled(tmp_path)
    whole = content(log)
    log.begin_at(5)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (5, 10, len(whole))
    with pytest.raises(ProtocolError) as refused:
        log.read(from_offset=4, up_to_offset=10, max_bytes=1)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    # The batch that the start lies in is read whole, as for any offset within a batch.
    assert content(log) == whole[-len(content(log)) :]
    assert [(each.leader_epoch, each.start_offset) for each in log.epochs] == [(1, 5)]
    log.begin_at(2)
    assert log.log_start_offset == 5


def test_only_sealed_segments_below_the_start_are_set_aside(tmp_path: Path) -> None:
    workshop, log = filled(tmp_path)
    log.begin_at(10)
    size = log.size_bytes
    files = log.set_aside_below(7)
    assert [path.name for path in files] == ["00000000000000000000.log.deleted"]
    assert [int(name[:20]) for name in segments(workshop)] == [0, 4, 8]
    assert log.size_bytes == size - files[0].stat().st_size
    assert log.set_aside_below(10) != []
    assert log.set_aside_below(10) == []
    assert (log.segment_count, log.log_start_offset) == (1, 10)


def test_a_turn_of_the_event_loop_sets_aside_a_bounded_number_of_segments(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, TopicSettings(segment_bytes=120))
    log = workshop.create()
    for _ in range(SET_ASIDE_AT_ONCE_MAX + 3):
        fill(log, batches=1, epoch=0)
        flush_off_the_loop(log)
    start = log.log_end_offset
    log.begin_at(start)
    assert len(log.set_aside_below(start)) == SET_ASIDE_AT_ONCE_MAX
    assert len(log.set_aside_below(start)) == 2
    log.close()
    again = workshop.open(log_start=EpochStart(leader_epoch=LeaderEpoch(1), start_offset=start))
    assert again.segment_count == 1


def test_a_reader_of_an_open_segment_reads_on_after_its_deletion(tmp_path: Path) -> None:
    workshop, log = filled(tmp_path)
    file = workshop.folder / "00000000000000000000.log"
    expected = file.read_bytes()
    with file.open("rb") as reader:
        log.begin_at(4)
        (renamed,) = log.set_aside_below(4)
        assert reader.read() == expected
    assert renamed.exists()


def test_a_read_that_opens_a_segment_after_its_deletion_is_out_of_range(tmp_path: Path) -> None:
    _, log = filled(tmp_path)
    flush_off_the_loop(log)
    parts = [log.part(from_offset=at, up_to_offset=10, max_bytes=1 << 20) for at in (0, 4)]
    log.begin_at(4)
    log.set_aside_below(4)
    deleted, kept = (part.read(max_bytes=1 << 20, any_size=True) for part in parts)
    with pytest.raises(ProtocolError) as refused:
        log.finish_read(parts[0], deleted)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert bytes_of(log.finish_read(parts[1], kept)) == content(log)


def test_a_deletion_during_a_flush_leaves_no_summary_behind(tmp_path: Path) -> None:
    workshop, log = filled(tmp_path)
    flush = log.begin_flush()
    assert flush is not None
    log.begin_at(5)
    log.set_aside_below(5)
    flush.run()
    assert len(list(workshop.folder.glob("*.summary"))) == 3
    log.end_flush(flush)
    kept = {path.name[:20] for path in workshop.folder.glob("*") if path.suffix != ".deleted"}
    assert {int(name) for name in kept if name.isdigit()} == {4, 8}
    assert (log.recovery_point, log.sealed_waiting) == (10, 0)


def test_a_load_removes_what_a_death_left_beside_deleted_segments(tmp_path: Path) -> None:
    workshop, log = filled(tmp_path)
    flush = log.begin_flush()
    assert flush is not None
    log.begin_at(5)
    log.set_aside_below(5)
    flush.run()
    log.close()
    workshop.open(log_start=log.log_start).close()
    assert list(workshop.folder.glob("00000000000000000000.*")) == []


def test_segments_stay_while_producers_are_made_anew_from_them(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, TopicSettings(segment_bytes=260))
    log = workshop.create()
    for sequence in range(8):
        sent = batch([b"v"], producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append_as_leader(
            read_client_batch(sent), base_offset=log.log_end_offset, leader_epoch=LeaderEpoch(0)
        )
    log.truncate_to(7)
    rebuild = log.rebuild
    assert rebuild is not None
    log.begin_at(6)
    assert log.set_aside_below(6) == []
    log.end_rebuild(rebuild, rebuild.run())
    assert log.set_aside_below(6) != []


def test_a_summary_knows_the_epochs_below_a_start_that_never_came_to_disk(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, TopicSettings())
    log = workshop.create()
    fill(log, batches=2, epoch=0)
    fill(log, batches=3, epoch=1)
    epochs = log.epochs
    log.begin_at(9)
    assert [(each.leader_epoch, each.start_offset) for each in log.epochs] == [(1, 9)]
    flush_off_the_loop(log)
    log.close()
    again = workshop.open(clean=True, recovery_point=10)
    assert (again.log_start_offset, again.epochs) == (0, epochs)


def test_a_roll_without_space_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop, log = filled(tmp_path, segment_ms=DAY_MS)
    before, later_ms = content(log), NOW_MS + 2 * DAY_MS

    def full(_: Segment) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "create", full)
        log.roll_if_due(high_watermark=10, active_since_ms=later_ms, now_ms=later_ms)
    assert (log.segment_count, log.size_bytes) == (3, len(before))
    log.roll_if_due(high_watermark=10, active_since_ms=later_ms, now_ms=later_ms)
    assert log.segment_count == 4
    fill(log, batches=1, epoch=1)
    log.close()
    assert workshop.open().log_end_offset == 12


def test_a_restart_finds_the_start_of_the_checkpoint_and_removes_what_is_left(
    tmp_path: Path,
) -> None:
    workshop, log = filled(tmp_path)
    log.begin_at(5)
    log.close()
    # The process ended after the checkpoint was written, and before the segment was renamed.
    again = workshop.open(log_start=log.log_start)
    assert (again.log_start_offset, again.log_end_offset) == (5, 10)
    assert [int(name[:20]) for name in segments(workshop)] == [4, 8]
    assert again.epochs == log.epochs
    assert not again.validation.damaged
    again.set_aside_below(5)
    again.begin_at(8)
    again.set_aside_below(8)
    again.close()
    # A lost checkpoint costs the deletion within a segment, no more.
    last = workshop.open()
    assert (last.log_start_offset, segments(workshop)) == (8, ["00000000000000000008.log"])


def test_a_log_that_ends_below_its_start_lost_records(tmp_path: Path) -> None:
    workshop, log = filled(tmp_path)
    log.close()
    told: list[int] = []
    again = PartitionLog.open(
        workshop.folder,
        workshop.settings,
        clean=True,
        recovery_point=10,
        log_start=EpochStart(leader_epoch=LeaderEpoch(1), start_offset=11),
        environment=workshop.environment,
        before_loss=lambda: told.append(len(segments(workshop))),
    )
    assert told == [3]
    assert again.validation.damaged
    assert (again.log_start_offset, again.log_end_offset) == (11, 11)


def test_the_last_epoch_of_a_log_outlives_its_records_and_a_restart(tmp_path: Path) -> None:
    workshop, log = filled(tmp_path)
    log.begin_at(10)
    log.roll_if_due(high_watermark=10, active_since_ms=NOW_MS, now_ms=NOW_MS)
    log.set_aside_below(10)
    start = EpochStart(leader_epoch=LeaderEpoch(1), start_offset=10)
    assert (log.epochs, log.log_start) == ((start,), start)
    log.close()
    again = workshop.open(log_start=start)
    assert (again.epochs, again.log_start, again.log_end_offset) == ((start,), start, 10)
    fill(again, batches=1, epoch=1)
    found = [again.epochs]
    fill(again, batches=1, epoch=3)
    found.append(again.epochs)
    again.truncate_to(10)
    found.append(again.epochs)
    fill(again, batches=1, epoch=3)
    found.append(again.epochs)
    at_12, at_10 = (EpochStart(leader_epoch=LeaderEpoch(3), start_offset=at) for at in (12, 10))
    assert found == [(start,), (start, at_12), (start,), (at_10,)]
    again.close()
    # An epoch that this broker never accepted is none of its log's.
    assert workshop.open(log_start=start, epoch_max=0).epochs == ()


def test_a_log_that_begins_anew_forgets_its_later_start(tmp_path: Path) -> None:
    _, log = filled(tmp_path)
    log.begin_at(6)
    log.restart_at(3)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


@pytest.mark.parametrize(
    "settings,now_ms,high_watermark,rolls",
    [
        ({"segment_ms": DAY_MS}, NOW_MS + DAY_MS, 10, False),
        ({"segment_ms": DAY_MS}, NOW_MS + DAY_MS + 1, 0, True),
        ({"retention_ms": DAY_MS}, NOW_MS + DAY_MS + 1, 10, True),
        ({"retention_ms": DAY_MS}, NOW_MS + DAY_MS + 1, 9, False),
        ({"retention_ms": DAY_MS}, NOW_MS + DAY_MS, 10, False),
        ({"retention_bytes": 1}, NOW_MS + DAY_MS, 10, False),
    ],
)
def test_the_active_segment_rolls_when_its_time_is_over(
    tmp_path: Path, settings: dict[str, int], now_ms: int, high_watermark: int, rolls: bool
) -> None:
    workshop, log = filled(tmp_path, **settings)
    for _ in range(2):
        log.roll_if_due(high_watermark=high_watermark, active_since_ms=now_ms, now_ms=now_ms)
        assert log.segment_count == 3 + rolls
    fill(log, batches=1, epoch=1)
    assert log.log_end_offset == 12
    log.close()
    assert workshop.open().log_end_offset == 12


def test_an_idle_log_ages_out_to_the_last_record(tmp_path: Path) -> None:
    workshop, log = filled(tmp_path, retention_ms=DAY_MS)
    now_ms = NOW_MS + DAY_MS + 1
    log.roll_if_due(high_watermark=10, active_since_ms=now_ms, now_ms=now_ms)
    start = log.start_by_retention(high_watermark=10, now_ms=now_ms)
    assert start == 10
    log.begin_at(start)
    log.set_aside_below(start)
    assert (log.size_bytes, segments(workshop)[-1]) == (0, "00000000000000000010.log")
    flush_off_the_loop(log)
    epochs = log.epochs
    log.close()
    again = workshop.open(log_start=log.log_start, recovery_point=10)
    assert (again.log_start_offset, again.log_end_offset) == (10, 10)
    # The summary of the empty segment remembers under which epoch the last record was written.
    assert [(each.leader_epoch, each.start_offset) for each in epochs] == [(1, 10)]
    assert again.epochs == epochs


def test_timestamps_that_say_nothing_neither_keep_nor_delete(tmp_path: Path) -> None:
    """Records from the future: the files' last change decides, and when the segment was seen."""
    workshop, log = filled(tmp_path, retention_ms=DAY_MS, segment_ms=DAY_MS)
    now_ms = NOW_MS - 10 * DAY_MS
    for path in workshop.folder.glob("*.log"):
        os.utime(path, ns=((now_ms - DAY_MS) * 1_000_000,) * 2)
    assert log.start_by_retention(high_watermark=10, now_ms=now_ms) == 0
    log.roll_if_due(high_watermark=10, active_since_ms=now_ms - DAY_MS, now_ms=now_ms)
    assert log.segment_count == 3
    assert log.start_by_retention(high_watermark=10, now_ms=now_ms + 1) == 8
    log.roll_if_due(high_watermark=0, active_since_ms=now_ms - DAY_MS, now_ms=now_ms + 1)
    assert log.segment_count == 4


def test_a_segment_closed_above_the_start_goes_with_the_next_look(tmp_path: Path) -> None:
    _, log = filled(tmp_path)
    log.begin_at(10)
    log.set_aside_below(10)
    log.roll_if_due(high_watermark=10, active_since_ms=NOW_MS, now_ms=NOW_MS)
    assert log.set_aside_below(10) != []
    assert log.size_bytes == 0

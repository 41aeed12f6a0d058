"""A long tail is cut off the disk on a thread: until then a mark ends the log, whatever happens."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from strandline.dump_log.log_reader import read_log
from strandline.errors import LogDirectoryFailed
from strandline.log.batch_scan import CUT_MARK
from strandline.log.partition_log import PartitionLog
from strandline.model import TopicSettings
from tests.log.support.batches import batch
from tests.log.support.logs import SMALL_INDEX, Workshop, append, bring_to_disk, content, fill
from tests.support.killed import Killed, killed_behind

OPERATIONS_MAX = 100
ONE = len(batch([b"v" * 20]))
"""Bytes of each batch here, so that a batch ends where one of the tail did."""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """Provide logs whose tails all wait for a thread."""
    limits = dataclasses.replace(SMALL_INDEX, cut_at_once_bytes_max=0)
    return Workshop(tmp_path, TopicSettings(segment_bytes=10 * ONE), limits)


def last_file(workshop: Workshop) -> Path:
    return max(workshop.folder.glob("*.log"))


def kill(log: PartitionLog) -> None:
    """End the process that has a log: nothing is written any more."""
    log.release()


def cut_on_a_thread(log: PartitionLog) -> None:
    assert log.cut is not None
    log.cut.run()


def test_the_tail_stays_in_the_file_until_the_cut_is_run(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=8, records=1)
    kept = content(log)[: 3 * ONE]
    assert log.truncate_to(3) == 3
    assert (content(log), log.size_bytes) == (kept, 3 * ONE)
    assert last_file(workshop).stat().st_size == 8 * ONE
    cut_on_a_thread(log)
    assert last_file(workshop).read_bytes() == kept
    assert log.cut is None
    append(log)
    assert last_file(workshop).read_bytes() == content(log)


def test_a_short_tail_goes_at_once(tmp_path: Path) -> None:
    log = Workshop(tmp_path).create()
    fill(log, batches=3, records=1)
    log.truncate_to(1)
    assert log.cut is None
    assert len(content(log)) == last_file(Workshop(tmp_path)).stat().st_size


def test_a_tail_is_never_written_over(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=8, records=1)
    log.truncate_to(3)
    append(log, epoch=1)
    assert log.cut is None
    assert last_file(workshop).read_bytes() == content(log)
    log.truncate_to(2)
    log.truncate_to(1)
    assert last_file(workshop).read_bytes()[ONE : ONE + len(CUT_MARK)] == CUT_MARK
    log.roll_if_due(high_watermark=1, active_since_ms=0, now_ms=1 << 60)
    assert log.segment_count == 1
    append(log, value=b"v" * (10 * ONE))
    assert log.segment_count == 2
    assert min(workshop.folder.glob("*.log")).stat().st_size == ONE


@pytest.mark.parametrize("summarised", [False, True], ids=["walked", "behind a summary"])
def test_a_killed_process_leaves_no_record_of_the_tail(
    workshop: Workshop, summarised: bool
) -> None:
    log = workshop.create()
    fill(log, batches=18, records=1)
    bring_to_disk(log)
    kept = content(log)[: 13 * ONE]
    log.truncate_to(13)
    if summarised:
        bring_to_disk(log)
    kill(log)
    again = workshop.open(clean=True, recovery_point=13)
    assert content(again) == kept
    assert "truncation" in again.validation.problem
    assert not again.validation.damaged
    assert last_file(workshop).stat().st_size == 3 * ONE
    append(again, epoch=1)
    again.close()
    assert workshop.open(clean=True).validation.problem == ""


def test_an_orderly_end_leaves_no_tail(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=8, records=1)
    log.truncate_to(3)
    log.close()
    assert last_file(workshop).stat().st_size == 3 * ONE


def test_segments_that_a_power_cut_brings_back_go_with_the_tail(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=25, records=1)
    log.flush()
    kept = content(log)[: 5 * ONE]
    later = sorted(workshop.folder.glob("*.log"))[1:]
    for path in later:
        shutil.copy(path, path.with_suffix(".saved"))
    log.truncate_to(5)
    kill(log)
    for path in later:
        path.with_suffix(".saved").rename(path)
    again = workshop.open()
    assert content(again) == kept
    assert not again.validation.damaged
    assert len(list(workshop.folder.glob("*.log"))) == 1


def test_other_bytes_in_the_place_of_a_batch_are_damage(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=8, records=1)
    log.truncate_to(3)
    kill(log)
    with last_file(workshop).open("r+b") as file:
        file.seek(3 * ONE + len(CUT_MARK) - 1)
        file.write(b"\x00")
    assert workshop.open(clean=True).validation.damaged


@pytest.mark.parametrize("target", [13, 3, 0], ids=["last segment", "older segment", "whole log"])
@pytest.mark.parametrize(
    "between", [cut_on_a_thread, lambda _log: None], ids=["by a thread", "by the append"]
)
def test_a_truncation_killed_behind_any_disk_operation_brings_no_record_back(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: int,
    between: Callable[[PartitionLog], None],
) -> None:
    """Records of a new epoch follow; they are as long as those of the tail."""
    for operation in range(1, OPERATIONS_MAX):
        limits = dataclasses.replace(SMALL_INDEX, cut_at_once_bytes_max=0)
        root = tmp_path / str(operation)
        root.mkdir()
        shop = Workshop(root, TopicSettings(segment_bytes=10 * ONE), limits)
        log = shop.create()
        fill(log, batches=18, records=1)
        bring_to_disk(log)
        old = content(log)
        ends = [18]
        with killed_behind(operation, monkeypatch) as done, suppress(Killed):
            log.truncate_to(target)
            ends.append(log.log_end_offset)
            between(log)
            for _ in range(4):
                append(log, epoch=1)
                ends.append(log.log_end_offset)
            bring_to_disk(log)
        kill(log)
        again = shop.open(clean=True, recovery_point=min(target, 18))
        found = content(again)
        assert not again.validation.damaged, (done, again.validation)
        if len(ends) == 1:
            # It was not told that it is done: segments go from the newest on.
            assert target <= again.log_end_offset <= 18, done
            assert found == old[: again.log_end_offset * ONE], done
        else:
            # What was reported is there, and at most one append that was not.
            assert ends[-1] <= again.log_end_offset <= ends[-1] + 1, done
            assert found[: target * ONE] == old[: target * ONE], done
            assert all(each.leader_epoch == 1 for each in again.epochs if each.start_offset), done
            assert [e.start_offset for e in again.epochs if e.leader_epoch == 1] == (
                [target] if again.log_end_offset > target else []
            ), done
        again.close()
        if len(done) < operation:
            return
    pytest.fail("the truncation has more disk operations than the test allows")


def test_a_full_volume_that_takes_no_mark_has_the_tail_go_at_once(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = workshop.create()
    fill(log, batches=8, records=1)

    def full(*_arguments: object) -> int:
        raise OSError(28, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", full)
        log.truncate_to(3)
    assert log.cut is None
    assert last_file(workshop).stat().st_size == 3 * ONE


def test_a_cut_that_fails_fails_the_append_that_follows(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = workshop.create()
    fill(log, batches=8, records=1)
    log.truncate_to(3)

    def broken(*_arguments: object) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "ftruncate", broken)
    with pytest.raises(LogDirectoryFailed, match="EIO"):
        append(log)
    with pytest.raises(LogDirectoryFailed):
        append(log)


def test_a_dump_ends_at_the_mark(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=18, records=1)
    log.truncate_to(13)
    assert [each.header.base_offset for each in read_log(workshop.folder)] == list(range(13))


def test_a_long_tail_goes_in_steps_from_its_end_on(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = workshop.create()
    fill(log, batches=8, records=1)
    log.truncate_to(3)
    sizes: list[int] = []
    really = os.ftruncate
    monkeypatch.setattr("strandline.log.segment_cut.CUT_STEP_BYTES", 2 * ONE)

    def noted(fd: int, size_bytes: int) -> None:
        sizes.append(size_bytes // ONE)
        really(fd, size_bytes)

    monkeypatch.setattr(os, "ftruncate", noted)
    cut_on_a_thread(log)
    assert sizes == [6, 4, 3]

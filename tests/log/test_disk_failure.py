"""A disk that is full, read-only or failing takes its log directory down at the first error."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strandline.errors import LogDirectoryFailed, LogDirectoryFull
from strandline.log.checkpoint import EpochCheckpoint
from strandline.log.partition_log import PartitionLog
from strandline.model import EpochStart, LeaderEpoch, TopicSettings
from tests.log.support.loads import load
from tests.log.support.logs import Workshop, append, content
from tests.support.volumes import mounted_tmpfs

BIG = TopicSettings(segment_bytes=1 << 20)
VALUE = b"v" * 10_000


def fill_until_refused(log: PartitionLog) -> LogDirectoryFailed:
    for _ in range(1000):
        try:
            append(log, value=VALUE)
        except LogDirectoryFailed as failure:
            return failure
    raise AssertionError("a thousand appends did not fill the disk")


def refuses_all_changes(log: PartitionLog) -> None:
    end, point = log.log_end_offset, log.recovery_point
    with pytest.raises(LogDirectoryFailed):
        append(log)
    with pytest.raises(LogDirectoryFailed):
        log.flush()
    with pytest.raises(LogDirectoryFailed):
        log.truncate_to(0)
    with pytest.raises(LogDirectoryFailed):
        log.restart_at(0)
    assert (log.log_end_offset, log.recovery_point) == (end, point)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a real file system of one megabyte."""
    with mounted_tmpfs(tmp_path, "size=1m") as path:
        yield path


def test_full_disk_fails_the_append_and_keeps_what_was_written(small_disk: Path) -> None:
    workshop = Workshop(small_disk, BIG)
    log = workshop.create()
    failure = fill_until_refused(log)
    assert str(failure) == f"{workshop.folder}: append: ENOSPC"
    assert isinstance(failure, LogDirectoryFull)
    assert next(workshop.folder.glob("*.log")).stat().st_size == log.size_bytes
    written = log.log_end_offset
    assert written > 50
    refuses_all_changes(log)
    assert len(content(log)) == log.size_bytes
    log.close()
    again = workshop.open()
    assert again.log_end_offset == written
    assert not again.validation.damaged
    again.close()


def test_full_disk_fails_the_checkpoint_and_keeps_the_old_one(small_disk: Path) -> None:
    workshop = Workshop(small_disk, BIG)
    log = workshop.create()
    checkpoint = EpochCheckpoint(log.folder)
    first = EpochStart(leader_epoch=LeaderEpoch(1), start_offset=0)
    checkpoint.write((first,))
    fill_until_refused(log)
    many = [EpochStart(leader_epoch=LeaderEpoch(n), start_offset=n) for n in range(2, 5000)]
    with pytest.raises(LogDirectoryFailed, match="ENOSPC"):
        checkpoint.write((first, *many))
    assert checkpoint.read() == (first,)
    log.close()


def test_full_disk_fails_the_creation(small_disk: Path) -> None:
    workshop = Workshop(small_disk, BIG)
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(bytes(2 << 20))
    with pytest.raises(LogDirectoryFailed, match="create: ENOSPC"):
        workshop.create()
    assert not workshop.folder.exists()


def test_a_full_disk_serves_reads_of_a_log_without_indexes(small_disk: Path) -> None:
    workshop = Workshop(small_disk, TopicSettings(segment_bytes=30_000))
    log = workshop.create()
    fill_until_refused(log)
    wanted, end = content(log), log.log_end_offset
    log.close()
    for index in workshop.folder.glob("*.index"):
        index.unlink()
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "ballast").write_bytes(bytes(2 << 20))
    again = workshop.open()
    assert (again.log_end_offset, content(again)) == (end, wanted)
    workshop.pool.close()
    for index in workshop.folder.glob("*.index"):
        index.unlink()
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "more").write_bytes(bytes(2 << 20))
    assert content(again) == wanted
    again.close()


def test_disk_turned_read_only_fails_open_and_checkpoint(small_disk: Path) -> None:
    workshop = Workshop(small_disk, TopicSettings(segment_bytes=400))
    log = workshop.create()
    for _ in range(20):
        append(log)
    log.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(LogDirectoryFailed, match="EROFS"):
        workshop.open()
    with pytest.raises(LogDirectoryFailed, match="EROFS"):
        EpochCheckpoint(workshop.folder).write(())


@contextmanager
def file_size_limited(to_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (to_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_write_cut_short_by_the_system_is_not_counted(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, BIG)
    log = workshop.create()
    append(log, value=VALUE)
    size = log.size_bytes
    with file_size_limited(size + 5000), pytest.raises(LogDirectoryFailed, match="EFBIG"):
        append(log, value=VALUE)
    assert (log.log_end_offset, log.size_bytes) == (1, size)
    assert next(workshop.folder.glob("*.log")).stat().st_size == size + 5000
    refuses_all_changes(log)
    assert len(content(log)) == size
    log.close()
    again = workshop.open(clean=True)
    assert (again.log_end_offset, again.size_bytes) == (1, size)
    assert next(workshop.folder.glob("*.log")).stat().st_size == size


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_failed_fsync_is_never_retried_into_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """An fsync that finds no space (a thin volume, NFS) has lost pages like any other."""
    log = Workshop(tmp_path, BIG).create()
    append(log)
    log.flush()
    append(log)

    def failing(_: int) -> None:
        raise OSError(number, "the disk lost it")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", failing)
        with pytest.raises(LogDirectoryFailed, match="fsync: E") as caught:
            log.flush()
    assert not isinstance(caught.value, LogDirectoryFull)
    assert log.recovery_point == 1
    refuses_all_changes(log)
    log.close()


def test_a_roll_that_fails_is_no_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Workshop(tmp_path, TopicSettings(segment_bytes=400)).create()
    append(log, value=b"v" * 300)

    def failing(*_: object) -> int:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", failing)
        with pytest.raises(LogDirectoryFailed, match="append: EIO") as caught:
            append(log, value=b"v" * 300)
    assert not isinstance(caught.value, LogDirectoryFull)
    refuses_all_changes(log)
    log.close()


def test_file_cut_by_another_process_fails_the_read(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, BIG)
    log = workshop.create()
    append(log, value=VALUE)
    os.truncate(next(workshop.folder.glob("*.log")), 100)
    with pytest.raises(LogDirectoryFailed, match="read: EIO"):
        content(log)


def test_changed_bytes_fail_the_read(tmp_path: Path) -> None:
    """A leader that cannot read what it wrote may not go on leading."""
    workshop = Workshop(tmp_path, BIG)
    log = workshop.create()
    append(log, value=VALUE)
    append(log, value=VALUE)
    with next(workshop.folder.glob("*.log")).open("r+b") as file:
        file.write(b"\xff" * 32)
    with pytest.raises(LogDirectoryFailed, match="read: CORRUPT_MESSAGE"):
        log.read(from_offset=0, up_to_offset=1, max_bytes=1)
    refuses_all_changes(log)


def test_data_directory_that_is_gone_fails_the_load(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path / "absent")
    with pytest.raises(LogDirectoryFailed, match="ENOENT"):
        load(workshop, clean=True)

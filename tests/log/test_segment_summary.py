"""What a load takes from summaries, and when it walks a segment instead."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from strandline.errors import ErrorCode, ProtocolError
from strandline.log.record_batch import read_client_batch
from strandline.model import BatchSpan, LeaderEpoch
from tests.log.support.batches import batch
from tests.log.support.logs import (
    Workshop,
    append,
    bring_to_disk,
    complete_producers,
    content,
    fill,
)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def filled(workshop: Workshop) -> bytes:
    """Leave a log of 20 equal batches of two records, epochs 1 and 2, on disk; return its bytes."""
    log = workshop.create()
    fill(log, batches=10, epoch=1)
    fill(log, batches=10, epoch=2)
    bring_to_disk(log)
    whole = content(log)
    log.close()
    return whole


def segments(workshop: Workshop) -> list[Path]:
    return sorted(workshop.folder.glob("*.log"))


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the bytes that are read of each segment file."""
    counted: Counter[str] = Counter()
    really = os.pread

    def noted(fd: int, length: int, position: int) -> bytes:
        data = really(fd, length, position)
        counted[Path(os.readlink(f"/proc/self/fd/{fd}")).name] += len(data)
        return data

    monkeypatch.setattr(os, "pread", noted)
    return counted


@pytest.mark.parametrize("clean", [True, False])
def test_a_load_reads_nothing_that_the_recovery_point_covers(
    workshop: Workshop, bytes_read: Counter[str], *, clean: bool
) -> None:
    whole = filled(workshop)
    before = workshop.open(recovery_point=0)
    bytes_read.clear()
    log = workshop.open(recovery_point=0)
    assert sum(bytes_read.values()) == len(whole), "no summary is left once one was not trusted"
    bring_to_disk(log)
    log.close()
    bytes_read.clear()
    again = workshop.open(recovery_point=40, clean=clean)
    assert bytes_read.total() == 0
    assert (again.log_end_offset, again.epochs) == (before.log_end_offset, before.epochs)
    assert again.size_bytes == len(whole)
    assert content(again) == whole


def test_a_load_walks_what_came_after_the_recovery_point(
    workshop: Workshop, bytes_read: Counter[str]
) -> None:
    log = workshop.create()
    fill(log, batches=1, epoch=1)
    one = log.size_bytes
    bring_to_disk(log)
    fill(log, batches=1, epoch=2)
    log.close()
    again = workshop.open(recovery_point=2)
    assert bytes_read.total() == one
    assert (again.log_end_offset, len(again.epochs)) == (4, 2)
    append(again, epoch=2)
    assert again.log_end_offset == 5


@pytest.mark.parametrize(
    "damage", ["missing", "flipped", "cut", "behind", "another segment's", "index"]
)
def test_a_segment_without_a_fitting_summary_is_walked(
    workshop: Workshop, bytes_read: Counter[str], damage: str
) -> None:
    whole = filled(workshop)
    path = segments(workshop)[1]
    summary, recovery_point = path.with_suffix(".summary"), 40
    content_before = summary.read_bytes()
    if damage == "missing":
        summary.unlink()
    elif damage == "flipped":
        summary.write_bytes(content_before[:60] + b"7" + content_before[61:])
    elif damage == "cut":
        summary.write_bytes(content_before[:-1])
    elif damage == "behind":
        recovery_point = int(path.stem) + 1
    elif damage == "index":
        path.with_suffix(".index").write_bytes(b"")
    else:
        summary.write_bytes(segments(workshop)[2].with_suffix(".summary").read_bytes())
    bytes_read.clear()
    log = workshop.open(recovery_point=recovery_point)
    assert bytes_read[path.name] > 0
    assert bytes_read[segments(workshop)[0].name] == 0
    assert content(log) == whole
    assert not log.validation.problem


def test_a_summary_of_epochs_that_this_broker_never_accepted_is_not_trusted(
    workshop: Workshop, bytes_read: Counter[str]
) -> None:
    filled(workshop)
    bytes_read.clear()
    log = workshop.open(recovery_point=40, epoch_max=1)
    assert bytes_read.total() > 0
    assert log.log_end_offset == 20
    assert log.validation.damaged


def test_producers_come_back_from_a_summary_and_the_batches_behind_it(workshop: Workshop) -> None:
    log = workshop.create()
    sources = [batch([b"v"], producer_id=5, producer_epoch=0, base_sequence=n) for n in range(30)]
    for n, source in enumerate(sources):
        sent = read_client_batch(source)
        log.append_as_leader(sent, base_offset=n, leader_epoch=LeaderEpoch(0))
        if n == 20:
            bring_to_disk(log)
    log.close()
    again = workshop.open(recovery_point=21)
    for n, source in enumerate(sources):
        found = again.check_sequence(read_client_batch(source).header)
        assert isinstance(found, BatchSpan) == (n >= 25)


def test_a_cut_log_finds_older_batches_with_one_segment_of_reading(
    workshop: Workshop, bytes_read: Counter[str]
) -> None:
    log = workshop.create()
    sources = [batch([b"v"], producer_id=5, producer_epoch=0, base_sequence=n) for n in range(60)]
    for n, source in enumerate(sources):
        log.append_as_leader(read_client_batch(source), base_offset=n, leader_epoch=LeaderEpoch(0))
        if n % 10 == 9:
            bring_to_disk(log)
    assert log.segment_count > 8
    bytes_read.clear()
    log.truncate_to(41)
    with pytest.raises(ProtocolError) as refusal:
        log.check_sequence(read_client_batch(sources[41]).header)
    assert refusal.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    complete_producers(log)
    assert bytes_read.total() <= 2 * 400
    for n in range(36, 41):
        found = log.check_sequence(read_client_batch(sources[n]).header)
        assert isinstance(found, BatchSpan)
    assert log.check_sequence(read_client_batch(sources[41]).header) is ErrorCode.NONE

"""Deleted logs: kept by time and size, brought back, and whole at whichever moment a kill comes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from strandline.errors import ErrorCode, ProtocolError
from strandline.log import trash as trash_module
from strandline.log.trash import Trash, TrashLimits, trashed_replicas
from strandline.model import TopicPartition
from tests.log.support.logs import TOPIC_ID, TP, Workshop, content, fill

DAY_MS = 86_400_000


def go_on() -> bool:
    return False


def trash_of(root: Path, *, retention_ms: int = DAY_MS, retention_bytes: int = 1 << 30) -> Trash:
    return Trash(root, TrashLimits(retention_ms=retention_ms, retention_bytes=retention_bytes))


def deleted(root: Path, partition: int, *, at_ms: int, trash: Trash, batches: int = 20) -> bytes:
    """Put a filled log into the trash; return what it held."""
    log = Workshop(root).create(TopicPartition(topic_id=TOPIC_ID, partition=partition))
    fill(log, batches=batches)
    whole = content(log)
    log.release()
    trash.put([log.folder], now_ms=at_ms)
    return whole


def test_a_deleted_log_leaves_its_name_free_and_lies_in_the_trash_whole(tmp_path: Path) -> None:
    trash = trash_of(tmp_path)
    deleted(tmp_path, 3, at_ms=1000, trash=trash)
    assert [path.name for path in tmp_path.iterdir()] == ["trash"]
    (log,) = trash.deleted_logs()
    assert (log.tp, log.deleted_at_ms, log.folder.name) == (TP, 1000, f"{TP}.1000")
    text = (log.folder / "partition.metadata").read_text()
    assert "topic_name: orders\n" in text
    assert f"topic_id: {TOPIC_ID}\n" in text
    assert "partition: 3\n" in text


def test_two_deletions_of_one_partition_at_one_time_are_both_kept(tmp_path: Path) -> None:
    trash = trash_of(tmp_path)
    for _ in range(2):
        deleted(tmp_path, 3, at_ms=1000, trash=trash)
    assert [log.deleted_at_ms for log in trash.deleted_logs()] == [1000, 1001]


def test_a_log_is_removed_after_its_time_and_not_at_it(tmp_path: Path) -> None:
    trash = trash_of(tmp_path)
    deleted(tmp_path, 3, at_ms=1000, trash=trash)
    assert trash.clean(now_ms=1000 + DAY_MS, stopping=go_on) == []
    assert [log.tp for log in trash.clean(now_ms=1001 + DAY_MS, stopping=go_on)] == [TP]
    assert list(trash.folder.iterdir()) == []
    assert trash.size_bytes == 0


def test_too_many_bytes_remove_the_oldest_first(tmp_path: Path) -> None:
    free = trash_of(tmp_path)
    for partition in range(3):
        deleted(tmp_path, partition, at_ms=1000 - partition, trash=free)
    free.clean(now_ms=1000, stopping=go_on)
    one = free.size_bytes // 3
    bound = trash_of(tmp_path, retention_bytes=2 * one)
    assert [log.tp.partition for log in bound.clean(now_ms=1000, stopping=go_on)] == [2]
    assert bound.size_bytes == 2 * one
    assert [log.tp.partition for log in bound.deleted_logs()] == [1, 0]


def test_without_a_bound_in_bytes_a_quarter_of_the_volume_is_kept(tmp_path: Path) -> None:
    trash = trash_of(tmp_path, retention_bytes=-1)
    deleted(tmp_path, 3, at_ms=1000, trash=trash)
    assert trash.clean(now_ms=1000, stopping=go_on) == []
    assert trash.size_bytes > 0


def test_a_big_file_gives_up_its_bytes_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trash_module, "REMOVAL_STEP_BYTES", 100)
    trash = trash_of(tmp_path, retention_ms=0)
    deleted(tmp_path, 3, at_ms=1000, trash=trash)
    (log,) = trash.deleted_logs()
    big = max(path.stat().st_size for path in log.folder.iterdir())
    sizes: list[int] = []
    really = os.truncate

    def noted(path: Path, size: int) -> None:
        sizes.append(path.stat().st_size - size)
        really(path, size)

    monkeypatch.setattr(os, "truncate", noted)
    trash.clean(now_ms=2000, stopping=go_on)
    assert big > 300
    assert set(sizes) == {100}
    assert list(trash.folder.iterdir()) == []


def test_a_removal_cut_short_is_no_log_and_is_ended_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trash_module, "REMOVAL_STEP_BYTES", 100)
    trash = trash_of(tmp_path, retention_ms=0)
    deleted(tmp_path, 3, at_ms=1000, trash=trash)
    asked = iter([False, False])
    trash.clean(now_ms=2000, stopping=lambda: next(asked, True))
    assert [path.suffix for path in trash.folder.iterdir()] == [".removing"]
    assert trash.deleted_logs() == []
    with pytest.raises(ProtocolError):
        trash.restore(TP)
    trash_of(tmp_path).clean(now_ms=2000, stopping=go_on)
    assert list(trash.folder.iterdir()) == []


def test_the_newest_deletion_comes_back_with_every_record(tmp_path: Path) -> None:
    trash = trash_of(tmp_path)
    deleted(tmp_path, 3, at_ms=1000, trash=trash)
    newest = deleted(tmp_path, 3, at_ms=2000, trash=trash, batches=30)
    assert trash.restore(TP) == tmp_path / str(TP)
    again = Workshop(tmp_path).open()
    assert content(again) == newest
    assert not again.validation.problem
    assert [log.deleted_at_ms for log in trash.deleted_logs()] == [1000]
    again.close()


def test_what_is_not_there_or_has_a_log_is_not_restored(tmp_path: Path) -> None:
    trash = trash_of(tmp_path)
    with pytest.raises(ProtocolError) as absent:
        trash.restore(TP)
    assert absent.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    deleted(tmp_path, 3, at_ms=1000, trash=trash)
    log = Workshop(tmp_path).create()
    with pytest.raises(ProtocolError) as taken:
        trash.restore(TP)
    assert taken.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert log.folder.is_dir()
    assert len(trash.deleted_logs()) == 1
    log.close()


@pytest.mark.parametrize("name", ["notes", "orders-0.12", f"{TP}.", f"{TP}.1.removed"])
def test_a_strange_name_in_the_trash_is_no_log(tmp_path: Path, name: str) -> None:
    trash = trash_of(tmp_path, retention_ms=0, retention_bytes=0)
    (trash.folder / name).mkdir(parents=True)
    assert trash.deleted_logs() == []
    assert trash.clean(now_ms=DAY_MS, stopping=go_on) == []
    assert (trash.folder / name).is_dir()


def test_the_newest_log_of_each_partition_is_told_with_its_topic(tmp_path: Path) -> None:
    trash = trash_of(tmp_path)
    for partition, at_ms in ((3, 1000), (1, 2000), (3, 3000), (2, 1500)):
        deleted(tmp_path, partition, at_ms=at_ms, trash=trash)
    told = trashed_replicas(tmp_path, logs_max=2)
    assert [(each.tp.partition, each.deleted_at_ms) for each in told] == [(1, 2000), (3, 3000)]
    assert {each.topic_name for each in told} == {"orders"}
    (trash.folder / f"{told[0].tp}.2000" / "partition.metadata").unlink()
    assert trashed_replicas(tmp_path, logs_max=2)[0].topic_name == ""


def test_a_directory_without_a_trash_tells_of_nothing(tmp_path: Path) -> None:
    assert trashed_replicas(tmp_path) == ()

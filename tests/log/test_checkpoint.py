"""Checkpoint files have Kafka's format, are read strictly, and are replaced as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.errors import CheckpointMalformed, LogDirectoryFailed
from strandline.log.checkpoint import (
    EpochCheckpoint,
    HighWatermarkCheckpoint,
    RecoveryPointCheckpoint,
)
from strandline.model import EpochStart, LeaderEpoch, TopicPartition
from tests.log.support.logs import TOPIC_ID, TP

OTHER = TopicPartition(topic_id=TOPIC_ID, partition=12)


def epoch(number: int, start: int) -> EpochStart:
    return EpochStart(leader_epoch=LeaderEpoch(number), start_offset=start)


def test_high_watermarks_come_back_and_are_kafkas_text(tmp_path: Path) -> None:
    HighWatermarkCheckpoint(tmp_path).write({OTHER: 7, TP: 1 << 62})
    assert HighWatermarkCheckpoint(tmp_path).read() == {TP: 1 << 62, OTHER: 7}
    text = (tmp_path / "replication-offset-checkpoint").read_text()
    assert text == f"0\n2\n{TOPIC_ID}-3 {1 << 62}\n{TOPIC_ID}-12 7\n"
    assert [path.name for path in tmp_path.iterdir()] == ["replication-offset-checkpoint"]


def test_recovery_points_are_another_file(tmp_path: Path) -> None:
    RecoveryPointCheckpoint(tmp_path).write({TP: 5})
    assert RecoveryPointCheckpoint(tmp_path).read() == {TP: 5}
    assert HighWatermarkCheckpoint(tmp_path).read() == {}


def test_epochs_come_back(tmp_path: Path) -> None:
    epochs = (epoch(0, 0), epoch(3, 10), epoch(4, 11))
    EpochCheckpoint(tmp_path).write(epochs)
    assert EpochCheckpoint(tmp_path).read() == epochs
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n3 10\n4 11\n"


@pytest.mark.parametrize("text", ["", "0\n", "0\n0\n"])
def test_empty_file_has_no_entries(tmp_path: Path, text: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(text)
    assert EpochCheckpoint(tmp_path).read() == ()


def test_left_over_temporary_file_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint.tmp").write_text("0\n9")
    EpochCheckpoint(tmp_path).write((epoch(1, 0),))
    assert EpochCheckpoint(tmp_path).read() == (epoch(1, 0),)


@pytest.mark.parametrize(
    "text",
    [
        "1\n0\n",
        "x\n",
        "0\n2\n0 0\n",
        "0\n1\n0 0\n1 5\n",
        "0\n1\n0 0",
        "0\n1\n0\n",
        "0\n1\n0 0 0\n",
        "0\n1\n-1 0\n",
        "0\n1\n0 +5\n",
        "0\n1\n0  5\n",
        "0\n2\n1 0\n1 5\n",
        "0\n2\n2 0\n1 5\n",
        "0\n2\n1 5\n2 5\n",
        "0\n1\n0 99999999999999999999\n",
        "0\n-1\n",
        "0\n1\n\n",
        "\x00\x00\x00\x00",
        "0\n1\n\u0661 0\n",
    ],
)
def test_malformed_epoch_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointMalformed):
        EpochCheckpoint(tmp_path).read()


@pytest.mark.parametrize(
    "line", ["orders-0 5", "../x-0 5", f"{TOPIC_ID}-03 5", f"{TOPIC_ID}-3", f"{TOPIC_ID}-3 x"]
)
def test_malformed_offset_file_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\n{line}\n")
    with pytest.raises(CheckpointMalformed):
        HighWatermarkCheckpoint(tmp_path).read()


def test_partition_named_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n2\n{TP} 1\n{TP} 2\n")
    with pytest.raises(CheckpointMalformed):
        HighWatermarkCheckpoint(tmp_path).read()


def test_failed_write_keeps_the_old_content_and_takes_the_directory_down(tmp_path: Path) -> None:
    checkpoint = EpochCheckpoint(tmp_path)
    checkpoint.write((epoch(1, 0),))
    (tmp_path / "leader-epoch-checkpoint.tmp").mkdir()
    with pytest.raises(LogDirectoryFailed, match=r"leader-epoch-checkpoint: EISDIR"):
        checkpoint.write((epoch(1, 0), epoch(2, 5)))
    assert checkpoint.read() == (epoch(1, 0),)

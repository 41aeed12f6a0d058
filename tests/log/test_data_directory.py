"""The data directory has one owner, refuses damaged files, and names a remedy in its errors."""

from __future__ import annotations

import errno
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.effects import PersistedPartition
from strandline.errors import CheckpointMalformed, LogDirectoryFailed
from strandline.log import data_directory, state_file
from strandline.log.data_directory import DataDirectory, MetaProperties, read_boot_id
from strandline.log.partition_folder import folder_of
from strandline.log.state_file import BrokerState
from strandline.model import (
    NO_TERM,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    IsrEntry,
    LeaderEpoch,
    LeaderTerm,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)

META = MetaProperties(
    log_dir_id="11111111-2222-4333-8444-555555555555",
    broker_epoch=BrokerEpoch(4),
    clean_since_epoch=BrokerEpoch(3),
    mount="ext4/sda 9",
)
TOPIC_ID = TopicId("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")


def tp(partition: int) -> TopicPartition:
    return TopicPartition(topic_id=TOPIC_ID, partition=partition)


def persisted(**changes: Any) -> PersistedPartition:
    values: dict[str, Any] = {
        "topic_name": "orders",
        "leader_epoch": LeaderEpoch(3),
        "partition_epoch": PartitionEpoch(7),
        "isr": (IsrEntry(broker_id=BrokerId(0), broker_epoch=BrokerEpoch(2)),),
    }
    return PersistedPartition(**{**values, **changes})


STATE = BrokerState(
    controller_epoch=ControllerEpoch(5), partitions={tp(0): persisted(), tp(1): persisted()}
)


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    return DataDirectory.open(tmp_path / "data")


def test_a_new_directory_is_empty_and_initialised_by_the_first_meta(
    directory: DataDirectory,
) -> None:
    assert directory.read_meta() is None
    assert directory.read_state() == BrokerState()
    directory.write_meta(META)
    assert directory.read_meta() == META
    assert directory.read_state() == BrokerState()


def test_a_second_owner_is_refused_until_the_first_closes(directory: DataDirectory) -> None:
    with pytest.raises(LogDirectoryFailed, match="locked by another process: stop that broker"):
        DataDirectory.open(directory.path)
    directory.close()
    DataDirectory.open(directory.path).close()


def test_the_marker_stays_until_it_is_removed(directory: DataDirectory) -> None:
    assert directory.read_clean_shutdown_marker() is None
    directory.write_clean_shutdown_marker(BrokerEpoch(9))
    assert directory.read_clean_shutdown_marker() == 9
    assert directory.read_clean_shutdown_marker() == 9
    directory.remove_clean_shutdown_marker()
    directory.remove_clean_shutdown_marker()
    assert directory.read_clean_shutdown_marker() is None


def test_a_failed_directory_stays_marked_until_the_mark_is_removed(
    directory: DataDirectory,
) -> None:
    directory.write_meta(META)
    assert directory.read_failed_mark() is None
    assert directory.mark_failed()
    assert directory.read_failed_mark() == META.broker_epoch
    directory.remove_failed_mark()
    assert directory.read_failed_mark() is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"brokerEpoch": 0}'])
def test_a_malformed_failed_mark_stands_for_the_last_process(
    directory: DataDirectory, content: bytes
) -> None:
    directory.write_meta(META)
    (directory.path / data_directory.FAILED_FILE).write_bytes(content)
    assert directory.read_failed_mark() == META.broker_epoch


def test_a_failed_mark_that_cannot_be_written_is_no_mark(directory: DataDirectory) -> None:
    (directory.path / (data_directory.FAILED_FILE + ".tmp")).mkdir()
    assert not directory.mark_failed()
    assert directory.read_failed_mark() is None


def test_meta_of_an_earlier_version_knows_of_no_loss(directory: DataDirectory) -> None:
    directory.write_meta(META)
    (directory.path / data_directory.META_FILE).write_text('{"logDirId": "x", "brokerEpoch": 4}')
    meta = directory.read_meta()
    assert meta is not None
    assert (meta.broker_epoch, meta.clean_since_epoch, meta.mount) == (4, 0, "")


def test_the_flushed_mark_is_of_one_process_and_stays_until_it_is_removed(
    directory: DataDirectory,
) -> None:
    assert directory.read_flushed_mark() is None
    directory.write_flushed_mark(BrokerEpoch(9))
    assert (directory.read_flushed_mark(), directory.has_flushed_mark) == (9, True)
    directory.remove_flushed_mark()
    assert (directory.read_flushed_mark(), directory.has_flushed_mark) == (None, False)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"brokerEpoch": "9"}', b'{"a": 1}'])
def test_a_malformed_marker_counts_as_none(directory: DataDirectory, content: bytes) -> None:
    (directory.path / data_directory.MARKER_FILE).write_bytes(content)
    assert directory.read_clean_shutdown_marker() is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"logDirId": "", "brokerEpoch": 1}',
        b'{"logDirId": "x", "brokerEpoch": -1}',
        b'{"logDirId": "x", "brokerEpoch": 1, "cleanSinceEpoch": "1"}',
        b'{"logDirId": "x", "brokerEpoch": 1, "mount": 7}',
        b'{"logDirId": "x", "brokerEpoch": true}',
        b"x" * 5000,
    ],
)
def test_an_odd_meta_is_refused(directory: DataDirectory, content: bytes) -> None:
    (directory.path / data_directory.META_FILE).write_bytes(content)
    with pytest.raises(CheckpointMalformed, match=r"meta\.json"):
        directory.read_meta()


def test_logs_without_meta_or_state_file_are_never_an_empty_beginning(
    directory: DataDirectory,
) -> None:
    directory.write_meta(META)
    folder_of(directory.path, tp(0)).mkdir()
    (directory.path / data_directory.STATE_FILE).unlink()
    with pytest.raises(CheckpointMalformed, match="broker-state is missing"):
        directory.read_state()
    (directory.path / data_directory.META_FILE).unlink()
    with pytest.raises(CheckpointMalformed, match=r"meta\.json is missing although logs exist"):
        directory.read_meta()
    with pytest.raises(CheckpointMalformed, match="broker-state is missing"):
        directory.read_state()


def test_a_missing_state_file_is_refused_even_without_logs(directory: DataDirectory) -> None:
    directory.write_meta(META)
    (directory.path / data_directory.STATE_FILE).unlink()
    # Writing meta again must not bring back an empty state.
    directory.write_meta(META)
    with pytest.raises(CheckpointMalformed):
        directory.read_state()


ids = st.integers(0, 9).map(BrokerId)
entries = st.builds(IsrEntry, broker_id=ids, broker_epoch=st.integers(0, 1 << 40).map(BrokerEpoch))
partitions = st.builds(
    persisted,
    topic_name=st.text("abc._-", min_size=1, max_size=20),
    leader_epoch=st.integers(-1, 1 << 30).map(LeaderEpoch),
    partition_epoch=st.integers(-1, 1 << 40).map(PartitionEpoch),
    isr=st.lists(entries, max_size=4).map(tuple),
)
states = st.builds(
    BrokerState,
    controller_epoch=st.integers(0, 1 << 40).map(ControllerEpoch),
    partitions=st.dictionaries(st.integers(0, 99).map(tp), partitions, max_size=5),
)


@given(state=states)
def test_a_state_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, state: BrokerState
) -> None:
    directory = DataDirectory.open(tmp_path_factory.mktemp("data"))
    directory.write_state(state)
    assert directory.read_state() == state
    directory.close()


def test_one_changed_byte_anywhere_in_the_state_file_is_noticed(directory: DataDirectory) -> None:
    directory.write_state(STATE)
    path = directory.path / data_directory.STATE_FILE
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(CheckpointMalformed):
            directory.read_state()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointMalformed):
            directory.read_state()


@pytest.mark.parametrize(
    "body",
    [
        {"controllerEpoch": -1, "partitions": []},
        {"controllerEpoch": 1},
        {"controllerEpoch": 1, "partitions": [{}]},
        {"controllerEpoch": 1, "partitions": 3},
        [],
    ],
)
def test_a_whole_state_file_of_another_shape_is_refused(
    directory: DataDirectory, monkeypatch: pytest.MonkeyPatch, body: object
) -> None:
    monkeypatch.setattr(state_file, "_state_body", lambda _: body)
    directory.write_state(STATE)
    with pytest.raises(CheckpointMalformed, match="not the promised form"):
        directory.read_state()


def test_a_partition_named_twice_is_refused(
    directory: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = state_file._state_body(STATE)
    twice = {**body, "partitions": body["partitions"][:1] * 2}
    monkeypatch.setattr(state_file, "_state_body", lambda _: twice)
    directory.write_state(STATE)
    with pytest.raises(CheckpointMalformed, match="twice"):
        directory.read_state()


def test_the_last_leadership_is_kept_and_may_be_unknown(directory: DataDirectory) -> None:
    term = LeaderTerm(leader_epoch=LeaderEpoch(2), led_by=BrokerId(1), led_as=BrokerEpoch(5))
    kept = BrokerState(partitions={tp(0): persisted(term=term), tp(1): persisted()})
    directory.write_state(kept)
    assert directory.read_state() == kept
    # A file of before the leadership was kept.
    path = directory.path / data_directory.STATE_FILE
    body = json.loads(path.read_bytes().partition(b"\n")[2])
    for item in body["partitions"]:
        del item["term"]
    content = json.dumps(body).encode()
    path.write_bytes(f"{state_file.STATE_HEADER} {zlib.crc32(content):08x}\n".encode() + content)
    assert {each.term for each in directory.read_state().partitions.values()} == {NO_TERM}


def test_a_write_that_did_not_finish_leaves_the_old_state(
    directory: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.write_state(STATE)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LogDirectoryFailed, match="is full: free space"):
        directory.write_state(BrokerState())
    assert directory.read_state() == STATE


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EROFS, "is read-only: mount the volume writable"),
        (errno.ENOSPC, "is full: free space"),
        (errno.EIO, "failing disk"),
        (errno.EACCES, "correct its owner"),
        (errno.EMFILE, "failed: EMFILE"),
    ],
)
def test_a_directory_that_cannot_be_written_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, errno.errorcode[number])

    monkeypatch.setattr(data_directory, "replace_file", refuse)
    with pytest.raises(LogDirectoryFailed, match=words):
        DataDirectory.open(tmp_path)
    monkeypatch.undo()
    # The failed opening has released its lock.
    DataDirectory.open(tmp_path).close()


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    with pytest.raises(LogDirectoryFailed, match="data directory"):
        DataDirectory.open(tmp_path / "data")


def test_other_folders_and_files_are_no_logs(directory: DataDirectory) -> None:
    for name in ("lost+found", "x-y", "-1", ".x-1", f"{TOPIC_ID}", f"{TOPIC_ID}-x"):
        (directory.path / name).mkdir()
    (directory.path / str(tp(1))).write_text("not a folder")
    assert directory.read_meta() is None


def test_an_unreadable_boot_id_is_unknown(tmp_path: Path) -> None:
    assert read_boot_id(tmp_path / "absent") == ""
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert read_boot_id(tmp_path / "binary") == ""
    (tmp_path / "long").write_text("x" * 65)
    assert read_boot_id(tmp_path / "long") == ""
    (tmp_path / "boot").write_text("abc\n")
    assert read_boot_id(tmp_path / "boot") == "abc"


def test_meta_is_json_that_people_can_read(directory: DataDirectory) -> None:
    directory.write_meta(META)
    content = json.loads((directory.path / data_directory.META_FILE).read_text())
    assert content == {
        "logDirId": META.log_dir_id,
        "brokerEpoch": 4,
        "cleanSinceEpoch": 3,
        "mount": "ext4/sda 9",
    }

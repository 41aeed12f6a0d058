"""One log: create, append, read, roll, flush, truncate."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from strandline.errors import (
    CheckpointMalformed,
    CorruptBatch,
    ErrorCode,
    InvariantViolation,
    LogDirectoryFailed,
    ProtocolError,
)
from strandline.log.partition_folder import PartitionMetadataFile, folder_of, parse_folder_name
from strandline.log.partition_log import PartitionLog
from strandline.log.record_batch import parse_header, read_client_batch, read_fetched
from strandline.log.segment import LogLimits, SegmentPool
from strandline.model import (
    BatchSpan,
    EpochStart,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    TopicSettings,
)
from tests.log.support.batches import batch, stamped
from tests.log.support.logs import (
    TOPIC_ID,
    TP,
    Workshop,
    append,
    bring_to_disk,
    complete_producers,
    content,
    fill,
)

ALL = 1 << 30


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def starts(*pairs: tuple[int, int]) -> tuple[EpochStart, ...]:
    return tuple(EpochStart(leader_epoch=LeaderEpoch(e), start_offset=o) for e, o in pairs)


def bases(parts: list[memoryview]) -> list[int]:
    found = []
    for part in parts:
        position = 0
        while position < len(part):
            found.append(int.from_bytes(part[position : position + 8], "big"))
            position += 12 + int.from_bytes(part[position + 8 : position + 12], "big")
    return found


# --- create -----------------------------------------------------------------------------


def test_new_log_is_empty_and_names_its_partition(workshop: Workshop) -> None:
    log = workshop.create()
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert log.read(from_offset=0, up_to_offset=0, max_bytes=ALL) == []
    assert log.epochs == ()
    assert (log.folder / "partition.metadata").read_text() == (
        f"version: 0\ntopic_id: {TOPIC_ID}\ntopic_name: orders\npartition: 3\n"
    )
    log.close()
    assert workshop.open(clean=True).topic_name == "orders"


def test_creating_over_a_log_is_refused_and_leaves_it(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=3)
    with pytest.raises(LogDirectoryFailed):
        workshop.create()
    log.close()
    assert workshop.open().log_end_offset == 6


def test_creation_cut_short_is_begun_anew(workshop: Workshop) -> None:
    unfinished = workshop.root / f"{TP}.new"
    unfinished.mkdir()
    (unfinished / "partition.metadata.tmp").write_text("vers")
    workshop.create()
    assert not unfinished.exists()


@pytest.mark.parametrize(
    "topic_id",
    ["..", "../x", "", "/etc", "orders", "a/b", TOPIC_ID.upper(), TOPIC_ID + "\n", f"x{TOPIC_ID}"],
)
def test_name_that_is_no_partition_makes_no_folder(workshop: Workshop, topic_id: str) -> None:
    with pytest.raises(ProtocolError) as refusal:
        workshop.create(TopicPartition(topic_id=TopicId(topic_id), partition=0))
    assert refusal.value.code is ErrorCode.INVALID_REQUEST
    assert list(workshop.root.iterdir()) == []


@pytest.mark.parametrize("partition", [-1, 1 << 31])
def test_number_that_is_no_partition_makes_no_folder(workshop: Workshop, partition: int) -> None:
    with pytest.raises(ProtocolError):
        workshop.create(TopicPartition(topic_id=TOPIC_ID, partition=partition))
    assert list(workshop.root.iterdir()) == []


def test_folder_that_is_a_link_elsewhere_is_refused(workshop: Workshop, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "data"
    root.mkdir()
    (root / str(TP)).symlink_to(elsewhere)
    with pytest.raises(ProtocolError):
        folder_of(root, TP)


@pytest.mark.parametrize("name", ["", "or ders", "a/b", "x" * 250, "a\nversion: 1"])
def test_illegal_topic_name_is_refused(workshop: Workshop, name: str) -> None:
    with pytest.raises(ProtocolError):
        PartitionLog.create(
            workshop.root,
            PartitionMetadataFile(tp=TP, topic_name=name),
            workshop.settings,
            environment=workshop.environment,
        )
    assert not workshop.folder.exists()


@pytest.mark.parametrize(
    "name", [f"{TOPIC_ID}-03", f"{TOPIC_ID}-", f"{TOPIC_ID}-1.deleted", "lost+found"]
)
def test_strange_folder_name_is_no_partition(name: str) -> None:
    assert parse_folder_name(name) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 1\ntopic_id: {id}\ntopic_name: orders\npartition: 3\n",
        "version: 0\ntopic_id: {id}\ntopic_name: orders\npartition: 4\n",
        "version: 0\ntopic_id: {id}\npartition: 3\n",
    ],
)
def test_metadata_that_does_not_describe_its_folder_is_refused(
    workshop: Workshop, text: str
) -> None:
    workshop.create().close()
    (workshop.folder / "partition.metadata").write_text(text.format(id=TOPIC_ID))
    with pytest.raises(CheckpointMalformed):
        workshop.open()


def follow(log: PartitionLog, fetched: bytes | memoryview) -> None:
    """Append all batches that a leader sent."""
    batches = read_fetched(fetched)
    log.append_as_follower(batches, batch_count=len(batches.headers))


# --- append and read --------------------------------------------------------------------


def test_leader_stamps_offset_and_epoch_and_nothing_else(workshop: Workshop) -> None:
    log = workshop.create()
    append(log, records=2, epoch=3)
    source = batch([b"x", b"y", b"z"])
    log.append_as_leader(read_client_batch(source), base_offset=2, leader_epoch=LeaderEpoch(5))
    assert log.log_end_offset == 5
    assert content(log).endswith(stamped(source, base_offset=2, leader_epoch=5))
    assert log.epochs == starts((3, 0), (5, 2))


def test_follower_holds_the_bytes_of_the_leader(workshop: Workshop, tmp_path: Path) -> None:
    leader = workshop.create()
    fill(leader, batches=20, epoch=1)
    fill(leader, batches=20, epoch=2)
    other = Workshop(tmp_path / "other")
    other.root.mkdir()
    follower = other.create()
    while follower.log_end_offset < leader.log_end_offset:
        for part in leader.read(
            from_offset=follower.log_end_offset, up_to_offset=leader.log_end_offset, max_bytes=700
        ):
            follow(follower, part)
    assert content(follower) == content(leader)
    assert follower.epochs == leader.epochs
    assert follower.segment_count == leader.segment_count > 1
    names = sorted(path.name for path in leader.folder.glob("*.log"))
    assert names == sorted(path.name for path in follower.folder.glob("*.log"))


def test_append_elsewhere_than_at_the_end_is_an_invariant_violation(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=2)
    one = read_client_batch(batch([b"x"]))
    for base in (3, 5):
        with pytest.raises(InvariantViolation):
            log.append_as_leader(one, base_offset=base, leader_epoch=LeaderEpoch(0))
        with pytest.raises(InvariantViolation):
            follow(log, batch([b"x"], base_offset=base, leader_epoch=0))
    assert log.log_end_offset == 4


def test_append_under_a_lower_epoch_is_an_invariant_violation(workshop: Workshop) -> None:
    log = workshop.create()
    append(log, epoch=4)
    with pytest.raises(InvariantViolation):
        append(log, epoch=3)
    with pytest.raises(InvariantViolation):
        follow(log, batch([b"x"], base_offset=1, leader_epoch=3))


def test_hole_between_fetched_batches_appends_none_of_them(workshop: Workshop) -> None:
    log = workshop.create()
    first = batch([b"x"], base_offset=0, leader_epoch=0)
    with pytest.raises(InvariantViolation):
        follow(log, first + batch([b"x"], base_offset=2, leader_epoch=0))
    with pytest.raises(CorruptBatch):
        follow(log, first + first[:-1])
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_follower_appends_as_many_batches_as_it_is_given(workshop: Workshop) -> None:
    log = workshop.create()
    parts = [batch([b"x"], base_offset=base, leader_epoch=0) for base in range(3)]
    log.append_as_follower(read_fetched(b"".join(parts)), batch_count=2)
    assert content(log) == parts[0] + parts[1]


def test_read_returns_whole_batches_around_the_offset(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=10, records=3)
    read = log.read(from_offset=4, up_to_offset=11, max_bytes=ALL)
    assert bases(read) == [3, 6], "a batch that holds offset 4 comes, one that passes 11 does not"
    assert bases(log.read(from_offset=9, up_to_offset=30, max_bytes=1)) == [9]
    assert log.read(from_offset=9, up_to_offset=11, max_bytes=ALL) == []
    assert log.read(from_offset=30, up_to_offset=30, max_bytes=ALL) == []
    assert log.read(from_offset=9, up_to_offset=5, max_bytes=ALL) == []


@pytest.mark.parametrize("offset", [-1, 31])
def test_read_outside_the_log_is_out_of_range(workshop: Workshop, offset: int) -> None:
    log = workshop.create()
    fill(log, batches=10, records=3)
    with pytest.raises(ProtocolError) as refusal:
        log.read(from_offset=offset, up_to_offset=31, max_bytes=ALL)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_first_batch_comes_however_large(workshop: Workshop) -> None:
    log = workshop.create()
    append(log)
    append(log, value=b"L" * 100_000)
    append(log)
    assert bases(log.read(from_offset=1, up_to_offset=3, max_bytes=10)) == [1]
    assert bases(log.read(from_offset=0, up_to_offset=3, max_bytes=5000)) == [0]
    assert bases(log.read(from_offset=1, up_to_offset=3, max_bytes=ALL)) == [1, 2]


# --- roll -------------------------------------------------------------------------------


def test_segment_rolls_before_it_would_exceed_its_size(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=12)
    sizes = [path.stat().st_size for path in sorted(workshop.folder.glob("*.log"))]
    one = log.size_bytes // 12
    assert max(sizes) <= 400 < max(sizes) + one
    assert log.segment_count == len(sizes) > 2
    names = [path.stem for path in sorted(workshop.folder.glob("*.log"))]
    assert names[:2] == ["0" * 20, f"{400 // one * 2:020d}"]


def test_full_index_rolls_the_segment(tmp_path: Path) -> None:
    limits = LogLimits(index_interval_bytes=64, index_size_max_bytes=24)
    workshop = Workshop(tmp_path, TopicSettings(segment_bytes=1 << 20), limits)
    log = workshop.create()
    fill(log, batches=10)
    bring_to_disk(log)
    log.close()
    sizes = {path.stat().st_size for path in workshop.folder.glob("*.index")}
    assert max(sizes) == 24
    assert log.segment_count == 3


def test_relative_offset_that_would_not_fit_rolls_the_segment(tmp_path: Path) -> None:
    log = Workshop(tmp_path, TopicSettings(segment_bytes=1 << 20)).create()
    wide = batch([b"x"], last_offset_delta=(1 << 31) - 2)
    log.append_as_leader(read_client_batch(wide), base_offset=0, leader_epoch=LeaderEpoch(0))
    append(log)
    assert log.segment_count == 1
    append(log)
    assert log.segment_count == 2
    assert bases(log.read(from_offset=(1 << 31) - 1, up_to_offset=1 << 40, max_bytes=ALL)) == [
        (1 << 31) - 1,
        1 << 31,
    ]


def test_changed_settings_count_from_the_next_append(workshop: Workshop) -> None:
    log = workshop.create()
    log.apply_settings(TopicSettings(segment_bytes=1 << 20, max_message_bytes=80))
    fill(log, batches=20)
    assert log.segment_count == 1
    with pytest.raises(ProtocolError) as refusal:
        log.check_client_batch(read_client_batch(batch([b"x" * 100])), codec_max=0)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    log.check_client_batch(read_client_batch(batch([b"x"])), codec_max=0)


def test_a_follower_with_smaller_segments_takes_what_its_leader_took_before(
    tmp_path: Path,
) -> None:
    log = Workshop(tmp_path, TopicSettings(segment_bytes=1 << 20)).create()
    log.apply_settings(TopicSettings(segment_bytes=100))
    large = [batch([b"x" * 300], base_offset=base, leader_epoch=0) for base in range(2)]
    follow(log, b"".join(large))
    assert (log.log_end_offset, log.segment_count) == (2, 2)


def test_many_sealed_segments_hold_few_files_open(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, pool=SegmentPool(open_segments_max=3))
    log = workshop.create()
    for _ in range(10):
        fill(log, batches=20)
        bring_to_disk(log)
    fill(log, batches=20)
    assert log.segment_count > 40
    assert content(log)
    for offset in range(0, log.log_end_offset, 2):
        log.read(from_offset=offset, up_to_offset=log.log_end_offset, max_bytes=1)
    bound = 3 + workshop.limits.unflushed_segments_max + 1
    assert open_files(tmp_path) <= bound
    assert len(workshop.pool._open) <= 3
    bring_to_disk(log)
    assert open_files(tmp_path) <= 3 + 1
    log.close()
    assert open_files(tmp_path) == 0
    again = workshop.open()
    assert open_files(tmp_path) <= bound
    again.close()


def open_files(folder: Path) -> int:
    """Count the files below a folder that this process holds open."""
    targets = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            targets.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sum(target.startswith(str(folder)) for target in targets)


# --- flush ------------------------------------------------------------------------------


def test_recovery_point_moves_only_with_a_flush(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=20)
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 40
    append(log)
    assert log.recovery_point == 40


def test_flush_reaches_every_segment_written_since_the_last_one(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    really = os.fdatasync

    def watched(fd: int) -> None:
        synced.add(os.fstat(fd).st_ino)
        really(fd)

    monkeypatch.setattr(os, "fdatasync", watched)
    log = workshop.create()
    fill(log, batches=100)
    assert log.segment_count == workshop.limits.unflushed_segments_max + 1
    log.flush()
    inodes = {path.stat().st_ino for path in workshop.folder.glob("*.log")}
    assert synced == inodes
    log.close()
    synced.clear()
    again = workshop.open(recovery_point=0)
    again.flush()
    assert synced == inodes, "a flush includes segments that an earlier process left unflushed"


# --- truncate ---------------------------------------------------------------------------


def test_truncation_keeps_records_below_and_appends_go_on_there(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=10, epoch=1)
    fill(log, batches=10, epoch=2)
    whole = content(log)
    log.flush()
    assert log.truncate_to(24) == 24
    assert content(log) == whole[: len(whole) * 12 // 20]
    assert log.epochs == starts((1, 0), (2, 20))
    assert log.recovery_point == 24
    assert log.truncate_to(20) == 20
    assert log.epochs == starts((1, 0))
    append(log, epoch=3)
    assert log.epochs == starts((1, 0), (3, 20))
    assert log.size_bytes == len(content(log))


def test_truncation_inside_a_batch_takes_the_whole_batch(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=10, records=3)
    assert log.truncate_to(13) == 12
    assert log.log_end_offset == 12


def test_truncation_at_or_above_the_end_changes_nothing(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=10)
    whole = content(log)
    assert log.truncate_to(20) == 20
    assert log.truncate_to(99) == 20
    assert content(log) == whole


def test_truncation_to_nothing_leaves_an_empty_log(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=20)
    assert log.truncate_to(0) == 0
    assert (log.segment_count, log.size_bytes, log.epochs) == (1, 0, ())
    append(log)
    assert log.log_end_offset == 1


def test_truncation_below_the_start_restarts_there(workshop: Workshop) -> None:
    log = workshop.create()
    log.restart_at(100)
    fill(log, batches=20)
    assert log.truncate_to(60) == 60
    assert (log.log_start_offset, log.log_end_offset) == (60, 60)


def test_restart_drops_everything_and_survives_a_reopening(workshop: Workshop) -> None:
    log = workshop.create()
    fill(log, batches=20)
    log.restart_at(1000)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (1000, 1000, 0)
    assert log.epochs == ()
    append(log, epoch=7)
    log.close()
    again = workshop.open()
    assert (again.log_start_offset, again.log_end_offset) == (1000, 1001)
    assert again.epochs == starts((7, 1000))


def test_producers_follow_appends_truncations_and_reopenings(workshop: Workshop) -> None:
    log = workshop.create()
    batches = [batch([b"v"], producer_id=5, producer_epoch=0, base_sequence=n) for n in range(30)]
    for n, source in enumerate(batches):
        sent = read_client_batch(source)
        assert log.check_sequence(sent.header) is ErrorCode.NONE
        log.append_as_leader(sent, base_offset=n, leader_epoch=LeaderEpoch(0))
        assert isinstance(log.check_sequence(sent.header), BatchSpan)
    log.truncate_to(10)
    complete_producers(log)
    for one in (log, workshop.open(clean=True), workshop.open()):
        found = [one.check_sequence(parse_header(source)) for source in batches]
        assert found[4] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert all(isinstance(each, BatchSpan) for each in found[5:10])
        assert found[10] is ErrorCode.NONE
        assert found[11] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

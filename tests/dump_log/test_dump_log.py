"""The dump shows a broker's whole log; it reports damage, and leaves out a torn end."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from strandline.dump_log.__main__ import main
from strandline.dump_log.log_reader import end_offset, read_log, replicas
from strandline.dump_log.record_reader import read_records
from strandline.errors import CorruptBatch
from strandline.log.checkpoint import LogStartCheckpoint
from strandline.log.partition_folder import PartitionMetadataFile, write_metadata
from strandline.log.record_batch import parse_header
from strandline.model import BrokerId, EpochStart, LeaderEpoch, TopicId, TopicPartition
from strandline_checker.history import read_history

TOPIC_ID = TopicId("8553e688-fd7e-4cd8-82ef-6b3ec6c65906")


def number(value: int) -> bytes:
    """Spell a zig-zag number as Kafka does."""
    raw, out = (value << 1) ^ (value >> 63), bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def record(delta: int, value: bytes | None, key: bytes | None = None) -> bytes:
    def nullable(content: bytes | None) -> bytes:
        return number(-1) if content is None else number(len(content)) + content

    headers = number(1) + nullable(b"h") + nullable(None)
    body = b"\0" + number(5 * delta) + number(delta) + nullable(key) + nullable(value) + headers
    return number(len(body)) + body


def batch(
    base: int, values: list[bytes | None], *, codec: int = 0, count: int | None = None
) -> bytes:
    records = b"".join(record(delta, value) for delta, value in enumerate(values))
    return batch_of(base, records, last=len(values) - 1, codec=codec, count=count)


def batch_of(
    base: int, records: bytes, *, last: int, codec: int = 0, count: int | None = None
) -> bytes:
    if codec == 1:
        records = gzip.compress(records)
    stated = last + 1 if count is None else count
    behind = struct.pack(">hiqqqhii", codec, last, 1000, 1000, 7, 0, 0, stated) + records
    head = struct.pack(">qiibI", base, 9 + len(behind), 3, 2, crc32c(behind))
    return head + behind


def write_replica(folder: Path, segments: dict[int, bytes], partition: int = 0) -> Path:
    replica = folder / f"{TOPIC_ID}-{partition}"
    replica.mkdir()
    tp = TopicPartition(topic_id=TOPIC_ID, partition=partition)
    write_metadata(replica, PartitionMetadataFile(tp=tp, topic_name="orders"))
    for base, content in segments.items():
        (replica / f"{base:020}.log").write_bytes(content)
    return replica


def lines_of(folder: Path) -> list[str]:
    return ["--dir", str(folder), "--topic", "orders", "--lines", "--broker", "2"]


def test_records_are_printed_as_the_checker_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = batch(0, [b"a", b"b"]), batch(2, [b"\xff", None], codec=1)
    write_replica(tmp_path, {0: first, 2: second})
    assert main(lines_of(tmp_path)) == 0
    printed = capsys.readouterr().out.splitlines(keepends=True)
    scanned = read_history(printed).scans[0, BrokerId(2)]
    assert [(each.offset, each.value) for each in scanned] == [
        (0, "a"),
        (1, "b"),
        (2, "\\xff"),
        (3, ""),
    ]
    assert {each.leader_epoch for each in scanned} == {3}
    assert scanned[0].checksum == parse_header(first).crc


def test_text_output_shows_batches_and_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_replica(tmp_path, {0: batch(0, [b"a" * 300, None])})
    assert main(["--dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "orders-0" in printed
    assert "offsets 0..1 epoch 3" in printed
    assert "and 100 bytes" in printed
    assert "value none" in printed


def test_reading_writes_nothing(tmp_path: Path) -> None:
    replica = write_replica(tmp_path, {0: batch(0, [b"a"])})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert main(lines_of(tmp_path)) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert replica.is_dir()


@pytest.mark.parametrize("kept", [1, 60, 61, 70])
def test_a_batch_that_is_half_written_is_left_out(tmp_path: Path, kept: int) -> None:
    replica = write_replica(tmp_path, {0: batch(0, [b"a"]) + batch(1, [b"b" * 50])[:kept]})
    assert [each.header.base_offset for each in read_log(replica)] == [0]


@pytest.mark.parametrize(
    ("segments", "problem"),
    [
        ({0: batch(0, [b"a"])[:-1], 1: batch(1, [b"b"])}, "batch is cut"),
        ({0: batch(0, [b"a"]) + batch(2, [b"b"])}, "offsets have a hole"),
        ({0: batch(0, [b"a"])[:-3] + b"xyz"}, "CRC-32C differs"),
        ({0: batch(0, [b"a", b"b"], count=1)}, "number of records differs"),
        ({0: batch(0, [b"a"], count=2)}, "number of records differs"),
        ({0: batch_of(0, number(100) + b"\0", last=0)}, "record is cut"),
        ({0: batch_of(0, b"\xff" * 20, last=0)}, "number without an end"),
        ({0: batch_of(0, number(-5) + b"\0" * 9, last=0)}, "record is cut"),
        ({0: batch_of(0, b"\x0c\0\0\0\x01\x01\x7f", last=0)}, "impossible count"),
        ({0: batch_of(0, b"\x06\0\0\0\x50\x01\0", last=0)}, "field is cut"),
    ],
)
def test_damage_ends_the_reading_with_a_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    segments: dict[int, bytes],
    problem: str,
) -> None:
    write_replica(tmp_path, segments)
    assert main(lines_of(tmp_path)) == 1
    assert problem in capsys.readouterr().err


def test_a_codec_that_is_not_opened_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_replica(tmp_path, {0: batch(0, [b"a"], codec=4)})
    assert main(["--dir", str(tmp_path)]) == 0
    assert "codec zstd" in capsys.readouterr().out
    assert main(lines_of(tmp_path)) == 1
    assert "zstd" in capsys.readouterr().err


def test_compressed_records_that_are_cut_are_damage() -> None:
    whole = batch(0, [b"a" * 100], codec=1)
    cut = whole[:-4]
    header = parse_header(whole)._replace(length=len(cut) - 12)
    with pytest.raises(CorruptBatch, match="cut or too large"):
        read_records(header, cut)


def test_replicas_are_found_by_name_and_foreign_folders_are_not(tmp_path: Path) -> None:
    write_replica(tmp_path, {0: b""}, partition=1)
    write_replica(tmp_path, {0: b""}, partition=0)
    (tmp_path / "lost+found").mkdir()
    assert [metadata.tp.partition for metadata, _ in replicas(tmp_path)] == [0, 1]


def test_a_missing_directory_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dir", "/nonexistent"]) == 1
    assert "nonexistent" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["--broker", "--topic"])
def test_lines_need_broker_and_topic(missing: str) -> None:
    given = {"--broker": "1", "--topic": "orders"}
    del given[missing]
    with pytest.raises(SystemExit):
        main(["--lines", *(word for pair in given.items() for word in pair)])


def test_lines_are_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_replica(tmp_path, {0: batch(0, [b'"\n'])})
    main(lines_of(tmp_path))
    start, line = capsys.readouterr().out.splitlines()
    assert json.loads(start) == ["start", 2, 0, 0]
    assert json.loads(line)[5] == '"\n'


def test_the_start_of_a_log_is_that_of_the_checkpoint_or_of_the_first_segment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_replica(tmp_path, {4: batch(4, [b"a", b"b"])})
    for checkpointed, expected in ((None, 4), (2, 4), (5, 5)):
        if checkpointed is not None:
            start = EpochStart(leader_epoch=LeaderEpoch(0), start_offset=checkpointed)
            tp = TopicPartition(topic_id=TOPIC_ID, partition=0)
            LogStartCheckpoint(tmp_path).write({tp: start})
        main(lines_of(tmp_path))
        history = read_history(capsys.readouterr().out.splitlines(keepends=True))
        assert history.starts == {(0, BrokerId(2)): expected}
        main(["--dir", str(tmp_path)])
        assert f"{folder} log start {expected}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("newest", "shown"),
    [
        pytest.param(1, [6], id="a part of the last segment"),
        pytest.param(2, [5, 6], id="the last segment"),
        pytest.param(3, [3, 4, 5, 6], id="a whole batch for one of its records"),
        pytest.param(6, [0, 1, 2, 3, 4, 5, 6], id="the first batch"),
        pytest.param(99, [0, 1, 2, 3, 4, 5, 6], id="more than there are"),
    ],
)
def test_the_newest_records_are_printed_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], newest: int, shown: list[int]
) -> None:
    first = batch(0, [b"a", b"b"]) + batch(2, [b"c"])
    write_replica(
        tmp_path,
        {
            0: first,
            3: batch(3, [b"d", b"e"]),
            5: batch(5, [b"f"]) + batch(6, [b"g"]) + batch(7, [b"cut"])[:-1],
        },
    )
    assert main([*lines_of(tmp_path), "--newest", str(newest)]) == 0
    _, *records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line[3] for line in records] == shown


def test_the_newest_records_of_a_log_that_has_just_rolled_are_those_before(tmp_path: Path) -> None:
    replica = write_replica(tmp_path, {0: batch(0, [b"a"]) + batch(1, [b"b"]), 2: b""})
    assert end_offset(replica) == 2
    assert [each.header.base_offset for each in read_log(replica, from_offset=1)] == [1]


def test_batches_that_are_skipped_may_be_damaged_inside(tmp_path: Path) -> None:
    replica = write_replica(tmp_path, {0: batch(0, [b"a"])[:-1] + b"!" + batch(1, [b"b"])})
    with pytest.raises(CorruptBatch):
        list(read_log(replica))
    assert [each.header.base_offset for each in read_log(replica, from_offset=1)] == [1]


def test_no_newest_record_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--dir", str(tmp_path), "--newest", "0"])
    assert "--newest: 0: a number from 1" in capsys.readouterr().err

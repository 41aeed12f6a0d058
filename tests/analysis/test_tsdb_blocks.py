"""Blocks of Prometheus: each sample once, as it was, and a sentence for what is not right."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strandline_analysis.read_options import Matcher, Piece, read_options, shard_matchers
from strandline_analysis.tsdb_block import FACTS
from strandline_analysis.tsdb_files import CHECKSUM_BYTES, BlockRefused, MappedFile
from strandline_analysis.tsdb_index import SERIES_ALIGNMENT
from strandline_analysis.tsdb_snapshot import OpenSnapshot, snapshot_in
from tests.analysis.tsdb_writer import WrittenSeries, checked, write_block
from tests.analysis.xor_encoder import Sample

START = 1_790_000_000_000
METRICS = ("m", "n", "z.missing")
LENGTH = 60
Key = tuple[tuple[str, str], ...]
Found = dict[Key, list[Sample]]


def read(folder: Path, *matchers: Matcher, start: int = 0, end: int = LENGTH) -> Found:
    """Return the samples within the range by labels; times count from START."""
    found = {}
    with OpenSnapshot(snapshot_in(folder)) as snapshot:
        for metric in METRICS:
            ranged = {"start_ms": START + start, "end_ms": START + end}
            piece = Piece(metric=metric, matchers=matchers, **ranged)
            keys = []
            for series in snapshot.series(piece):
                keys.append(tuple(sorted(series.labels.items())))
                samples = [(at - START, bits) for at, bits in series.samples(**ranged)]
                if samples:
                    found[keys[-1]] = samples
            assert keys == sorted(set(keys))
    return found


def written(labels: dict[str, str], *chunks: list[Sample], **more: Any) -> WrittenSeries:
    moved = [[(START + at, bits) for at, bits in chunk] for chunk in chunks]
    return WrittenSeries(labels=labels, chunks=moved, **more)


# --- what is read -------------------------------------------------------------------------

times = st.lists(st.integers(0, LENGTH - 1), min_size=1, max_size=6, unique=True).map(sorted)
spans = st.tuples(st.integers(-5, LENGTH), st.integers(0, 20)).map(lambda s: (s[0], s[0] + s[1]))
one_series = st.tuples(st.lists(times, min_size=1, max_size=4), st.lists(spans, max_size=2))
label_sets = st.tuples(st.sampled_from("mn"), st.sampled_from(["", "a", "b", "ä", "a-0"]))
some_blocks = st.lists(st.dictionaries(label_sets, one_series, min_size=1, max_size=4), max_size=3)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(some_blocks.filter(len), st.integers(0, LENGTH - 1), st.integers(1, LENGTH), st.booleans())
def test_each_sample_is_read_once_whatever_overlaps(
    drawn: list[dict[tuple[str, str], tuple[list[list[int]], list[tuple[int, int]]]]],
    start: int,
    length: int,
    split: bool,
) -> None:
    """Chunks of a series overlap, blocks overlap, and what one block deleted another has still."""
    bits = iter(range(1 << 30))
    expected: dict[Key, dict[int, int]] = {}
    made = []
    for block in drawn:
        series = []
        for (metric, pod), (chunks, deleted) in block.items():
            labels = {"__name__": metric} | ({"pod": pod} if pod else {})
            values = [[(at, next(bits)) for at in chunk] for chunk in chunks]
            moved = [(START + first, START + last) for first, last in deleted]
            series.append(written(labels, *values, deleted=moved))
        made.append(series)

    def begin(block: list[WrittenSeries]) -> int:
        return min(at for each in block for chunk in each.chunks for at, _ in chunk)

    # The earlier block comes first, then the one with the lower name.
    for series in sorted(made, key=begin):
        for each in series:
            kept = expected.setdefault(tuple(sorted(each.labels.items())), {})
            for at, value in (pair for chunk in each.chunks for pair in chunk):
                within = start <= at - START < start + length
                if within and not any(first <= at <= last for first, last in each.deleted):
                    kept.setdefault(at - START, value)
    with tempfile.TemporaryDirectory() as folder:
        for series in made:
            write_block(Path(folder), series, segment_chunks=2 if split else 1000)
        found = read(Path(folder), start=start, end=start + length)
    assert found == {key: sorted(kept.items()) for key, kept in expected.items() if kept}


def test_of_two_values_of_a_moment_that_of_the_earlier_block_counts(tmp_path: Path) -> None:
    write_block(tmp_path, [written({"__name__": "m"}, [(5, 1), (6, 1)])])
    write_block(tmp_path, [written({"__name__": "m"}, [(4, 2), (5, 2)])])
    assert list(read(tmp_path).values()) == [[(4, 2), (5, 2), (6, 1)]]


SERIES = (
    written({"__name__": "m", "pod": "a", "partition": "3"}, [(0, 1), (9, 2)], [(20, 3)]),
    written({"__name__": "m", "pod": "b", "partition": "14"}, [(0, 4)], deleted=[(START, START)]),
    written({"__name__": "m", "pod": "b.c"}, [(59, 5)]),
    written({"__name__": "n", "pod": "b"}, [(5, 6), (6, 7), (7, 8)], [(6, 9)]),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_block(tmp_path / "snapshot", SERIES, segment_chunks=4)
    return tmp_path / "snapshot"


@pytest.fixture
def block(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def pods(found: Found) -> list[str]:
    return [dict(key)["pod"] for key in found]


def test_conditions_on_labels_choose_series(folder: Path) -> None:
    assert pods(read(folder)) == ["a", "b.c", "b"]
    assert pods(read(folder, Matcher(label="pod", value="b"))) == ["b"]
    pattern = Matcher(label="pod", value=r"b\.c|x", is_pattern=True)
    assert pods(read(folder, pattern)) == ["b.c"]
    assert pods(read(folder, Matcher(label="partition", value=""))) == ["b.c", "b"]
    assert pods(read(folder, pattern, Matcher(label="partition", value="3"))) == []


def test_shards_together_hold_each_series_once(folder: Path) -> None:
    given = {"blocks": str(folder), "metrics": "m", "start_ms": "0", "end_ms": "1", "shards": "3"}
    options = read_options(given)
    shards = [read(folder, *shard_matchers(options, shard)) for shard in range(3)]
    assert {key: samples for shard in shards for key, samples in shard.items()} == read(folder)
    assert [pods(shard) for shard in shards] == [["a", "b.c", "b"], [], []]


def test_ranges_are_half_open(folder: Path) -> None:
    found = read(folder, start=9, end=20)
    assert list(found.values()) == [[(9, 2)]]
    assert sum(map(len, read(folder, start=9, end=21).values())) == 2


def test_a_block_outside_the_range_is_not_opened(folder: Path) -> None:
    other = write_block(folder, [written({"__name__": "m"}, [(100, 1)])])
    (other / "index").unlink()
    assert len(read(folder)) == 3
    with pytest.raises(BlockRefused, match="index cannot be read"):
        read(folder, end=101)


# --- what is refused ----------------------------------------------------------------------


def refusal(folder: Path) -> str:
    """Return the sentence of a refusal: one line, with a path below the folder."""
    with pytest.raises(BlockRefused) as refused:
        read(folder)
    told = str(refused.value)
    assert told.startswith(str(folder))
    assert "\n" not in told
    return told


def test_a_folder_without_blocks_is_told(folder: Path, block: Path) -> None:
    assert "there is no such folder" in refusal(folder / "none")
    assert "is itself a block: name the folder in which it is" in refusal(block)
    (folder / "wal").mkdir()
    assert len(read(folder)) == 3
    shutil.rmtree(block)
    assert "holds no block" in refusal(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "has no meta.json: it is no block, or was not written to its end"),
        ("", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"version": 1, "minTime": 0}', "cannot be read (KeyError('maxTime'))"),
        ('{"version": 2, "minTime": 0, "maxTime": 9}', "has version 2; only 1 is read"),
        ('{"version": 1, "minTime": "0", "maxTime": 9}', "has no times of a block: '0' and 9"),
    ],
)
def test_facts_that_are_none_are_told(
    folder: Path, block: Path, content: str | None, said: str
) -> None:
    (block / FACTS).unlink()
    if content is not None:
        (block / FACTS).write_text(content)
    assert said in refusal(folder)


@pytest.mark.parametrize(
    ("name", "at", "said"),
    [
        ("index", 0, "is no index file of a block: it begins with 0xbbaad700, not 0xbaaad700"),
        ("index", 4, "has version 3 of its format; only 2 is read"),
        ("index", 5, "ends before byte"),
        ("index", 13, "is damaged: the checksum of the symbols at byte 9 differs"),
        ("index", -20, "is damaged: the checksum of the table of contents at byte"),
        ("index", -60, "is damaged: the checksum of the table of postings at byte"),
        ("chunks/000001", 4, "has version 0 of its format; only 1 is read"),
        ("chunks/000001", 9, "is damaged: the checksum of a chunk at byte 9 differs"),
        ("tombstones", 1, "is no tombstones file of a block"),
        ("tombstones", 6, "is damaged: the checksum of the tombstones at byte 5 differs"),
    ],
)
def test_a_changed_byte_is_told_with_its_place(
    folder: Path, block: Path, name: str, at: int, said: str
) -> None:
    changed(block / name, at, 1)
    assert f"{block / name} {said}" in refusal(folder)


def test_a_missing_file_is_told(folder: Path, block: Path) -> None:
    (block / "tombstones").unlink()
    assert len(read(folder)) == 4
    (block / "chunks" / "000002").unlink()
    assert "chunks: a chunk of {'__name__': 'n', 'pod': 'b'} is in segment 2" in refusal(folder)
    shutil.rmtree(block / "chunks")
    assert "is in segment 1, which is missing" in refusal(folder)


@pytest.mark.parametrize(
    ("encoding", "name"),
    [(2, "histogram"), (3, "float histogram"), (4, "XOR2"), (9, "without a name here")],
)
def test_other_chunk_encodings_are_refused_by_name(
    tmp_path: Path, encoding: int, name: str
) -> None:
    series = written({"__name__": "m", "pod": "a"}, [(0, 1)], encoding=encoding)
    write_block(tmp_path, [series])
    said = f"'pod': 'a'}} in chunk encoding {encoding} ({name}); only 1 (XOR) is read"
    assert said in refusal(tmp_path)


def test_what_is_malformed_under_a_right_checksum_is_told(folder: Path, block: Path) -> None:
    index = bytearray((block / "index").read_bytes())
    # The first series: its length, then its number of labels.
    symbols_end = 9 + int.from_bytes(index[5:9], "big") + 4
    at = -(-symbols_end // SERIES_ALIGNMENT) * SERIES_ALIGNMENT
    size = index[at]
    for labels in (index[at + 1] + 1, 127):
        entry = bytes([labels]) + index[at + 2 : at + 1 + size]
        index[at + 1 : at + 1 + size + 4] = checked(entry)
        (block / "index").write_bytes(index)
        assert f"has a malformed entry of series {at // SERIES_ALIGNMENT}" in refusal(folder)


def test_series_out_of_order_are_told(tmp_path: Path) -> None:
    twice = written({"__name__": "m"}, [(0, 1)])
    write_block(tmp_path, [twice, twice])
    assert "in no order of labels" in refusal(tmp_path)


def changed(path: Path, at: int, mask: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


def outcome(folder: Path) -> Found | str:
    try:
        return read(folder)
    except BlockRefused as error:
        return str(error)


def flipped(whole: bytes, at: int) -> bytes:
    mask = random.Random(at).randrange(1, 256)
    return whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]


def cut(whole: bytes, at: int) -> bytes:
    return whole[:at]


def bytes_verified(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Path, set[int]]:
    """Return by file which bytes a read compares with a checksum, and the checksums."""
    found: dict[Path, set[int]] = {}
    verify = MappedFile.verify

    def noted(file: MappedFile, at: int, size: int, *, what: str) -> None:
        found.setdefault(file.path, set()).update(range(at, at + size + CHECKSUM_BYTES))
        verify(file, at, size, what=what)

    with monkeypatch.context() as patched:
        patched.setattr(MappedFile, "verify", noted)
        read(folder)
    return found


@pytest.mark.parametrize("name", ["index", "tombstones", "chunks/000001", "chunks/000002"])
@pytest.mark.parametrize("harm", [flipped, cut])
def test_no_harm_to_a_file_changes_a_sample(
    folder: Path,
    block: Path,
    name: str,
    harm: Callable[[bytes, int], bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each byte of a file differs once, or is the first one that is missing."""
    as_it_was, path = read(folder), block / name
    whole, harmless = path.read_bytes(), set()
    verified = bytes_verified(folder, monkeypatch)[path]
    for at in range(len(whole)):
        path.write_bytes(harm(whole, at))
        found = outcome(folder)
        if isinstance(found, str):
            assert found.startswith(f"{path} ")
        else:
            assert found == as_it_was
            harmless.add(at)
    if harm is cut:
        assert harmless == set()
    # The begin of a file has no checksum, and is compared with what it must be.
    assert harmless.isdisjoint(verified | set(range(5)))
    if name != "index":
        assert harmless <= {5, 6, 7}


def test_a_range_without_a_block_is_refused(folder: Path) -> None:
    snapshot = snapshot_in(folder)
    snapshot.check_range(start_ms=START + 59, end_ms=START + 1000)
    held = r"its blocks hold 2026-09-21T14:13:20.000\+00:00 to 2026-09-21T14:13:20.060\+00:00"
    for start, end in ((START - 9, START), (START + 60, START + 70)):
        with pytest.raises(BlockRefused, match=f"holds nothing of 2026.*; {held}"):
            snapshot.check_range(start_ms=start, end_ms=end)

"""What a lake says that it holds, and the sentences of what it refuses."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from strandline_analysis.lake_slices import FACTS, Lake, LakeRefused, founded, metric_of, opened

MINUTE = 60_000
START = 1_790_000_000_000
BEGIN = START - START % MINUTE


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return founded(tmp_path / "lake", metrics=("b", "a"), start_ms=START, slice_ms=MINUTE)


def test_a_lake_begins_with_the_slice_of_its_start_and_is_found_again(lake: Lake) -> None:
    assert (lake.start_ms, lake.metrics) == (BEGIN, ("a", "b"))
    assert opened(lake.folder) == lake
    again = founded(lake.folder, metrics=("a", "b"), start_ms=START + 9 * MINUTE, slice_ms=MINUTE)
    assert again == lake


@pytest.mark.parametrize(("metrics", "slice_ms"), [(("a",), MINUTE), (("a", "b"), 2 * MINUTE)])
def test_other_metrics_or_slices_need_another_folder(
    lake: Lake, metrics: tuple[str, ...], slice_ms: int
) -> None:
    with pytest.raises(LakeRefused, match=r"holds a, b in slices of 60000 ms; .* their own"):
        founded(lake.folder, metrics=metrics, start_ms=START, slice_ms=slice_ms)


def test_a_lake_grows_by_whole_slices_and_never_shrinks(lake: Lake) -> None:
    ends = []
    for end_ms in (BEGIN + MINUTE - 1, BEGIN + MINUTE, BEGIN + 3 * MINUTE + 5, BEGIN):
        assert lake.completed(end_ms) == opened(lake.folder)
        lake = opened(lake.folder)
        ends.append((lake.end_ms - BEGIN) // MINUTE)
    assert ends == [0, 1, 3, 3]


def test_old_slices_go_and_the_newest_stay(lake: Lake) -> None:
    grown = lake.completed(BEGIN + 4 * MINUTE)
    folders = {
        number: grown.samples / "metric=a" / f"slice_ms={BEGIN + number * MINUTE}"
        for number in range(4)
    }
    for folder in folders.values():
        folder.mkdir(parents=True)
        (folder / "part.parquet").touch()
    kept = grown.trimmed(2 * MINUTE - 1)
    assert kept == opened(lake.folder)
    assert kept.start_ms == BEGIN + 2 * MINUTE
    assert [number for number, folder in folders.items() if folder.exists()] == [2, 3]
    assert kept.trimmed(100 * MINUTE) == kept


def test_files_of_a_range_are_those_of_the_slices_that_it_meets(lake: Lake) -> None:
    for metric in ("a", "b", "other%3Aone"):
        for number in range(3):
            folder = lake.samples / f"metric={metric}" / f"slice_ms={BEGIN + number * MINUTE}"
            folder.mkdir(parents=True)
            (folder / "part.parquet").touch()
            (folder / "_SUCCESS").touch()

    def found(*metrics: str, start_ms: int, end_ms: int) -> list[tuple[str, int]]:
        paths = lake.files(metrics=metrics, start_ms=start_ms, end_ms=end_ms)
        begins = [int(path.parent.name.removeprefix("slice_ms=")) for path in paths]
        numbers = [(begin - BEGIN) // MINUTE for begin in begins]
        return list(zip(map(metric_of, paths), numbers, strict=True))

    assert found("a", start_ms=BEGIN + 1, end_ms=BEGIN + MINUTE) == [("a", 0)]
    both = found("a", "other:one", start_ms=BEGIN + MINUTE - 1, end_ms=BEGIN + MINUTE + 1)
    assert both == [("a", 0), ("a", 1), ("other:one", 0), ("other:one", 1)]
    assert found("b", start_ms=BEGIN + MINUTE, end_ms=BEGIN + 2 * MINUTE) == [("b", 1)]
    assert found("c", start_ms=BEGIN, end_ms=BEGIN + 3 * MINUTE) == []


def test_one_ingest_lands_at_a_time_and_finds_what_the_other_landed(lake: Lake) -> None:
    with lake.locked() as held:
        with (
            pytest.raises(LakeRefused, match="another ingest lands there; wait for its end"),
            lake.locked(seconds=0),
        ):
            pytest.fail("two land at once")
        grown = held.completed(BEGIN + MINUTE)
    with lake.locked(seconds=0) as then:
        assert then == grown


def test_an_ingest_that_waits_lands_when_the_other_one_ends(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, pauses = ExitStack(), list[float]()
    first.enter_context(lake.locked())

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        first.close()

    monkeypatch.setattr("strandline_analysis.lake_slices.time.sleep", sleep)
    with lake.locked() as then:
        assert then == lake
    assert len(pauses) == 1


def test_a_range_is_accepted_if_it_is_complete(lake: Lake) -> None:
    end_ms = BEGIN + 2 * MINUTE
    grown = lake.completed(end_ms)
    grown.check_landed(metrics=["a"], start_ms=BEGIN, end_ms=end_ms)
    held = r"it holds 2026-09-21T14:13:00.000\+00:00 to 2026-09-21T14:15:00.000\+00:00"
    for start, end in ((BEGIN - 1, BEGIN + 1), (BEGIN, end_ms + 1)):
        with pytest.raises(LakeRefused, match=f"lacks a part of 2026-09-21T14:1.*; {held}"):
            grown.check_landed(metrics=["a"], start_ms=start, end_ms=end)


def test_a_metric_that_it_has_not_and_an_empty_lake_are_told(lake: Lake) -> None:
    with pytest.raises(LakeRefused, match="has no metric c"):
        lake.check_landed(metrics=["a", "c"], start_ms=START, end_ms=START + 1)
    with pytest.raises(LakeRefused, match="lacks a part"):
        lake.check_landed(metrics=["a"], start_ms=START, end_ms=START + 1)


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"metrics": 1}', '{"metrics": []}'])
def test_a_folder_without_facts_is_no_lake(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / FACTS).write_text(content)
    with pytest.raises(LakeRefused, match="is no lake"):
        opened(tmp_path)

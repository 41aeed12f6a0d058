"""Who may fill a volume how far, and when clients are let in again."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.runtime.storage.disk_space import LOOK_INTERVAL_MS, DiskSpace
from strandline.runtime.storage.fill_forecast import FORECAST_LEAST_MS
from tests.support.volumes import mounted_tmpfs

MIB = 1 << 20
TOTAL = 20 * MIB
FILL_MAX = 0.8


class Volume:
    """A real file system, its DiskSpace under virtual time, and the changes that it told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_ms = 0
        self.changes: list[bool] = []
        self.space = self.again()

    def again(self) -> DiskSpace:
        return DiskSpace(
            self.root,
            fill_max=FILL_MAX,
            now_ms=lambda: self.now_ms,
            on_change=self.changes.append,
        )

    def fill_to(self, size: int) -> None:
        with (self.root / "filler").open("wb") as file:
            file.write(bytes(size))

    def wait(self) -> None:
        self.now_ms += LOOK_INTERVAL_MS


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    """Mount a file system of 20 MiB."""
    with mounted_tmpfs(tmp_path, f"size={TOTAL}") as root:
        yield Volume(root)


def test_clients_fill_a_volume_up_to_the_bound_and_followers_half_of_the_rest(
    volume: Volume,
) -> None:
    space = volume.space
    assert (space.total_bytes, space.free_bytes) == (TOTAL, TOTAL)
    assert space.admit_from_client(15 * MIB)
    volume.fill_to(15 * MIB)
    assert not space.admit_from_client(2 * MIB)
    assert not space.admit_from_client(1)
    assert space.is_full
    assert volume.changes == [True]
    assert space.admit_from_leader(3 * MIB)
    assert not space.admit_from_leader(3 * MIB + 1)


def test_another_bound_holds_at_once_in_both_directions(volume: Volume) -> None:
    space = volume.space
    volume.fill_to(10 * MIB)
    volume.wait()
    assert space.admit_from_client(1)
    space.change_fill_max(0.4)
    assert (space.is_full, volume.changes) == (True, [True])
    assert not space.admit_from_client(1)
    space.change_fill_max(FILL_MAX)
    assert (space.is_full, volume.changes) == (False, [True, False])


def test_what_was_admitted_counts_once_it_is_written(volume: Volume) -> None:
    """A batch that the core refuses afterwards takes no room from the next one."""
    space = volume.space
    for _ in range(10):
        assert space.admit_from_client(10 * MIB)
    volume.fill_to(10 * MIB)
    assert not space.admit_from_client(10 * MIB), "the figures are not too old"
    assert volume.changes == [True]


def test_what_other_programs_write_counts(volume: Volume) -> None:
    space = volume.space
    volume.fill_to(17 * MIB)
    assert space.admit_from_client(1), "the figures are not too old yet"
    volume.wait()
    assert not space.admit_from_client(1)
    volume.fill_to(19 * MIB)
    volume.wait()
    assert not space.admit_from_leader(1)


def test_clients_are_let_in_again_once_there_is_more_room_than_the_bound(volume: Volume) -> None:
    space = volume.space
    volume.fill_to(17 * MIB)
    volume.wait()
    assert not space.admit_from_client(1)
    volume.fill_to(16 * MIB - 65_536)
    volume.wait()
    assert not space.admit_from_client(1), "as much as there was before would flap"
    volume.fill_to(15 * MIB)
    assert not space.admit_from_client(1), "nothing was read since"
    volume.wait()
    assert space.admit_from_client(1)
    assert volume.changes == [True, False]


def test_clients_are_let_in_again_once_the_refused_batch_has_room(volume: Volume) -> None:
    """Leaderships would move to and fro for a batch that is larger than the usual distance."""
    space = volume.space
    volume.fill_to(14 * MIB)
    volume.wait()
    assert not space.admit_from_client(3 * MIB)
    volume.wait()
    assert not space.admit_from_client(1), "the batch would close it again"
    volume.fill_to(13 * MIB)
    volume.wait()
    assert space.admit_from_client(3 * MIB)
    assert volume.changes == [True, False]


def test_a_batch_larger_than_the_volume_locks_nobody_out(volume: Volume) -> None:
    space = volume.space
    assert not space.admit_from_client(TOTAL)
    volume.wait()
    assert space.admit_from_client(1)
    assert volume.changes == [True, False]


def test_a_follower_fetches_again_once_what_was_refused_has_room(volume: Volume) -> None:
    space = volume.space
    volume.fill_to(16 * MIB)
    volume.wait()
    assert not space.admit_from_leader(3 * MIB)
    assert not space.has_room_for_leader()
    volume.fill_to(15 * MIB)
    volume.wait()
    assert space.has_room_for_leader()
    assert space.admit_from_leader(2 * MIB)
    volume.fill_to(18 * MIB)
    volume.wait()
    assert space.has_room_for_leader(), "what was admitted counts for nothing any more"
    volume.fill_to(19 * MIB)
    volume.wait()
    assert not space.has_room_for_leader()


def test_a_broker_that_starts_on_a_full_volume_knows_it(volume: Volume) -> None:
    volume.fill_to(17 * MIB)
    space = volume.again()
    assert space.is_full
    assert volume.changes == []
    assert not space.admit_from_client(1)


def test_figures_that_cannot_be_read_stay(volume: Volume, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: object) -> os.statvfs_result:
        raise OSError("gone")

    monkeypatch.setattr(os, "statvfs", failing)
    volume.wait()
    assert volume.space.admit_from_client(1)


def test_a_volume_that_fills_up_says_when_clients_are_refused(volume: Volume) -> None:
    volume.fill_to(4 * MIB)
    space = volume.again()
    forecasts = [space.fills_in_seconds]
    volume.fill_to(10 * MIB)
    volume.now_ms += FORECAST_LEAST_MS
    assert space.admit_from_client(1)
    forecasts.append(space.fills_in_seconds)
    volume.fill_to(17 * MIB)
    volume.now_ms += FORECAST_LEAST_MS
    assert not space.admit_from_client(1)
    forecasts.append(space.fills_in_seconds)
    # 6 MiB in a minute, then 6 MiB more are left up to the bound of 16 MiB.
    assert forecasts == [math.inf, 60.0, 0.0]

"""The room that a start on a full disk gives up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.errors import LogDirectoryFull
from strandline.log.data_directory import DataDirectory
from strandline.log.reserve import RESERVE_BYTES, RESERVE_FILE
from strandline.log.state_file import BrokerState
from tests.support.volumes import fill_volume, mounted_tmpfs


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system with room for eight reserves."""
    with mounted_tmpfs(tmp_path, f"size={8 * RESERVE_BYTES}") as path:
        yield path


def test_a_full_disk_opens_with_room_for_the_state_file_once(volume: Path) -> None:
    DataDirectory.open(volume).close()
    assert (volume / RESERVE_FILE).stat().st_size == RESERVE_BYTES
    filler = fill_volume(volume)
    directory = DataDirectory.open(volume)
    directory.write_state(BrokerState())
    assert not (volume / RESERVE_FILE).exists()
    directory.close()
    more = fill_volume(volume, "more")
    with pytest.raises(LogDirectoryFull, match="is full: free space or let the volume grow"):
        DataDirectory.open(volume)
    more.unlink()
    DataDirectory.open(volume).close()
    assert not (volume / RESERVE_FILE).exists()
    filler.unlink()
    DataDirectory.open(volume).close()
    assert (volume / RESERVE_FILE).exists()


def test_a_small_volume_has_no_reserve(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path, f"size={3 * RESERVE_BYTES}") as path:
        DataDirectory.open(path).close()
        assert not (path / RESERVE_FILE).exists()

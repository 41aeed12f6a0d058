"""What `strandline status` says of the volumes of brokers."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from strandline_cli.volumes import VolumeSeen, volume_of, volume_row

NOW = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)
METRICS = """\
# TYPE strandline_log_directory_total_bytes gauge
strandline_log_directory_total_bytes 10737418240.0
# TYPE strandline_log_directory_free_bytes gauge
strandline_log_directory_free_bytes 4294967296.0
# TYPE strandline_log_directory_full gauge
strandline_log_directory_full 0.0
# TYPE strandline_log_directory_fill_seconds gauge
strandline_log_directory_fill_seconds {}
"""


def volume(fills_in_seconds: float, *, is_full: bool = False) -> VolumeSeen:
    return VolumeSeen(
        total_bytes=10 << 30, free_bytes=4 << 30, is_full=is_full, fills_in_seconds=fills_in_seconds
    )


def test_a_volume_is_read_from_the_metrics_of_its_broker() -> None:
    assert volume_of(METRICS.format("+Inf")) == volume(math.inf)
    assert volume_of(METRICS.format("90.5")) == volume(90.5)
    with pytest.raises(KeyError):
        volume_of("")


@pytest.mark.parametrize(
    ("seen", "row"),
    [
        (None, ("demo-0", "not reached", "", "")),
        (volume(math.inf), ("demo-0", "10.0 GiB", "60%", "not at the present rate")),
        (volume(1e9), ("demo-0", "10.0 GiB", "60%", "not at the present rate")),
        (volume(0, is_full=True), ("demo-0", "10.0 GiB", "60%", "now: clients are refused")),
        (volume(119), ("demo-0", "10.0 GiB", "60%", "2026-11-22 23:31 UTC, in 1 min")),
        (volume(7_260), ("demo-0", "10.0 GiB", "60%", "2026-11-23 01:31 UTC, in 2 h 1 min")),
        (volume(180_000), ("demo-0", "10.0 GiB", "60%", "2026-11-25 01:30 UTC, in 2 d 2 h")),
    ],
)
def test_a_line_says_when_the_volume_is_full(seen: VolumeSeen | None, row: tuple[str, ...]) -> None:
    assert volume_row("demo-0", seen, NOW) == row

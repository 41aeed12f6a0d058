"""Values that are computed from settings."""

from __future__ import annotations

import pytest

from .samples import SETTINGS


@pytest.mark.parametrize(
    ("failures", "pause_ms"), [(1, 20), (2, 40), (3, 80), (6, 640), (7, 1_000), (5_000, 1_000)]
)
def test_back_off_doubles_up_to_its_bound(failures: int, pause_ms: int) -> None:
    assert SETTINGS.backoff_ms(failures) == pause_ms

"""The back-off doubles up to its bound."""

from __future__ import annotations

import pytest

from strandline.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "pause_ms"), [(1, 50), (2, 100), (3, 200), (6, 1_600), (7, 2_000), (10**9, 2_000)]
)
def test_pause_doubles_up_to_its_bound(failures: int, pause_ms: int) -> None:
    assert Backoff(first_ms=50, max_ms=2_000).after_ms(failures) == pause_ms

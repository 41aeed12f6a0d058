"""The HTTP server of these tests ends with its test, however the test ends."""

from __future__ import annotations

import threading

import pytest

from tests.analysis.http_server import PreparedResponse, served_by


def test_no_thread_is_left_when_what_it_serves_fails() -> None:
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="the test fails"), served_by(PreparedResponse):
        raise RuntimeError("the test fails")
    assert threading.active_count() == before

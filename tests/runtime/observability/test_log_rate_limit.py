"""Log lines that a peer can cause: each kind is logged, and a flood is counted."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from strandline.log_fields import fields
from strandline.runtime.observability.log_rate_limit import (
    BURST_LINES_MAX,
    INTERVAL_SECONDS,
    KINDS_MAX,
    PeerLogRateLimit,
)

MESSAGE = "malformed request"
OUR_LOGGER = "strandline.test"


class Written:
    """A rate limit, and a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self._limit = PeerLogRateLimit(lambda: self.now)

    def line(
        self, extra: Mapping[str, object], message: str = MESSAGE, *, logger: str = OUR_LOGGER
    ) -> logging.LogRecord | None:
        record = logging.getLogger(logger).makeRecord(
            logger, logging.WARNING, "file", 1, message, (), None, extra=extra
        )
        return record if self._limit.filter(record) else None

    def count(self, number: int, extra: Mapping[str, object], message: str = MESSAGE) -> int:
        return sum(self.line(extra, message) is not None for _ in range(number))


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({"peer": "10.0.0.1:4000"}, id="beside the message"),
        pytest.param(fields(peer="10.0.0.1:4000"), id="as fields"),
        pytest.param(
            fields(fence="leader_epoch", detail="fetch"), id="a fence, noticed by the core"
        ),
    ],
)
def test_a_flood_is_cut_and_the_next_line_counts_what_was_left_out(
    extra: Mapping[str, object],
) -> None:
    written = Written()
    assert written.count(BURST_LINES_MAX + 7, extra) == BURST_LINES_MAX
    written.now += INTERVAL_SECONDS
    record = written.line(extra)
    assert record is not None
    assert record.__dict__["left_out"] == 7
    assert written.line(extra) is None


def test_a_line_that_no_peer_can_cause_always_passes() -> None:
    assert (
        Written().count(10 * BURST_LINES_MAX, fields(partition="t-0"), "became leader")
        == 10 * BURST_LINES_MAX
    )


def test_lines_of_a_library_are_limited_without_a_peer() -> None:
    written = Written()
    passed = [
        written.line({}, "call failed", logger="grpc._cython") for _ in range(2 * BURST_LINES_MAX)
    ]
    assert sum(record is not None for record in passed) == BURST_LINES_MAX


@pytest.mark.parametrize(
    ("other", "message"),
    [
        pytest.param({"peer": "10.0.0.2:4000"}, MESSAGE, id="another host"),
        pytest.param({"peer": "10.0.0.1:4000", "error": "CORRUPT"}, MESSAGE, id="another error"),
        pytest.param({"peer": "10.0.0.1:4000"}, "request refused", id="another message"),
    ],
)
def test_a_flood_hides_only_lines_of_its_own_kind(other: dict[str, object], message: str) -> None:
    written = Written()
    written.count(2 * BURST_LINES_MAX, {"peer": "10.0.0.1:4000"})
    assert written.line(other, message) is not None


def test_lines_about_two_ports_of_a_peer_are_one_kind() -> None:
    written = Written()
    passed = [written.line({"peer": f"10.0.0.1:{port}"}) for port in range(2 * BURST_LINES_MAX)]
    assert sum(record is not None for record in passed) == BURST_LINES_MAX


def test_kinds_are_bounded_and_full_buckets_are_dropped() -> None:
    written = Written()
    for host in range(KINDS_MAX):
        assert written.line({"peer": f"h{host}:1"}) is not None
    shared = [written.line({"peer": f"more{host}:1"}) for host in range(3 * BURST_LINES_MAX)]
    assert sum(record is not None for record in shared) == BURST_LINES_MAX
    written.now += BURST_LINES_MAX * INTERVAL_SECONDS
    assert written.count(2 * BURST_LINES_MAX, {"peer": "new:1"}) == BURST_LINES_MAX

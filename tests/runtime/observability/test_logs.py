"""A log line is one JSON object with every value of the call."""

from __future__ import annotations

import json
import logging

import pytest

from strandline.log_fields import fields
from strandline.runtime.observability.logs import BrokerLogFormatter


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(fields(cause="cut", peer=3), id="fields, which may be named as they like"),
        pytest.param({"cause": "cut", "peer": 3}, id="extra alone, as a library may"),
    ],
)
def test_a_line_carries_context_and_every_value_of_the_call(extra: dict[str, object]) -> None:
    lines = BrokerLogFormatter()
    lines.bind(broker_id=1)
    record = logging.getLogger("strandline.test").makeRecord(
        "strandline.test", logging.WARNING, "file", 1, "stream closed", (), None, extra=extra
    )
    line = json.loads(lines.format(record))
    del line["time"]
    assert line == {
        "level": "WARNING",
        "logger": "strandline.test",
        "message": "stream closed",
        "broker_id": 1,
        "cause": "cut",
        "peer": 3,
    }

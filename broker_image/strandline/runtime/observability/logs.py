"""Logs as JSON lines: a constant message, and the values as fields.

`configure` is called once by `main`. Every line carries broker_id, and broker_epoch once
it is known. A message never contains a value, so that lines can be counted by message.
Lines that peers can cause are limited in rate (`log_rate_limit`).
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from strandline.log_fields import FIELDS_ATTRIBUTE, fields_of

from .log_rate_limit import PeerLogRateLimit

ROOT: Final = "strandline"
_OWN_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", FIELDS_ATTRIBUTE}
"""Attributes of every record; all others came with the call's `extra` and belong in the line."""


class BrokerLogFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, context, fields."""

    def __init__(self) -> None:
        super().__init__()
        self._context: dict[str, object] = {}

    def bind(self, **values: object) -> None:
        """Add values to every line from now on."""
        self._context.update(values)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without its end."""
        moment = datetime.fromtimestamp(record.created, tz=UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._context,
            **{name: value for name, value in vars(record).items() if name not in _OWN_ATTRIBUTES},
            **fields_of(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(stream: TextIO = sys.stdout, level: int = logging.INFO) -> BrokerLogFormatter:
    """Send all logs of the process to one stream as JSON lines; return their formatter."""
    formatter = BrokerLogFormatter()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(PeerLogRateLimit())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries log from WARNING up; our own lines obey the level.
    root.setLevel(logging.WARNING)
    logging.getLogger(ROOT).setLevel(level)
    return formatter

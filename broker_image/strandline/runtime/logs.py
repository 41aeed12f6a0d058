"""Logs as JSON lines: a constant message, and the values as fields.

`configure` is called once by `main`. Every line carries broker_id, and broker_epoch once
it is known. A message never contains a value, so that lines can be counted by message.
Lines that others can cause are bounded in number (`log_bound`).
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from .log_bound import PeerLineBound

ROOT: Final = "strandline"
_FIELDS: Final = "fields"
_OWN_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", _FIELDS}
"""What every record has; all else came with the call's `extra` and belongs in the line."""


class JsonLines(logging.Formatter):
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
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(stream: TextIO = sys.stdout, level: int = logging.INFO) -> JsonLines:
    """Send all logs of the process to one stream as JSON lines.

    Returns: the formatter, whose context can be extended
    """
    formatter = JsonLines()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.addFilter(PeerLineBound())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries speak only of what someone should look at; our own lines obey the level.
    root.setLevel(logging.WARNING)
    logging.getLogger(ROOT).setLevel(level)
    return formatter


def fields(**values: object) -> dict[str, dict[str, object]]:
    """Return the `extra` of a logging call: values beside the message."""
    return {_FIELDS: values}

"""The fields of a log line: named values beside its constant message.

Every module that logs passes `extra=fields(...)`; the formatters and filters of the processes
read them with `fields_of`. All fields travel in one attribute of the log record, so that a field
may have the name of one of the record's own attributes.
"""

from __future__ import annotations

import logging
from typing import Any, Final

FIELDS_ATTRIBUTE: Final = "fields"


def fields(**values: object) -> dict[str, dict[str, object]]:
    """Return the `extra` of a logging call."""
    return {FIELDS_ATTRIBUTE: values}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a record; a library's record has none."""
    found: dict[str, Any] = getattr(record, FIELDS_ATTRIBUTE, {})
    return found

"""The history of a load without an end: a file, or its newest lines in files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

FILES_KEPT = 2


class HistoryFile(Protocol):
    """Where a load writes lines: a file, or the newest part of one."""

    def write(self, text: str, /) -> object:
        """Write text that ends with a line end."""

    def flush(self) -> None:
        """Hand what was written to the system."""


class NewestHistory:
    """Files of a name and six digits, of which the last ones are kept; lines bounds all together.

    No file is renamed, so whoever reads them by their names gets lines without a hole.
    """

    def __init__(self, path: Path, lines: int) -> None:
        self._path = path
        self._lines_max = max(1, lines // FILES_KEPT)
        self._number = 1
        self._lines = 0
        self._file = self._name(1).open("w", encoding="utf-8")

    def write(self, text: str, /) -> None:
        """Write a line; a full file is closed before it."""
        if self._lines >= self._lines_max:
            self._file.close()
            self._number += 1
            self._lines = 0
            self._file = self._name(self._number).open("w", encoding="utf-8")
            self._name(self._number - FILES_KEPT).unlink(missing_ok=True)
        self._file.write(text)
        self._lines += 1

    def flush(self) -> None:
        """Hand what was written to the system."""
        self._file.flush()

    def close(self) -> None:
        """Close the last file."""
        self._file.close()

    def _name(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number:06}")

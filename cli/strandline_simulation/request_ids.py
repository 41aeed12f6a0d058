"""Numbers for the requests that one process hands to its core."""

from __future__ import annotations


class RequestIds:
    """Ascending numbers; each is given once."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """Return a number that no request of the process has."""
        self._last += 1
        return self._last

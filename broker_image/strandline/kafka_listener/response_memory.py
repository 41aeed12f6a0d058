"""The memory of one response: from the moment its bytes are read until the client has taken them.

Used by `connection` and `response_queue`; a handler that reads much asks for it first. A small
response is not counted: its connection takes no request beyond two of them.
"""

from __future__ import annotations

import asyncio

from .budget import Budget, Share


class ResponseMemory:
    """What one response holds of the memory of all responses."""

    def __init__(self, budget: Budget, *, small_max_bytes: int) -> None:
        self._small_max_bytes = small_max_bytes
        self._share = Share(budget, self._wake)
        self._turn: asyncio.Future[None] | None = None

    @property
    def is_counted(self) -> bool:
        """Tell whether the response is large."""
        return self._share.held > 0

    async def admit(self, size_bytes: int) -> bool:
        """Hold the memory of a large response; True if that had to wait."""
        if size_bytes <= self._small_max_bytes or self._share.hold(size_bytes):
            return False
        self._turn = asyncio.get_running_loop().create_future()
        await self._turn
        return True

    def encoded(self, size_bytes: int) -> None:
        """Hold the true size of the response; a large one that did not ask is counted, too."""
        if size_bytes > self._small_max_bytes:
            self._share.resize(size_bytes)
        elif self.is_counted or self._turn is not None:
            self._share.give_back()

    def give_back(self) -> None:
        """Hold nothing: the client has taken the response, or will never get it."""
        self._share.give_back()

    def _wake(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

"""The memory that requests without a response may hold together, per listener.

Called by `connection`: a connection that gets no bytes stops reading until `release` wakes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class RequestMemory:
    """Counts bytes of frames from their arrival to their response.

    Invariant: used_bytes is the sum of all reservations. While nothing is used, a frame of any
    size is let in, so that a bound below the greatest frame cannot stop every client.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._waiting: deque[Callable[[], None]] = deque()
        self.used_bytes = 0

    def reserve(self, size_bytes: int) -> bool:
        """Take bytes if they are free; False changes nothing."""
        if self.used_bytes and self.used_bytes + size_bytes > self._max_bytes:
            return False
        self.used_bytes += size_bytes
        return True

    def wait(self, wake: Callable[[], None]) -> None:
        """Call `wake` once when bytes are released; a second `wait` for it changes nothing."""
        if wake not in self._waiting:
            self._waiting.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Do not call `wake` any more."""
        if wake in self._waiting:
            self._waiting.remove(wake)

    def release(self, size_bytes: int) -> None:
        """Release bytes and wake each connection that waits now; it may have to wait again."""
        self.used_bytes -= size_bytes
        for _ in range(len(self._waiting)):
            if not self._waiting:
                return
            self._waiting.popleft()()

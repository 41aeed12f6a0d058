"""The memory that unanswered requests of one listener may hold together.

Called by `connection`: a connection that gets no bytes stops reading; it is called back when
bytes are free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class RequestMemory:
    """Counts bytes of frames from their arrival to their response.

    Invariant: used is the sum of all reservations. A single frame is let in whatever its size
    when nothing is used, so that a bound below the greatest frame cannot stop every client.
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
        """Have `wake` called once when bytes are given back; the same one waits only once."""
        if wake not in self._waiting:
            self._waiting.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Do not call `wake` any more."""
        if wake in self._waiting:
            self._waiting.remove(wake)

    def release(self, size_bytes: int) -> None:
        """Give bytes back and wake each connection that waits now; each may have to wait again."""
        self.used_bytes -= size_bytes
        for _ in range(len(self._waiting)):
            if not self._waiting:
                return
            self._waiting.popleft()()

"""Cut a stream of bytes into frames, copying each byte at most once.

Used by `connection`. Small frames arrive in a staging buffer and are copied out; the rest of a
frame that does not fit there arrives straight in the bytearray it stays in. The length is checked
before anything is allocated.
"""

from __future__ import annotations

import struct

from .wire import MalformedRequest

LENGTH_BYTES = 4

_LENGTH = struct.Struct(">i")
_API_KEY = struct.Struct(">h")


class FrameAssembler:
    """The bytes of one connection that are not yet a request.

    Shape: staging[start:end] are bytes received and not taken; large, if not None, is the
           body of the frame being received, of which large_filled bytes are there.
    """

    def __init__(self, *, staging_bytes: int, frame_max_bytes: int, frame_min_bytes: int) -> None:
        self._staging = bytearray(staging_bytes)
        self._view = memoryview(self._staging)
        self._start = 0
        self._end = 0
        self._large: bytearray | None = None
        self._large_filled = 0
        self._frame_max_bytes = frame_max_bytes
        self._frame_min_bytes = frame_min_bytes

    @property
    def is_partial(self) -> bool:
        """Tell whether bytes of a frame have come that `take` has not returned."""
        return self._large is not None or self._end > self._start

    def space(self) -> memoryview:
        """Return the buffer for the next bytes; it is empty only if a whole frame waits."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        if self._start:
            rest = self._end - self._start
            self._staging[:rest] = self._staging[self._start : self._end]
            self._start, self._end = 0, rest
        return self._view[self._end :]

    def received(self, count: int) -> None:
        """Count bytes that were put into `space`."""
        if self._large is not None:
            self._large_filled += count
        else:
            self._end += count

    def next_size(self) -> int | None:
        """Return the size of the frame in progress, None while unknown; MalformedRequest if bad."""
        if self._large is not None:
            return len(self._large)
        if self._end - self._start < LENGTH_BYTES:
            return None
        (size,) = _LENGTH.unpack_from(self._staging, self._start)
        if not self._frame_min_bytes <= size <= self._frame_max_bytes:
            raise MalformedRequest(f"frame length {size}")
        if self._end - self._start < LENGTH_BYTES + self._frame_min_bytes:
            return None
        return int(size)

    def fits_staging(self, size: int) -> bool:
        """Tell whether a frame of that size needs no memory of its own to arrive."""
        return size + LENGTH_BYTES <= len(self._staging)

    def next_api_key(self) -> int:
        """Return the API key of the frame in progress, once its size is known."""
        if self._large is not None:
            (key,) = _API_KEY.unpack_from(self._large)
        else:
            (key,) = _API_KEY.unpack_from(self._staging, self._start + LENGTH_BYTES)
        return int(key)

    def take(self) -> memoryview | None:
        """Return the frame in progress if it is complete; the memory is the caller's alone."""
        if self._large is not None:
            if self._large_filled < len(self._large):
                return None
            frame, self._large, self._large_filled = memoryview(self._large), None, 0
            return frame
        size = self.next_size()
        if size is None:
            return None
        begin = self._start + LENGTH_BYTES
        if self._end - begin >= size:
            self._start = begin + size
            return memoryview(bytes(self._view[begin : self._start]))
        if not self.fits_staging(size):
            self._large = bytearray(size)
            self._large_filled = self._end - begin
            self._large[: self._large_filled] = self._view[begin : self._end]
            self._start = self._end = 0
        return None

"""Files of a Prometheus block: mapped into memory, read by sections whose checksums are verified.

Called by `tsdb_index` and `tsdb_block`. Only what is asked for is copied, so the memory that is
needed does not grow with a file. A file that ends early, or whose bytes changed, is refused with
one sentence that has its path.

Source: Prometheus tsdb/docs/format, tsdb/encoding.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Final

import crc32c

CHECKSUM_BYTES: Final = 4
UVARINT_BYTES_MAX: Final = 10
MASK: Final = (1 << 64) - 1


class BlockRefused(ValueError):
    """A folder of blocks, or a file of a block, is not what is read here."""


class MappedFile:
    """A file of a block; `close` it after use."""

    def __init__(self, path: Path, *, magic: int, version: int) -> None:
        """Map a file that begins with four bytes of magic and one of its format's version.

        Raises:  BlockRefused if it cannot be read or is another file
        """
        self.path = path
        try:
            with path.open("rb") as opened:
                self._data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise BlockRefused(f"{path} cannot be read: {error}") from error
        try:
            self._check_begin(magic, version)
        except BlockRefused:
            self.close()
            raise

    def _check_begin(self, magic: int, version: int) -> None:
        found = self.number(0, 4)
        if found != magic:
            said = f"it begins with {found:#010x}, not {magic:#010x}"
            raise self.refused(f"is no {self.path.name} file of a block: {said}")
        found = self.number(4, 1)
        if found != version:
            raise self.refused(f"has version {found} of its format; only {version} is read")

    def __len__(self) -> int:
        """Return the number of bytes."""
        return len(self._data)

    def close(self) -> None:
        """Let go of the file."""
        self._data.close()

    def refused(self, said: str) -> BlockRefused:
        """Return the refusal of this file: its path, and what is said."""
        return BlockRefused(f"{self.path} {said}")

    def part(self, at: int, size: int) -> bytes:
        """Return so many bytes.

        Raises:  BlockRefused if the file ends before
        """
        if not 0 <= at <= at + size <= len(self._data):
            raise self.refused(f"ends before byte {at + size}: it is cut off or damaged")
        return self._data[at : at + size]

    def number(self, at: int, size: int) -> int:
        """Return a number of so many bytes, the most significant first."""
        return int.from_bytes(self.part(at, size), "big")

    def verify(self, at: int, size: int, *, what: str) -> None:
        """Compare so many bytes with the CRC-32C that follows them.

        Raises:  BlockRefused if they differ
        """
        stated = self.number(at + size, CHECKSUM_BYTES)
        with memoryview(self._data) as whole, whole[at : at + size] as covered:
            found = crc32c.crc32c(covered)
        if found != stated:
            raise self.refused(f"is damaged: the checksum of {what} at byte {at} differs")

    def checked(self, at: int, size: int, *, what: str) -> bytes:
        """Return so many bytes after `verify`."""
        self.verify(at, size, what=what)
        return self.part(at, size)

    def uvarint(self, at: int) -> tuple[int, int]:
        """Return an unsigned varint, and the place behind it."""
        data, value = self._data, 0
        for index, place in enumerate(range(at, min(at + UVARINT_BYTES_MAX, len(data)))):
            byte = data[place]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value, place + 1
        raise self.refused(f"is damaged: no number ends at byte {at}")


def uvarints(data: bytes) -> list[int]:
    """Return all unsigned varints of which data consists; bytes behind the last end are left out.

    A loop over bytes and not over numbers: the entries of series are long.
    """
    found = []
    value = shift = 0
    for byte in data:
        if byte < 0x80:
            found.append(value | byte << shift)
            value = shift = 0
        else:
            value |= (byte & 0x7F) << shift
            shift += 7
    return found


def signed(value: int) -> int:
    """Return the signed number that an unsigned varint stands for: the lowest bit is the sign."""
    return -(value >> 1) - 1 if value & 1 else value >> 1


def wrapped(value: int) -> int:
    """Return a number as 64 bits with a sign hold it."""
    value &= MASK
    return value - (1 << 64) if value >> 63 else value

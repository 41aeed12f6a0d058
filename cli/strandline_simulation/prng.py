"""A keyed PRNG: what happens to the n-th message of a link depends on the seed and n alone.

So deleting a fault or a request from a plan leaves the fate of everything else as it was,
which is what makes plans shrink. Never uses Python's own hash of strings.
"""

from __future__ import annotations

from hashlib import blake2b

_MASK = (1 << 64) - 1


def key_of(seed: int, *names: str | int) -> int:
    """Return the key of a link or an actor."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class Prng:
    """An endless stream of pseudo-random numbers that belongs to one key (splitmix64)."""

    __slots__ = ("_state",)

    def __init__(self, key: int) -> None:
        self._state = key & _MASK

    def draw(self) -> int:
        """Return the next 64 bits."""
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return state ^ (state >> 31)

    def between(self, least: int, most: int) -> int:
        """Return a number of [least, most]."""
        return least + self.draw() % (most - least + 1) if most > least else least

    def chance(self, per_mille: int) -> bool:
        """Return true in `per_mille` of a thousand cases."""
        return per_mille > 0 and self.draw() % 1000 < per_mille

"""How many bytes a broker may send to, or receive for, replicas that are being added.

Pure: the time is an argument. A broker has two: what it sends as a leader (ADR 0061) is asked for
and noted by `replication_transport`, which reads for copies; what it receives as a follower (ADR
0063) by `fetchers`. One bucket for all peers: it fills with the rate, records empty it, and an
overdrawn one is paid off first. Invariant: in any time t the copies get at most the rate times t,
one BURST_SECONDS, and what overdraws it: one record batch to send, one response of each leader to
receive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from strandline.model import BrokerId

BURST_SECONDS: Final = 1
"""The bucket holds what the rate brings in this time: longer than a follower's fetch waits."""

GATHER_MS: Final = 100
"""A copy that must wait does so until the bytes of this time are there: it is fetched at most ten
times a second, and for more than one batch."""

WAIT_MAX_MS: Final = 1_000
"""A copy waits no longer at once: a changed rate counts soon, and the follower hears of its other
partitions."""

TURN_KEPT_MS: Final = 3 * WAIT_MAX_MS
"""A peer that was refused and has not come back for this long loses its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyIntakeChanged:
    """A running broker may receive so many bytes of copies per second from now on."""

    rate: int


@dataclass(slots=True, eq=False)
class CopyQuota:
    """The bucket, and who waits for it.

    Peers that were refused have their turn one after the other. Meanwhile the lower half of the
    bucket is closed to the others: one that fetches often would take all from one that waits.

    Source:  Kafka 3.9 ReplicationQuotaManager has one quota, too, and no turns
    """

    rate: int
    """Bytes per second."""
    _level: float = field(init=False)
    _filled_ms: int | None = field(default=None, init=False)
    _turns: dict[BrokerId, int] = field(default_factory=dict, init=False)
    """Who was refused, the first one first, to the time when the turn is lost."""

    def __post_init__(self) -> None:
        """Begin with a full bucket."""
        self._level = self._capacity

    def change_rate(self, rate: int) -> None:
        """Take over another rate; debts stay, and are paid off with it."""
        self.rate = rate
        self._level = min(self._level, self._capacity)

    def allowed_bytes(self, peer: BrokerId, now_ms: int) -> int:
        """Return how many bytes of copies a peer may get, or send, now; 0 for none.

        A reader may exceed it by the batch that it cannot divide.
        """
        self._fill(now_ms)
        return max(0, int(self._level - self._closed_to(peer, now_ms)))

    def wait_ms(self, peer: BrokerId, now_ms: int) -> int:
        """Return how long the copies of a peer have to wait, 0 if they have not."""
        if self.allowed_bytes(peer, now_ms) > 0:
            return 0
        lacking = self._closed_to(peer, now_ms) - self._level
        return min(WAIT_MAX_MS, GATHER_MS + int(lacking * 1_000 / self.rate))

    def note_copied(self, peer: BrokerId, size: int) -> None:
        """Take bytes that were copied out of the bucket; the turn of their peer is over."""
        if size > 0:
            self._level -= size
            self._turns.pop(peer, None)

    def note_refused(self, peer: BrokerId, now_ms: int) -> None:
        """Note that a peer waits; one that did so before keeps its place."""
        self._turns[peer] = now_ms + TURN_KEPT_MS

    @property
    def _capacity(self) -> float:
        return float(self.rate * BURST_SECONDS)

    def _fill(self, now_ms: int) -> None:
        since_ms = now_ms - (now_ms if self._filled_ms is None else self._filled_ms)
        self._level = min(self._capacity, self._level + self.rate * since_ms / 1_000)
        self._filled_ms = now_ms

    def _closed_to(self, peer: BrokerId, now_ms: int) -> float:
        """Return the part of the bucket that is kept for those who wait longer."""
        if not self._turns:
            return 0.0
        for lost in [each for each, until_ms in self._turns.items() if until_ms <= now_ms]:
            del self._turns[lost]
        first = next(iter(self._turns), peer)
        return 0.0 if first == peer else self._capacity / 2

"""Where each leader epoch began in a log: by these entries two histories are compared.

A leader finds where an epoch ended, a follower finds the common prefix. Only `LocalLog` changes
the entries.
Invariant: epochs and start offsets strictly ascend, the last start is not beyond the log
end. `EpochCache` knows no files; `WriteEpochCheckpoint` carries the entries to them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

from strandline.errors import InvariantViolation
from strandline.model import NO_EPOCH, UNKNOWN_EPOCH_END, EpochEndOffset, EpochStart, LeaderEpoch


class EpochCache:
    """The entries (leader epoch, first offset) of one log, as in Kafka 3.9 LeaderEpochFileCache."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries = list(entries)
        for entry, later in pairwise(self._entries):
            if not (
                entry.leader_epoch < later.leader_epoch and entry.start_offset < later.start_offset
            ):
                raise InvariantViolation("leader epochs ascend in the log", entry=later)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """The entries, ascending."""
        return tuple(self._entries)

    @property
    def newest(self) -> LeaderEpoch:
        """The last epoch known, NO_EPOCH without any."""
        return self._entries[-1].leader_epoch if self._entries else NO_EPOCH

    @property
    def last_start_offset(self) -> int:
        """Where the last epoch begins, -1 without any."""
        return self._entries[-1].start_offset if self._entries else -1

    def assign(self, leader_epoch: LeaderEpoch, start_offset: int) -> bool:
        """Note that an epoch begins at an offset.

        Entries that contradict it are dropped from the end: an epoch without records
        leaves its place to the next one.

        Returns: False when the newest epoch is this one already
        """
        if self.newest == leader_epoch and self.last_start_offset <= start_offset:
            return False
        while self._entries and (
            self._entries[-1].leader_epoch >= leader_epoch
            or self._entries[-1].start_offset >= start_offset
        ):
            self._entries.pop()
        self._entries.append(EpochStart(leader_epoch=leader_epoch, start_offset=start_offset))
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop epochs that begin at or beyond an offset; return whether there were any.

        Called even when the log itself is not cut: after elections without records two
        replicas may differ in an empty last epoch only, and would compare for ever
        (KAFKA-10706).
        """
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        changed = len(kept) != len(self._entries)
        self._entries = kept
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Let the epoch at an offset begin there, drop those before it; tell whether any changed.

        Source:  Kafka 3.9 LeaderEpochFileCache.truncateFromStart
        """
        count = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if count == 0 or (count == 1 and self._entries[0].start_offset == start_offset):
            return False
        first = self._entries[count - 1]._replace(start_offset=start_offset)
        self._entries = [first, *self._entries[count:]]
        return True

    def end_offset_for(self, asked: LeaderEpoch, log_end_offset: int) -> EpochEndOffset:
        """Return the greatest epoch not above `asked` and where it ends.

        Returns: UNKNOWN_EPOCH_END for an undefined or future epoch; an epoch older than
                 every entry ends where the first one begins
        """
        if asked == NO_EPOCH or not self._entries or asked > self.newest:
            return UNKNOWN_EPOCH_END
        if asked == self.newest:
            return EpochEndOffset(leader_epoch=asked, end_offset=log_end_offset)
        above = bisect_right(self._entries, asked, key=lambda entry: entry.leader_epoch)
        found = self._entries[above - 1].leader_epoch if above else asked
        return EpochEndOffset(leader_epoch=found, end_offset=self._entries[above].start_offset)
